"""Tools of the tests: threads that start together, handshakes, polling with a deadline.

Every wait has a deadline of minutes, since machines can be slow, and fails with what it
saw last. No test sleeps.
"""

import contextlib
import json
import os
import select
import sys
import threading
import time
import traceback
from unittest import mock

from django.db import connections

# Seconds for whatever a test waits for: a machine may be busy with much else.
DEADLINE = 120


def together(count, function, *, return_exceptions=False, timeout=2 * DEADLINE):
    """Run `function(0)` to `function(count - 1)`, each in a thread, from one start.

    Returns their results in order. An error of any of them is raised, or stands in its
    place with `return_exceptions`. Each thread closes its own database connections.
    """
    calls = [lambda number=number: function(number) for number in range(count)]
    return run_together(calls, return_exceptions=return_exceptions, timeout=timeout)


def run_together(functions, *, return_exceptions=False, timeout=2 * DEADLINE):
    """Run each of `functions` in a thread of its own, from one start. See together()."""
    barrier = threading.Barrier(len(functions))
    results = [None] * len(functions)

    def run(number, function):
        try:
            barrier.wait(max(timeout, 2 * DEADLINE))
            results[number] = function()
        except BaseException as error:
            results[number] = error
            if not return_exceptions:
                barrier.abort()  # those that still wait for the start need not
        finally:
            connections.close_all()

    threads = [
        threading.Thread(target=run, args=item, name=f"together-{item[0]}", daemon=True)
        for item in enumerate(functions)
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    hanging = [thread for thread in threads if thread.is_alive()]
    if hanging:
        raise AssertionError(f"Still running after {timeout} s:\n{_stacks(hanging)}")
    errors = [result for result in results if isinstance(result, BaseException)]
    if errors and not return_exceptions:
        real = [e for e in errors if not isinstance(e, threading.BrokenBarrierError)]
        raise (real or errors)[0]
    return results


@contextlib.contextmanager
def in_thread(function):
    """Run `function()` in a thread beside the block; yields a Background."""
    background = Background(function)
    background.thread.start()
    yield background
    background.result()


class Background:
    """A call that runs in a thread of its own, with its own connections."""

    def __init__(self, function):
        self.function = function
        self.thread = threading.Thread(target=self._run, name="background", daemon=True)
        self._result = self._error = None

    @property
    def is_running(self):
        return self.thread.is_alive()

    def result(self, timeout=DEADLINE):
        """Wait for the end; return what the function returned or raise its error."""
        self.thread.join(timeout)
        if self.thread.is_alive():
            stack = _stacks([self.thread])
            raise AssertionError(f"Still running after {timeout} s:\n{stack}")
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self):
        try:
            self._result = self.function()
        except BaseException as error:
            self._error = error
        finally:
            connections.close_all()


def eventually(function, timeout=DEADLINE, interval=0.02):
    """Call `function` until it returns something true, and return that.

    An AssertionError counts as not yet. Fails with the last value or error.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            seen = function()
            if seen:
                return seen
        except AssertionError as error:
            seen = error
        if time.monotonic() > deadline:
            raise AssertionError(f"Not within {timeout} s; last seen: {seen!r}")
        time.sleep(interval)


@contextlib.contextmanager
def announcement(folder):
    """Open two FIFOs in `folder` through which tasks and a test shake hands.

    Yields an Announcement; pass its `path` to `tests.tasks.announce_then_wait`.
    """
    said = Announcement(str(folder / f"announcement-{os.urandom(4).hex()}"))
    try:
        yield said
    finally:
        said.close()


class Announcement:
    """The test's side: hears what tasks say, and lets them go on."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        os.mkfifo(f"{path}.go")
        # Open for both directions, so that no open() waits and no end is ever reached.
        # Tasks that still wait when the test ends are let go by the close.
        self._said = os.open(path, os.O_RDWR)
        self._go = os.open(f"{path}.go", os.O_RDWR)
        self._text = ""

    def wait(self, timeout=DEADLINE):
        """Return the next line that a task said, without its newline."""
        deadline = time.monotonic() + timeout
        while "\n" not in self._text:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._said], [], [], left)[0]:
                raise AssertionError(f"Nothing announced within {timeout} s")
            self._text += os.read(self._said, 65536).decode()
        line, self._text = self._text.split("\n", 1)
        return line

    def is_silent(self):
        """Whether nothing has been said that `wait()` has not returned."""
        return not self._text and not select.select([self._said], [], [], 0)[0]

    def release(self, count=1):
        """Let `count` waiting tasks go on."""
        os.write(self._go, b"." * count)

    def close(self):
        os.close(self._said)
        os.close(self._go)


@contextlib.contextmanager
def paused(owner, name, *, after=False):
    """Hold the first call of `owner.name` until the test resumes it; yields a Pause.

    The call is held before it is made, or with `after` before its `result` is returned.
    Later calls pass.
    """
    real = getattr(owner, name)
    pause = Pause(name)

    def held(*args, **kwargs):
        if after:
            result = real(*args, **kwargs)
            pause.hold(result)
            return result
        pause.hold()
        return real(*args, **kwargs)

    with mock.patch.object(owner, name, held):
        try:
            yield pause
        finally:
            pause.resume()


class Pause:
    """One held call: `wait()` until it is there, then `resume()` it.

    `result`: what it will return, if it is held after it was made.
    """

    def __init__(self, name):
        self.name, self.result = name, None
        self._first = threading.Lock()
        self._reached = threading.Event()
        self._resumed = threading.Event()

    def hold(self, result=None):
        if self._first.acquire(blocking=False):
            self.result = result
            self._reached.set()
            if not self._resumed.wait(2 * DEADLINE):
                raise AssertionError(f"{self.name} was never resumed")

    def wait(self, timeout=DEADLINE):
        """Return once the call is held."""
        if not self._reached.wait(timeout):
            raise AssertionError(f"{self.name} was not called within {timeout} s")

    def resume(self):
        self._resumed.set()


@contextlib.contextmanager
def new_connection(alias="default"):
    """Yield a second connection of this thread to the test database of `alias`."""
    connection = connections[alias].copy()
    try:
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def failing(error, *, times=1, match="", using="default"):
    """Make this thread's next `times` statements that contain `match` raise `error`.

    `error`: an exception, or a function that makes one. Yields the list of the
    statements that were refused.
    """
    refused = []

    def wrapper(execute, sql, params, many, context):
        if match.lower() in sql.lower() and len(refused) < times:
            refused.append(sql)
            raise error if isinstance(error, BaseException) else error()
        return execute(sql, params, many, context)

    with connections[using].execute_wrapper(wrapper):
        yield refused


def worker_environment(settings=None):
    """Return the environment in which another process uses this run's databases.

    `settings`: what the setting LEASEQUEUE is there.
    """
    names = {alias: connections[alias].settings_dict["NAME"] for alias in connections}
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "LEASEQUEUE_TEST_NAMES": json.dumps(names),
        "LEASEQUEUE_TEST_SETTINGS": json.dumps(settings or {}),
        "PYTHONUNBUFFERED": "1",
    }


def _stacks(threads):
    frames = sys._current_frames()
    return "\n".join(
        f"{thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident]))}"
        for thread in threads
        if thread.ident in frames
    )
