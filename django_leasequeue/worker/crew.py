"""A supervisor's children: one for each place, and one aside while jobs are to run alone."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from django_leasequeue import clock
from django_leasequeue.worker.children import ChildProcess
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.slots import ChildSlot, shares


class Crew:
    """The slots and who is in them; for the supervisor's own thread.

    `ended(child)` is called, in another thread, once a child is reaped.
    """

    def __init__(
        self, options: WorkerOptions, ended: Callable[[ChildProcess], None]
    ) -> None:
        self._options, self._ended = options, ended
        parts = shares(options.stop_after, options.processes)
        self._slots = [ChildSlot(n, share) for n, share in enumerate(parts, 1)]
        self._aside: ChildSlot | None = None
        if options.stop_after is None:
            self._aside = ChildSlot(options.processes + 1, None, is_aside=True)
            self._slots.append(self._aside)
        else:
            # A place aside would run jobs that no share counts.
            self._options = replace(options, suspects="between")

    def children(self) -> list[tuple[ChildSlot, ChildProcess]]:
        """Return the children that are there, each with its slot."""
        return [
            (slot, child)
            for slot in self._slots
            for child in (slot.child, slot.retired)
            if child is not None
        ]

    def slot_of(self, child: ChildProcess) -> ChildSlot:
        """Return the slot that a child has, or had."""
        return next(slot for slot in self._slots if slot.number == child.number)

    @property
    def expected(self) -> int:
        """How many slots have a child, or will have one."""
        return sum(not slot.is_done or slot.retired is not None for slot in self._slots)

    @property
    def is_idle(self) -> bool:
        """Whether none has anything to do."""
        return all(slot.is_idle for slot in self._slots)

    def due_at(self) -> float:
        """Return when a child is to be started or killed next, by `clock.now()`."""
        starts = [s.start_at for s in self._slots if s.start_at is not None]
        ends = [child.dies_at for _, child in self.children()]
        return min([*starts, *ends], default=float("inf"))

    def start_due(self) -> Iterator[tuple[ChildSlot, ChildProcess]]:
        """Start the children whose time has come, and yield them with their slots."""
        for slot in self._slots:
            if slot.start_at is not None and slot.start_at <= clock.now():
                child = self._start(slot)
                if child is not None:
                    yield slot, child

    def start_no_more(self) -> None:
        """Let no slot wait for a child any more."""
        for slot in self._slots:
            if slot.start_at is not None:
                slot.start_at, slot.is_done = None, True

    def want_aside(self) -> None:
        """Have a child that runs jobs alone, if there may be one."""
        if self._aside is not None:
            self._aside.want()

    def look_aside(self) -> None:
        """Let that child go once there are none."""
        child = None if self._aside is None else self._aside.child
        if self._aside and child and child.is_idle and not child.was_told:
            self._aside.is_wanted = False
            child.was_told = True
            child.tell({"do": "stop", "why": "no more jobs are to run alone"})

    def close(self) -> None:
        """Tell those that are still there to stop, by the end of their pipes."""
        for slot, child in self.children():
            child.close()
            slot.child = slot.retired = None

    def _start(self, slot: ChildSlot) -> ChildProcess | None:
        slot.is_wanted = False
        try:
            options = slot.options(self._options)
            child = ChildProcess(slot.number, options, self._ended)
        except (OSError, RuntimeError) as error:
            slot.start_at = clock.now() + slot.failed()
            logger.error("Child %s can't be started now: %s", slot.number, error)
            return None
        slot.child, slot.start_at = child, None
        return child
