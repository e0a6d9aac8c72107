"""Toy tasks that take longer than their timeout, each in a way of its own.

Each says '<pid> started' to helpers.Announcement once it is past every import.
"""

import asyncio
import contextlib
import os
import re
import threading
import time

from django_leasequeue import task

SETTINGS = {"TASK_MODULES": ["tests.overrunning", "tests.worker_tasks"]}
# Seconds: enough for the toys to say that they have started, on a busy machine too.
TIMEOUT = 3.0


@task(timeout=TIMEOUT)
def loop(path):
    """Run Python code for ever."""
    _started(path)
    while True:
        pass


@task(timeout=TIMEOUT)
async def wait(path):
    """Wait in the event loop for ever."""
    _started(path)
    await asyncio.Event().wait()


@task(timeout=TIMEOUT)
def sleep_in_c(path):
    """Wait in C, where no exception comes in from outside."""
    _started(path)
    time.sleep(3600)


@task(timeout=TIMEOUT)
def read_in_c(path):
    """Wait in C for the test's sign, and return as if nothing were."""
    _started(path)
    with open(f"{path}.go", "rb", buffering=0) as go:
        return len(go.read(1))


@task(timeout=TIMEOUT)
def hold_the_interpreter_in_c(path):
    """Compute in C without ever letting another thread run."""
    _started(path)
    re.match("(a+)+$", "a" * 60 + "b")


@task(timeout=TIMEOUT)
def catch_everything(path):
    _started(path)
    while True:
        with contextlib.suppress(BaseException):
            _loop()


@task(timeout=TIMEOUT)
def wait_for_a_thread(path):
    _started(path)
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    thread.join()


@task(timeout=TIMEOUT)
async def ignore_the_cancel(path):
    _started(path)
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@task(timeout=TIMEOUT)
async def block_the_event_loop(path):
    _started(path)
    time.sleep(3600)


@task(timeout=TIMEOUT, max_attempts=2, backoff=lambda attempt: 0)
def sleep_twice(path):
    _started(path)
    time.sleep(3600)


@task(
    timeout=TIMEOUT,
    max_attempts=2,
    backoff=lambda attempt: 0,
    on_retry="tests.hooked.say",
    on_failure="tests.hooked.say",
)
def sleep_twice_and_tell(path):
    _started(path)
    time.sleep(3600)


@task(timeout=TIMEOUT, max_attempts=3, on_timeout="fail")
def sleep_once(path):
    _started(path)
    time.sleep(3600)


def _loop():
    while True:
        pass


def _started(path):
    with open(path, "ab", buffering=0) as file:
        file.write(f"{os.getpid()} started\n".encode())
