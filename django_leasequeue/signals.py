"""Signals of a job's life. Receivers run after the fact and can't change an outcome."""

from django.dispatch import Signal

# Each is sent robustly: an error in a receiver is logged and stops nothing else.
# sender: Job; kwargs: claimed (Claimed).
job_started = Signal()
# sender: Job; kwargs: claimed (Claimed), outcome (an `outcomes` value), once it is stored.
job_settled = Signal()
