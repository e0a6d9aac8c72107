"""Signals of a job's life. Receivers can't change an outcome. See docs/hooks.md."""

from django.dispatch import Signal

# Each is sent robustly: an error in a receiver is logged and stops nothing else.
# sender: Job; kwargs: claimed (Claimed). Sent in the thread that is about to run the job, of
# an `async def` task in a thread of its own.
job_started = Signal()
# sender: Job; kwargs: claimed (Claimed), outcome (an `outcomes` value), once it is stored.
# Sent in a thread beside the jobs, by the process that ran the job; if that was killed at the
# job's timeout, by another of the same supervisor.
job_settled = Signal()
# sender: Schedule; kwargs: schedule, tick (firing.ScheduledTick). Sent before a tick becomes a
# job, once, in the transaction that makes it: see docs/schedules.md. Not robustly: an error
# keeps the tick from becoming a job, until it raises no more.
before_schedule = Signal()
