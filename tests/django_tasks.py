"""Toy tasks of Django's own decorator: workers find them by SETTINGS. Django 6.0 and newer."""

import asyncio
import os
import signal

from django.tasks import TaskContext, task

from tests.models import Effect

SETTINGS = {"TASK_MODULES": ["tests.django_tasks", "tests.worker_tasks"]}


@task
def take_all(*args, **kwargs):
    """Return nothing."""


@task()
async def take_all_soon(*args, **kwargs):
    """Return nothing."""


@task()
def answer():
    return 42


@task()
async def answer_soon():
    await asyncio.sleep(0)
    return 42


@task()
def give_back(value):
    return value


@task()
def give_tuple():
    return (1, b"two", {"three": (3,)})


@task()
def give_function():
    return len


@task()
def fail(kind="ValueError"):
    kinds = {
        "ValueError": ValueError("as asked"),
        "SystemExit": SystemExit("as asked"),
        "KeyboardInterrupt": KeyboardInterrupt("as asked"),
        "nested": ValueError(ValueError("as asked")),
    }
    raise kinds[kind]


@task()
def leave(code):
    raise SystemExit(code)


@task(takes_context=True)
def own_id(context):
    return context.task_result.id


@task(takes_context=True)
def tell_context(context, number):
    """Say what the context is, for a run that is to be of this number."""
    result = context.task_result
    return {
        "is_context": isinstance(context, TaskContext),
        "attempt": context.attempt == number,
        "job_id": str(context.job_id) == result.id,
        "status": result.status.value,
        "args": result.args,
        "workers": len(result.worker_ids),
        "started": result.started_at is not None,
    }


@task(takes_context=True)
async def tell_context_soon(context):
    await context.task_result.arefresh()
    return [context.task_result.id, len(context.task_result.worker_ids)]


@task()
def record_effect(name):
    Effect.objects.create(name=name, pid=os.getpid())


@task(queue_name="mail", priority=7)
def send_mail(address):
    return f"sent to {address}"


@task(takes_context=True)
def die_once(context, path):
    """Kill the process that runs it, unless the file is there; return the attempt."""
    if not os.path.exists(path):
        with open(path, "w"):
            os.kill(os.getpid(), signal.SIGKILL)
    return context.attempt


def effect_of(name):
    """A function that a test makes a task of."""
    Effect.objects.create(name=name, pid=os.getpid())
    if name == "bad":
        raise ValueError(name)
