"""The tests as an installed app: every process that loads it may be guarded."""

import itertools
import os
import time

from django.apps import AppConfig


class TestsConfig(AppConfig):
    name = "tests"

    def ready(self):
        from tests import token_guard

        token_guard.install()
        step_clock(os.environ.get("LEASEQUEUE_TEST_CLOCK"))
        lengthen_grace(os.environ.get("LEASEQUEUE_TEST_GRACE"))


def step_clock(step):
    """Let this process's wall clock be wrong: by so many seconds, or "back and forth"."""
    if step is None:
        return
    real, steps = time.time, itertools.cycle([3600, -3600])

    def stepped():
        return real() + (next(steps) if step == "back and forth" else float(step))

    time.time = stepped


def lengthen_grace(seconds):
    """Let a supervisor wait so long for a slow child: to leave, and to end an overdue run."""
    if seconds is not None:
        from django_leasequeue.worker import supervisor, timed

        supervisor._GRACE = timed.GRACE = float(seconds)
