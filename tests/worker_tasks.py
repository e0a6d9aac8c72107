"""Toy tasks that do to a worker what tasks do: see workers.SETTINGS for how it finds them."""

import asyncio
import fcntl
import multiprocessing
import os
import signal
import sys
import threading
import time

from django_leasequeue import Retry, task
from django_leasequeue.worker.forecast import HORIZON
from tests import spawned
from tests.models import Effect


@task
def pass_gate(path, word):
    """Note a run in the file `path`, once nobody holds the lock on `path`.gate."""
    with open(f"{path}.gate", "rb") as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)
    _append(path, f"{os.getpid()} {word}")


@task
async def say_then_wait(path, word=""):
    """Say '<pid> <word>' to helpers.Announcement, and wait without a thread."""
    _append(path, f"{os.getpid()} {word}".rstrip())
    await asyncio.Event().wait()


@task
def double_elsewhere(method, number):
    """Have a process of multiprocessing do it, started by this method."""
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    process = context.Process(target=spawned.double, args=(answers, number))
    process.start()
    doubled = answers.get(timeout=60)
    process.join()
    return doubled


@task
def grow(path, mebibytes):
    """Take so much memory for as long as the process lives, and wait for the test's sign."""
    _kept.append(bytearray(os.urandom(1) * (mebibytes * 1024 * 1024)))
    _say_and_wait(path, "")


_kept: list[bytearray] = []


@task
async def add_soon(a, b):
    await asyncio.sleep(0)
    return a + b


@task
def take_a_while(number):
    """Take longer than a job that others are claimed ahead of."""
    time.sleep(2 * HORIZON)


@task(takes_context=True)
def wait_for_the_stop(context, path):
    """Say '<pid> started', wait for the worker's stop, say 'stopping' and return."""
    _append(path, f"{os.getpid()} started")
    while not context.stopping:
        time.sleep(0.01)
    _append(path, "stopping")
    return "told"


@task(takes_context=True)
def wait_until_lost(context, path):
    """Say '<pid> started', wait for the loss of the lease, say 'lost' and go on."""
    _append(path, f"{os.getpid()} started")
    while not context.lease_lost:
        time.sleep(0.01)
    _append(path, "lost")
    context.check()


@task(takes_context=True)
def wait_for_a_cancel(context, path, heed):
    """Say '<pid> started', wait for a cancel; heed it, or end as if nothing were."""
    _append(path, f"{os.getpid()} started")
    while not context.cancel_requested:
        time.sleep(0.01)
    if heed:
        context.check()
    return "finished all the same"


@task(takes_context=True, atomic=True, timeout=250)
def tell_progress_atomically(context, path):
    """Say how far it has come, say '<pid> told', and wait for the test's sign."""
    _tell_progress(context, path)


@task(takes_context=True)
def tell_progress(context, path):
    """The same, outside a transaction."""
    _tell_progress(context, path)


@task(takes_context=True)
async def atell_progress(context, path):
    """The same in the event loop, which it holds up."""
    _tell_progress(context, path)


def _tell_progress(context, path):
    for done in range(100):
        context.progress(done, 100, "rows")
    context.progress(50, 100, "half")
    _append(path, f"{os.getpid()} told")
    with open(f"{path}.go", "rb", buffering=0) as go:
        go.read(1)


@task(takes_context=True, max_attempts=2)
def take_two_steps(context, path):
    """Say '<pid> first', then '<pid> second', and wait for the test's sign inside of each.

    With another wait between the two, which says '<pid> between'.
    """
    first = context.step("first", _say_and_wait, path, "first")
    _say_and_wait(path, "between")
    second = context.step("second", _say_and_wait, path, "second")
    return [first, second]


@task(takes_context=True, max_attempts=2)
async def atake_two_steps(context, path):
    """The same in the event loop."""
    first = await context.astep("first", _say_and_wait, path, "first")
    await asyncio.to_thread(_say_and_wait, path, "between")
    second = await context.astep("second", _asay_and_wait, path, "second")
    return [first, second]


def _say_and_wait(path, word):
    _append(path, f"{os.getpid()} {word}")
    with open(f"{path}.go", "rb", buffering=0) as go:
        go.read(1)
    return [word, os.getpid()]


async def _asay_and_wait(path, word):
    return await asyncio.to_thread(_say_and_wait, path, word)


@task(max_attempts=3)
def fail_until(path, times):
    """Ask to be run again at once, `times` times in all."""
    _append(path, "run")
    with open(path, "rb") as file:
        if len(file.readlines()) <= times:
            raise Retry(delay=0)
    return "at last"


@task(max_attempts=3, takes_context=True)
def wait_in_retry(context, path, delay=0):
    """Ask for a retry after `delay` seconds; in that, say '<pid> started' and wait."""
    if context.attempt == 1:
        raise Retry(delay=delay)
    _append(path, f"{os.getpid()} started")
    with open(f"{path}.go", "rb", buffering=0) as go:
        go.read(1)


@task
def start_a_thread_that_stays():
    """Return, and leave a thread behind that keeps the process from ending."""
    threading.Thread(target=threading.Event().wait, daemon=False).start()


@task
def leave(code):
    """End the process as far as the interpreter allows."""
    sys.exit(code)


@task(max_recoveries=0)
def drop_dead(code):
    """End the process whatever anybody thinks of it."""
    os._exit(code)


@task(max_recoveries=1)
def kill_own_process():
    """End the process at once, with all that it runs."""
    os.kill(os.getpid(), signal.SIGKILL)


@task(atomic=True, timeout=250)
def write_then_wait(path, name):
    """Write in the transaction that also ends the job, say so, and wait."""
    Effect.objects.create(name=name, pid=os.getpid())
    _append(path, f"{os.getpid()} written")
    with open(f"{path}.go", "rb", buffering=0) as go:
        go.read(1)


@task
def hold_the_interpreter(path):
    """Say '<pid> started' and then never let another thread run."""
    _append(path, f"{os.getpid()} started")
    sys.setswitchinterval(1000)
    while True:
        pass


@task
def dispatch_children(number, path):
    """Dispatch jobs that are due at once."""
    from django_leasequeue.models import Job

    Job.objects.dispatch_many([pass_gate.spec(path, n) for n in range(number)])


def _append(path, line):
    # Beside a FIFO of the test or a plain file, whole in either.
    with open(path, "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())
