"""What a worker was asked to do: the command's options, for it and for its children."""

import json
from dataclasses import asdict, dataclass, fields

from django_leasequeue.selection import Selection

# Jobs with which a worker was lost run alone in a process. It takes none of them, or no
# others, or one at a time whenever nothing else runs.
SUSPECTS = ("leave", "only", "between")
# Jobs of one claim, which holds their rows locked for as long as it takes.
LARGEST_CLAIM = 500
_LIMITS = ("stop_after", "max_jobs", "max_memory")


class WrongOption(ValueError):
    """An option makes no sense: `name` and, as the rest of the sentence, the `problem`."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"{name} {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The effective options.

    Raises WrongOption for one that makes no sense, ValueError for queues that don't.
    """

    # Comma-separated names, as for Selection.parse.
    queues: str
    exclude: str
    # The database's alias.
    database: str
    processes: int
    # Jobs at once in each process: in threads, and beside them those of `async def` tasks.
    threads: int
    async_tasks: int
    # Seconds that running jobs have left after a stop was asked for.
    shutdown_timeout: float
    # Whether to end once nothing is due.
    drain: bool = False
    # How many jobs to start before the end; None for no end. In a child: its own share.
    stop_after: int | None = None
    # After how many jobs, and with how many MiB of memory, a child is replaced by a fresh one;
    # None for never. In a child, `max_jobs` is its own number.
    max_jobs: int | None = None
    max_memory: int | None = None
    # What to do about jobs that are to run alone in their process: see SUSPECTS.
    suspects: str = "leave"
    # The id of the one job to run, whatever its queue; None for those of the queues.
    job: int | None = None
    # Whether to start anew when the code changes.
    reload: bool = False
    verbosity: int = 1

    def __post_init__(self) -> None:
        for name in ("processes", "threads", "async_tasks", *_LIMITS):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise WrongOption(name, f"must be at least 1, not {number}.")
        if not self.shutdown_timeout >= 0:
            raise WrongOption(
                "shutdown_timeout",
                f"must be 0 or more seconds, not {self.shutdown_timeout:g}.",
            )
        if self.suspects not in SUSPECTS:
            raise WrongOption("suspects", f"must be one of {SUSPECTS}.")
        Selection.parse(self.queues, self.exclude)

    @property
    def selection(self) -> Selection:
        """The queues to take jobs from."""
        return Selection.parse(self.queues, self.exclude)

    @property
    def most_held(self) -> int:
        """How many jobs a process may hold, from their claim until their outcome is stored."""
        return self.threads + self.async_tasks + 4 * LARGEST_CLAIM

    def to_json(self) -> str:
        """Return the options as text, for a child's environment."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "WorkerOptions":
        """Return the options that `to_json` wrote."""
        known = {field.name for field in fields(cls)}
        return cls(
            **{key: value for key, value in json.loads(text).items() if key in known}
        )
