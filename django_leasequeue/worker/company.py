"""Which jobs a process may claim now: those that run alone never run beside others."""

from django_leasequeue.transitions.claim import Claim


class Company:
    """Chooses between jobs that run alone and all others. `suspects`: see WorkerOptions."""

    def __init__(self, suspects: str) -> None:
        self._suspects = suspects
        self._one_runs = self._one_is_due = False

    def choose(self, running: int) -> bool | None:
        """Return whether to claim a job that runs alone; None to claim nothing now.

        `running`: how many jobs run here.
        """
        if self._suspects == "leave":
            return False
        if self._suspects == "only":
            # The last one's outcome comes into its row before the next one can do harm.
            return None if running else True
        if running:
            # Nothing new starts, so that the turn of the one that waits comes.
            return None if self._one_runs or self._one_is_due else False
        self._one_runs = False
        return self._one_is_due

    def saw(self, alone: bool, claim: Claim) -> None:
        """Note what a claim that was chosen so has found."""
        self._one_runs = alone and bool(claim.jobs)
        self._one_is_due = claim.suspects and not (alone and not claim.jobs)

    def leaves(self, claim: Claim) -> bool:
        """Whether a claim saw jobs due that are for another process."""
        return claim.suspects and self._suspects == "leave"
