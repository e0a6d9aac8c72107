"""The tasks of the benchmarks. Importing this module needs Django to be set up."""

import contextlib
import fcntl
import os
import time

from django.db import Error, connections

from benchmarks.models import ChaosEffect
from benchmarks.record import touch
from django_leasequeue import Snooze, clock, task

# Of a job of `chaos_steps`.
STEPS = 3


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


@task(name="hold")
def hold(folder: str, key: str | None, limit: int | None, seconds: float) -> None:
    """Hold one of so many locks for some time; tell if all are held by others.

    The kernel lets a lock go when the process dies that has it.
    """
    with contextlib.ExitStack() as held:
        for number in range(limit or 0):
            file = os.open(f"{folder}/{key}.{number}", os.O_CREAT | os.O_RDWR)
            held.callback(os.close, file)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
        else:
            if limit is not None:
                with open(f"{folder}/overlaps", "a") as overlaps:
                    overlaps.write(f"{key} by process {os.getpid()}\n")
        time.sleep(seconds)


@task(name="chaos", takes_context=True)
def chaos(context, number: int, seconds: float) -> int:
    """Leave an effect, then take some time, as long as the run counts."""
    _leave_effect(context)
    _take(context, seconds)
    return number


@task(name="chaos_steps", takes_context=True)
def chaos_steps(context, number: int, seconds: float) -> int:
    """Take steps, each of which leaves an effect and returns the claims of those so far.

    The first run gives the job back after its first step, mostly to another worker.
    """
    claims: list[int] = []
    for step in range(1, STEPS + 1):
        claims = context.step(f"step {step}", _step, context, step, claims, seconds)
        if context.fence[1] == 1:
            raise Snooze(0)
    return number


def _step(context, step: int, claims: list[int], seconds: float) -> list[int]:
    _leave_effect(context, step)
    _take(context, seconds)
    return [*claims, context.fence[1]]


def _leave_effect(context, step: int = 0) -> None:
    job, claim = context.fence
    # Not through the proxy: what a dead line does to tasks is their project's affair.
    effects = ChaosEffect.objects.using("direct")
    while True:
        context.check()
        try:
            effects.get_or_create(job=job, claim=claim, step=step)
            return
        except Error:
            connections["direct"].close()
            time.sleep(0.1)


def _take(context, seconds: float) -> None:
    ends = clock.now() + seconds
    while clock.now() < ends:
        context.check()
        time.sleep(0.02)
