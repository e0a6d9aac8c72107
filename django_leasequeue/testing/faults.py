"""What befalls workers, made to happen to the runs of a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django_leasequeue import registry

# Beside the names of steps.
START, RUN = "start", "run"
_active: list["Fault"] = []


class WorkerDies(BaseException):
    """Raised in a task at the point where its worker is to die: code that handles errors
    does not take it for one."""


class Fault:
    """Something that is to happen to runs: see simulate_crash() and simulate_lost_lease()."""

    def __init__(self, kind: str, after: str, task: Any, times: int) -> None:
        self.kind, self.after, self.times = kind, after, times
        self.task = None if task is None else registry.resolve(task).name
        #: To how many runs it has happened.
        self.happened = 0
        # Where such runs have come by, in order.
        self._points: dict[str, None] = {}

    def __str__(self) -> str:
        return f"{self.kind} after {self.after!r}"

    def strikes(self, point: str, task: str) -> bool:
        """Whether it is to happen here, which is counted."""
        if self.task is not None and self.task != task:
            return False
        self._points[point] = None
        if point != self.after or self.happened >= self.times:
            return False
        self.happened += 1
        return True

    @property
    def passed(self) -> str:
        """Where runs have come by, for people."""
        points = ", ".join(map(repr, self._points))
        return f"They came by {points}" if points else "There was no such run at all"


def simulate_crash(*, after: str = RUN, task: Any = None, times: int = 1) -> Any:
    """Let the worker die in a run of run_jobs(), within the block.

    `after`: "start", the job is claimed and its task not yet called; "run", the task has
    returned, and nobody stores that; or the name of a step, which is recorded. The job runs
    again, as when a supervisor sees its child die: what the task has committed stays done, and
    its recorded steps too. `task`: only in runs of this one. `times`: in so many runs, the
    first. Fails at the block's end if it has not happened.
    """
    return _simulated(Fault("a crash", after, task, times))


def simulate_lost_lease(*, after: str = START, task: Any = None, times: int = 1) -> Any:
    """Let a run of run_jobs() lose its lease, within the block: its worker was away too long.

    The run goes on: `context.lease_lost` is True, `context.check()` raises JobRunAborted, and
    whatever it yields is refused; then the job runs again. For the rest see simulate_crash().
    """
    return _simulated(Fault("a lost lease", after, task, times))


@contextmanager
def _simulated(fault: Fault) -> Iterator[Fault]:
    _active.append(fault)
    try:
        yield fault
    finally:
        _active.remove(fault)
    if fault.happened < fault.times:
        raise AssertionError(
            f"Of {fault.times} times, {fault} has happened {fault.happened} times: no run of "
            f"run_jobs() in the block has come to that point. {fault.passed}."
        )


def striking(point: str, task: str) -> Fault | None:
    """Return what is to happen at this point of a run, if anything is."""
    for fault in _active:
        if fault.strikes(point, task):
            return fault
    return None
