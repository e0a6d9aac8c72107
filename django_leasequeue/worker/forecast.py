"""How many jobs to claim before anybody is free to run them."""

# Seconds within which a job that is claimed ahead is expected to start: a batch of quick
# ones lasts for several round trips to the database, and another worker that is idle would
# hardly have been quicker.
HORIZON = 0.1
# Seconds after that until a job which still waits is given back.
PATIENCE = 1.0
# Jobs that wait in one process at the most: one interpreter brings some 20,000 a second
# through.
_MOST = 2000
# The weight of the newest run in the mean: ten quick ones make up for a slow one.
_WEIGHT = 0.2


class Forecast:
    """Judges by how long recent runs took. For any thread: a lost update does no harm."""

    def __init__(self) -> None:
        # Seconds; None as long as nothing is known, when nothing is claimed ahead.
        self._mean: float | None = None

    def ended(self, seconds: float) -> None:
        """Note that a run took so long."""
        mean = seconds if self._mean is None else self._mean
        self._mean = mean + _WEIGHT * (seconds - mean)

    def ahead(self, places: int) -> int:
        """Return how many jobs will start soon if so many places are to run them.

        0 if runs take longer than the horizon: a slow job is left for whoever is idle.
        """
        if self._mean is None or self._mean > HORIZON:
            return 0
        most = _MOST * self._mean
        return int(min(places * HORIZON, most) / self._mean) if most else _MOST
