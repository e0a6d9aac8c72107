"""The worker processes of one measurement."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.database import ROOT, environment
from benchmarks.record import Records
from django_leasequeue import clock

# Seconds until a wait is given up: the machine may be busy, but not for that long.
PATIENCE = 300.0
_STOPPING = 30.0


class NotReady(Exception):
    """Workers did not do what they were waited for; the message ends with their log."""


class Workers:
    """Workers that have been started, and what they have run so far."""

    def __init__(self, folder: Path, processes: list[subprocess.Popen]) -> None:
        self.records = Records(folder)
        self._folder, self._processes = folder, processes

    @property
    def pids(self) -> list[int]:
        """The processes that have been started; those may have started more."""
        return [process.pid for process in self._processes]

    def wait_for(
        self, condition: Callable[[], bool], seconds: float = PATIENCE
    ) -> None:
        """Return once the condition holds. Raises NotReady."""
        ends = clock.now() + seconds
        while not condition():
            died = [one for one in self._processes if one.poll() is not None]
            if died or clock.now() > ends:
                log = (self._folder / "log").read_text(errors="replace")
                raise NotReady(f"The workers are not ready:\n{log[-3000:]}")
            time.sleep(0.002)

    def memory(self) -> int:
        """Return the resident bytes of all processes of the workers' sessions."""
        sessions = {process.pid for process in self._processes}
        pages = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                pages += int(fields[21]) if int(fields[3]) in sessions else 0
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def workers(
    module: list[str],
    entry: dict[str, Any],
    count: int = 1,
    more: dict[str, str] | None = None,
) -> Iterator[Workers]:
    """Start `count` processes of a module on the database; stop them at the end.

    `more`: variables of their environment.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        variables = environment(entry, **{**(more or {}), "BENCHMARK_FOLDER": name})
        processes = []
        try:
            with (folder / "log").open("wb") as log:
                processes += [
                    subprocess.Popen(
                        [sys.executable, "-m", *module],
                        cwd=ROOT,
                        env=variables,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                    for _ in range(count)
                ]
            yield Workers(folder, processes)
        finally:
            for process in processes:
                _stop(process)


def _stop(process: subprocess.Popen) -> None:
    # A benchmark's worker has nothing to lose, and a whole session may belong to it.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_STOPPING)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
