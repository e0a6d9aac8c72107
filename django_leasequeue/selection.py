"""Which queues a worker takes jobs from, and in which order."""

from dataclasses import dataclass
from typing import Any

ALL = "*"


@dataclass(frozen=True, slots=True)
class Selection:
    """Queues in strict order as listed; `*` stands for every queue not named otherwise.

    `queues`: names, at most one of them `*`. `exclude`: names never taken.
    """

    queues: tuple[str, ...] = (ALL,)
    exclude: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.queues:
            raise ValueError("Name at least one queue, or '*' for every queue.")
        if len(set(self.queues)) != len(self.queues):
            raise ValueError(f"A queue is named twice in {', '.join(self.queues)}.")
        if ALL in self.exclude:
            raise ValueError("Excluding '*' would leave no queue.")
        both = self.exclude.intersection(self.queues)
        if both:
            raise ValueError(f"Both taken and excluded: {', '.join(sorted(both))}.")

    @classmethod
    def parse(cls, queues: str = ALL, exclude: str = "") -> "Selection":
        """Make a selection of comma-separated names, as the command line gives them."""
        return cls(_names(queues), frozenset(_names(exclude)))

    @property
    def takes_all(self) -> bool:
        """Whether queues that are not named are taken too."""
        return ALL in self.queues

    @property
    def named(self) -> tuple[str, ...]:
        """The queues taken by name, in order."""
        return tuple(name for name in self.queues if name != ALL)

    def rank(self, queue: str) -> int | None:
        """Return the place of a queue in the order, smallest first; None if not taken."""
        if queue in self.exclude:
            return None
        if queue in self.queues:
            return self.queues.index(queue)
        return self.queues.index(ALL) if self.takes_all else None


def takes(queues: Any, exclude: Any, queue: str) -> bool:
    """Whether a worker's row with these queues takes this one; what can't be read does."""
    try:
        return Selection(tuple(queues), frozenset(exclude)).rank(queue) is not None
    except (TypeError, ValueError):
        return True


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)
