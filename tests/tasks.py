"""Toy tasks. `tests` is an installed app, so workers find them here."""

import os

from django_leasequeue import task
from tests.models import Effect


@task
def add(a, b):
    return a + b


@task
def fail(message="as asked"):
    raise ValueError(message)


@task
def record_effect(name):
    """Leave a row."""
    Effect.objects.create(name=name, pid=os.getpid())


@task(atomic=True, timeout=250)
def record_effect_atomically(name):
    """Leave a row in the transaction that also ends the job."""
    Effect.objects.create(name=name, pid=os.getpid())


@task
def record_run(path, word):
    """Append a line to a file, whole even when several processes do so at once."""
    _append(path, word)


@task
def announce_then_wait(path, word=""):
    """Say '<pid> <word>' to helpers.Announcement, and wait until it says to go on."""
    _append(path, f"{os.getpid()} {word}".rstrip())
    with open(f"{path}.go", "rb", buffering=0) as go:
        go.read(1)
    return word


def _append(path, line):
    with open(path, "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())
