"""The tasks of the benchmarks. Importing this module needs Django to be set up."""

import time

from django.db import Error, connections

from benchmarks.models import ChaosEffect
from benchmarks.record import touch
from django_leasequeue import clock, task


@task(name="noop")
def noop(number: int) -> None:
    """A plain function."""
    touch(number)


@task(name="anoop")
async def anoop(number: int) -> None:
    """A coroutine."""
    touch(number)


@task(name="atomic_noop", atomic=True, timeout=60)
def atomic_noop(number: int) -> None:
    """A function in one transaction with its outcome."""
    touch(number)


@task(name="chaos", takes_context=True)
def chaos(context, number: int, seconds: float) -> int:
    """Leave an effect, then take some time, as long as the run counts."""
    job, claim = context.fence
    while True:
        context.check()
        try:
            # Not through the proxy: what a dead line does to tasks is their project's affair.
            ChaosEffect.objects.using("direct").get_or_create(job=job, claim=claim)
            break
        except Error:
            connections["direct"].close()
            time.sleep(0.1)
    ends = clock.now() + seconds
    while clock.now() < ends:
        context.check()
        time.sleep(0.02)
    return number
