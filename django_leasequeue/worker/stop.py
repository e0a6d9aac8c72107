"""How far a worker has been told to stop."""

from collections.abc import Callable
from enum import IntEnum

from django_leasequeue import clock


class Level(IntEnum):
    """How urgent a stop is; it only ever grows."""

    NO = 0
    # Claim nothing more, give back what has not started, let running jobs finish.
    GRACEFUL = 1
    # Give everything back and go.
    AT_ONCE = 2


class Stop:
    """The stop of one worker, asked for by signals, by the supervisor or by a drain's end.

    `wake` is called when the level has risen. Takes no lock, so a signal handler may use it.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.level = Level.NO
        self.why = ""
        # When the first request came, by `clock.now()`.
        self.since = 0.0
        # Why this process is to be replaced; "" if it is not.
        self.retires = ""
        self._wake = wake

    def request(self, level: Level, why: str) -> None:
        """Raise the level to `level`; a lower or equal one changes nothing."""
        if level <= self.level:
            return
        if self.level is Level.NO:
            self.since = clock.now()
        self.level, self.why = level, why
        self._wake()

    def retire(self, why: str) -> None:
        """Have it claim nothing more and end once its jobs have, however long they take."""
        self.retires = why
        self._wake()

    @property
    def asked(self) -> bool:
        """Whether any stop was asked for."""
        return self.level is not Level.NO
