"""LEASEQUEUE, the package's one setting: read when needed, checked as a whole."""

from django_leasequeue.backoff import Backoff
from django_leasequeue.conf.keys import PER_QUEUE, SETTINGS
from django_leasequeue.conf.kinds import Problem, WrongSetting
from django_leasequeue.conf.lookup import of_project, of_queue, pair_problem
from django_leasequeue.conf.problems import problems
from django_leasequeue.retention import Rules

__all__ = ["PER_QUEUE", "SETTINGS", "Problem", "WrongSetting", "conf"]


class Conf:
    """The effective settings; durations are seconds.

    Raise ImproperlyConfigured when a setting is read whose value can't be used.
    """

    def lease(self, queue: str) -> float:
        """Return for how many seconds a claim or a renewal holds a job."""
        return of_queue("LEASE", queue)

    def safety_buffer(self, queue: str) -> float:
        """Return how many seconds before the lease's end writes are refused."""
        problem = pair_problem(queue)
        if problem:
            raise WrongSetting(problem)
        return of_queue("SAFETY_BUFFER", queue)

    def max_recoveries(self, queue: str) -> int:
        """Return how often a job runs again after its worker died."""
        return of_queue("MAX_RECOVERIES", queue)

    def max_attempts(self, queue: str) -> int:
        """Return how often a job is run in all."""
        return of_queue("MAX_ATTEMPTS", queue)

    def backoff(self, queue: str) -> Backoff:
        """Return how long a job waits between its attempts."""
        return of_queue("BACKOFF", queue)

    def concurrency(self, queue: str) -> int | None:
        """Return how many jobs of the queue run at one time; None for any number."""
        return of_queue("CONCURRENCY", queue)

    def retention(self, queue: str) -> Rules:
        """Return how long finished jobs are kept, by status."""
        project = SETTINGS["RETENTION"].default | of_project("RETENTION")
        return project | of_queue("RETENTION", queue)

    @property
    def processes(self) -> int:
        """How many child processes a worker has."""
        return of_project("PROCESSES")

    @property
    def threads(self) -> int:
        """How many jobs each process runs at once."""
        return of_project("THREADS")

    @property
    def async_tasks(self) -> int:
        """How many `async def` jobs each process runs at once, beside threads."""
        return of_project("ASYNC_TASKS")

    @property
    def shutdown_timeout(self) -> float:
        """How many seconds running jobs have left after a first SIGTERM."""
        return of_project("SHUTDOWN_TIMEOUT")

    @property
    def notify(self) -> bool:
        """Whether PostgreSQL is to wake workers."""
        return of_project("NOTIFY")

    @property
    def poll_interval(self) -> float:
        """How many seconds an idle worker that nothing wakes waits before it looks again."""
        return of_project("POLL_INTERVAL")

    @property
    def task_modules(self) -> tuple[str, ...]:
        """Modules with tasks, beside the `tasks` module of each app."""
        return of_project("TASK_MODULES")

    @property
    def middleware(self) -> tuple[str, ...]:
        """Dotted paths of what is entered around each run."""
        return of_project("MIDDLEWARE")

    @property
    def max_argument_bytes(self) -> int:
        """The longest JSON text of a job's arguments."""
        return of_project("MAX_ARGUMENT_BYTES")

    @property
    def max_result_bytes(self) -> int:
        """The longest JSON text of a result that is kept."""
        return of_project("MAX_RESULT_BYTES")

    @property
    def max_errors(self) -> int:
        """How many of a job's errors are kept, the newest."""
        return of_project("MAX_ERRORS")

    @property
    def immediate(self) -> bool:
        """Whether a dispatch runs its job itself, for development."""
        return of_project("IMMEDIATE")

    def problems(self) -> list[Problem]:
        """Return all that is wrong with LEASEQUEUE, in the order it is written."""
        return list(problems())


conf = Conf()
