"""Which children have grown beyond --max-memory, as the system tells it."""

import random
from collections.abc import Iterable, Iterator
from typing import TypeVar

from django_leasequeue import clock
from django_leasequeue.worker import process_state
from django_leasequeue.worker.children import ChildProcess

# Seconds between two looks.
_LOOK_EVERY = 2.0
_MIB = 1024 * 1024
# The part of the limit from which on a child may be replaced, so that those that grow alike
# are not replaced together.
_FROM = 0.9

Slot = TypeVar("Slot")


class MemoryWatch:
    """Looks at the children's resident memory; `most`: MiB, None to look at nothing."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        # When to look next, by `clock.now()`.
        self.due_at = float("inf") if most is None else clock.now()

    def too_large(
        self, children: Iterable[tuple[Slot, ChildProcess]]
    ) -> Iterator[tuple[Slot, ChildProcess]]:
        """Yield those that have grown too large and have run a job since they started.

        Without that condition a limit below what the project itself needs would have them
        replaced for ever.
        """
        self.due_at = clock.now() + _LOOK_EVERY
        for slot, child in children:
            resident = process_state.resident(child.pid) if child.has_finished else 0
            if self._most and resident > self._most * _MIB * _part(child):
                yield slot, child


def _part(child: ChildProcess) -> float:
    """Return a part that is the same for a child at each look."""
    return random.Random(child.pid).uniform(_FROM, 1)
