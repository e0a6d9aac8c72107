"""Every move of a job from one state to another, each a guarded write that counts its rows."""

from django_leasequeue.transitions import (
    cancel,
    claim,
    dispatch,
    pause,
    progress,
    prune,
    release,
    renew,
    retry,
    settle,
    step,
)

__all__ = [
    "cancel",
    "claim",
    "dispatch",
    "pause",
    "progress",
    "prune",
    "release",
    "renew",
    "retry",
    "settle",
    "step",
]
