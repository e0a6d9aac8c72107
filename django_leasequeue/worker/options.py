"""What a worker was asked to do: the command's options, for it and for its children."""

import json
from dataclasses import asdict, dataclass, fields

from django_leasequeue.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The effective options. Raises ValueError for one that makes no sense."""

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
    max_jobs: int | None = None
    # Whether to start anew when the code changes.
    reload: bool = False
    verbosity: int = 1

    def __post_init__(self) -> None:
        for name in ("processes", "threads", "async_tasks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1.")
        if self.max_jobs is not None and self.max_jobs < 1:
            raise ValueError("max_jobs must be at least 1.")
        if not self.shutdown_timeout >= 0:
            raise ValueError("shutdown_timeout must be 0 or more seconds.")
        Selection.parse(self.queues, self.exclude)

    @property
    def selection(self) -> Selection:
        """The queues to take jobs from."""
        return Selection.parse(self.queues, self.exclude)

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
