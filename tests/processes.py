"""Real worker processes for the tests."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from glob import iglob
from pathlib import Path

from django.db import OperationalError

from tests.helpers import DEADLINE, eventually, new_connection, worker_environment

ROOT = Path(__file__).resolve().parent.parent


def _statuses(pattern):
    """Yield (path, (state, parent's id, process group)) of what runs under /proc."""
    # Not pathlib's: that of Python 3.11 breaks off if a process ends meanwhile.
    for path in map(Path, iglob(f"/proc/{pattern}")):
        try:
            # After the name, which may hold anything.
            yield path, path.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue  # it has just ended


def freeze(*pids):
    """Stop processes, none of them in the middle of a write that others would wait for."""

    def are_stopped():
        states = [
            state
            for pid in pids
            for _, (state, *_) in _statuses(f"{pid}/task/[0-9]*/stat")
        ]
        assert set(states) <= set("TZX"), states
        return True

    def are_out_of_the_way():
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        # What a thread does in the kernel it brings to an end.
        eventually(are_stopped)
        if _nobody_writes():
            return True
        thaw(*pids)
        return False

    eventually(are_out_of_the_way)


def thaw(*pids):
    """Let stopped processes go on."""
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def _nobody_writes():
    with new_connection() as other, other.cursor() as cursor:
        try:
            if other.vendor == "sqlite":
                cursor.execute("PRAGMA busy_timeout = 0")
                cursor.execute("BEGIN IMMEDIATE")
                cursor.execute("ROLLBACK")
            else:
                other.set_autocommit(False)
                cursor.execute("SELECT id FROM leasequeue_job FOR UPDATE NOWAIT")
                other.rollback()
        except OperationalError:
            return False
        return True


class WorkerProcess:
    """A running `python -m django COMMAND ...`, in a process group of its own."""

    def __init__(self, arguments, log, settings=None, env=None):
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "django", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env={**worker_environment(settings), **(env or {})},
                start_new_session=True,
            )

    @property
    def pid(self):
        return self.process.pid

    @property
    def output(self):
        """What it has printed so far, both streams."""
        return self.log.read_text(errors="replace")

    @property
    def is_running(self):
        return self.process.poll() is None

    def children(self):
        """Return the ids of the processes that it has started and that still run."""
        return sorted(
            int(path.parent.name)
            for path, (state, parent, _) in _statuses("[0-9]*/stat")
            if parent == str(self.pid) and state != "Z"
        )

    def family(self):
        """Return its id and those of its children."""
        return [self.pid, *self.children()]

    def send(self, number):
        """Send a signal to the process itself, not to its children."""
        self.process.send_signal(number)

    def kill(self):
        """Kill it with its children; return once no thread of them is left.

        Until then one that waits for a FIFO could still take what is meant for others: a
        thread dies when it next gets a processor, and looks once more before it does.
        """
        os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

        def none_left():
            # A process is a zombie from the end of its first thread on.
            left = [
                path
                for path, (state, _, group) in _statuses("[0-9]*/task/*/stat")
                if group == str(self.pid) and state not in "ZX"
            ]
            assert not left
            return True

        eventually(none_left)

    def wait(self, timeout=4 * DEADLINE):
        """Return the exit code; negative for the signal that ended it."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"Process {self.pid} still runs after {timeout} s:\n{self.output}"
            ) from None

    def wait_for(self, text, timeout=DEADLINE):
        """Return once it has printed `text`."""

        def printed():
            output = self.output
            assert text in output or self.is_running, f"It ended first:\n{output}"
            assert text in output, f"{text!r} is not in its output:\n{output}"
            return True

        eventually(printed, timeout)

    def assert_few_troubles(self):
        """Assert that it has told of an outage, and not of each of its many tries."""
        told = Counter(re.findall(r"Cannot (.+?) now", self.output))
        # By each of a few processes, and again if it is interrupted.
        assert max(told.values(), default=0) <= 6, told

    def stop(self):
        """End the process and what it has started, whatever state they are in."""
        if self.is_running:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
        # Its children share its process group, which nothing else is in.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
