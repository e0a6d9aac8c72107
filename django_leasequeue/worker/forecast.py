"""How many jobs to claim before anybody is free to run them."""

from math import inf

from django_leasequeue import clock

# Seconds within which a job that is claimed ahead is expected to start: a batch of quick
# ones lasts for several round trips to the database, and another worker that is idle would
# hardly have been quicker.
HORIZON = 0.1
# Seconds after that until a job which still waits is given back.
PATIENCE = 1.0
# Jobs that wait in one process at the most: one interpreter brings some 20,000 a second
# through.
_MOST = 2000
# The weight of the newest run in the means: some ten quick ones make up for a slow one.
_WEIGHT = 0.2


class Forecast:
    """Judges by recent runs. For any thread: an update that gets lost does no harm."""

    def __init__(self) -> None:
        # Seconds that a run takes, and between the ends of two while there is work. Nothing
        # is claimed ahead as long as nothing is known.
        self._length = self._interval = inf
        self._last_end = 0.0

    def ended(self, started_at: float) -> None:
        """Note that a run which began then, by `clock.now()`, has just ended."""
        now = clock.now()
        self._length = _mean(self._length, now - started_at)
        since = max(started_at, self._last_end)
        self._interval = _mean(self._interval, max(now - since, 0.0))
        self._last_end = now

    def ahead(self, part: float = 1.0) -> int:
        """Return how many jobs will start soon if only this part of the places goes on.

        0 if runs take longer than the horizon: a slow job is left for whoever is idle.
        """
        if self._length > HORIZON:
            return 0
        if self._interval * _MOST < HORIZON:
            return int(part * _MOST)
        return int(part * HORIZON / self._interval)


def _mean(before: float, newest: float) -> float:
    return newest if before == inf else before + _WEIGHT * (newest - before)
