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


def step_clock(step):
    """Let this process's wall clock be wrong: by so many seconds, or "back and forth"."""
    if step is None:
        return
    real, steps = time.time, itertools.cycle([3600, -3600])

    def stepped():
        return real() + (next(steps) if step == "back and forth" else float(step))

    time.time = stepped
