"""Real worker processes for the tests."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.helpers import DEADLINE, eventually, worker_environment

ROOT = Path(__file__).resolve().parent.parent


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
        children = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                # After the name, which may hold anything: state, parent, ...
                state, parent = status.read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue  # it has just ended
            if int(parent) == self.pid and state != "Z":
                children.append(int(status.parent.name))
        return sorted(children)

    def send(self, number):
        """Send a signal to the process itself, not to its children."""
        self.process.send_signal(number)

    def wait(self, timeout=2 * DEADLINE):
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
