"""Toy tasks with callbacks that say what they are called for to helpers.Announcement.

The first argument of each is the path of the announcement.
"""

import asyncio
import os
import signal

from django_leasequeue import task
from django_leasequeue.models import Job

SETTINGS = {"TASK_MODULES": ["tests.hooked"]}


def say(ended):
    """Say '<status of the row> <class of the error>'."""
    status = Job.objects.get(pk=ended.job_id).status
    error = (ended.error or {}).get("exception_class", "")
    _say(ended.args[0], f"{status} {error.rpartition('.')[2]}")


def say_and_wait(ended):
    """Say 'called', wait for the test's sign, say 'over'."""
    _say(ended.args[0], "called")
    with open(f"{ended.args[0]}.go", "rb", buffering=0) as go:
        go.read(1)
    _say(ended.args[0], "over")


async def never_end(ended):
    """Say the process id, and wait for ever."""
    _say(ended.args[0], os.getpid())
    await asyncio.Event().wait()


def dispatch_another(ended):
    """Say so, and dispatch a job that is due at once."""
    say(ended)
    kill_own_process.dispatch(ended.args[0])


@task(max_recoveries=0, on_failure=say, on_retry=say, on_success=say)
def kill_own_process(path):
    """End the process at once, with all that it runs."""
    os.kill(os.getpid(), signal.SIGKILL)


@task(on_success="tests.hooked.say_and_wait")
def succeed(path):
    """Succeed, after which the callback takes its time."""


@task(on_success=never_end)
def succeed_for_ever(path):
    """Succeed, after which the callback does not end."""


@task(on_success=dispatch_another)
def succeed_for_another(path):
    """Succeed, after which there is more to do."""


def _say(path, line):
    with open(path, "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())
