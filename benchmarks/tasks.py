"""The tasks of the benchmarks. Importing this module needs Django to be set up."""

from benchmarks.record import touch
from django_leasequeue import task


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
