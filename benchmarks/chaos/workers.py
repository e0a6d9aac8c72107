"""The supervisors of a chaos run, and what may be done to one."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.database import ROOT, environment
from django_leasequeue import clock
from tests.proxy import Proxy

# Short, so that much happens in a minute. A run is frozen for longer than that.
LEASE, BUFFER = 6.0, 1.0
SETTINGS = json.dumps(
    {
        "TASK_MODULES": ["benchmarks.tasks"],
        "LEASE": LEASE,
        "SAFETY_BUFFER": BUFFER,
        # What strikes a job again and again is not its own doing here.
        "MAX_RECOVERIES": 1000,
    }
)


class Worker:
    """A supervisor with two children, in a process group of its own, behind its own proxy."""

    def __init__(self, number, entry, folder, settings=SETTINGS):
        self.number = number
        self.proxy, direct = None, entry
        if "PORT" in entry:
            self.proxy = Proxy(entry["HOST"], int(entry["PORT"]))
            entry = {**entry, "PORT": str(self.proxy.port)}
        more = {"BENCHMARK_SETTINGS": settings, "BENCHMARK_DIRECT": json.dumps(direct)}
        self._environment = environment(entry, **more)
        self._log = folder / f"worker-{number}.log"
        self._groups = []
        # When to start it anew, after it was killed; None while it runs.
        self.start_at = None
        self.start()

    def start(self):
        command = [sys.executable, "-m", "django", "runjobs"]
        with self._log.open("ab") as log:
            self._begins = log.tell()
            self.process = subprocess.Popen(
                [*command, "--processes=2", "--threads=4"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=self._environment,
                start_new_session=True,
            )
        self._groups.append(self.process.pid)
        self.start_at = None

    @property
    def takes_signals(self):
        """Whether it is so far that a SIGTERM stops it as it should."""
        return "The worker starts" in self.output(self._begins)

    @property
    def ended_by_itself(self):
        """Whether it has ended though nobody killed it, which it never may."""
        return self.start_at is None and self.process.poll() is not None

    def children(self):
        """Return the ids of its children that still run."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, parent = stat.read_text().rpartition(")")[2].split()[:2]
                if int(parent) == self.process.pid and state != "Z":
                    found.append(int(stat.parent.name))
        return found

    def kill(self, start_at):
        """Kill the supervisor, not its children; it is to be started anew at `start_at`."""
        self.process.kill()
        self.process.wait()
        self.start_at = start_at

    def signal(self, number, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def await_start(self, seconds):
        """Wait until it takes signals, for so many seconds; return whether it does.

        It does not if it ends before.
        """
        ends = clock.now() + seconds
        while not self.takes_signals:
            if self.process.poll() is not None or clock.now() > ends:
                return False
            time.sleep(0.05)
        return True

    def finish(self, seconds):
        """Have it stop as a service manager would; return its exit code.

        Not before it takes signals: it may have been started anew a moment ago. None if it
        does not get so far, or does not stop, within so many seconds.
        """
        if not self.await_start(seconds) and self.process.poll() is None:
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def output(self, begin=0):
        return self._log.read_bytes()[begin:].decode(errors="replace")

    def close(self):
        """End all that it ever started."""
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self.process.wait()
        if self.proxy is not None:
            self.proxy.close()
