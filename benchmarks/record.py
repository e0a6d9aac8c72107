"""What each job of a benchmark does: one short append to a file of its process.

The first job of a process waits until the benchmark says go, so that no start-up is timed,
and several processes start together.
"""

import os
import struct
import threading
import time
from pathlib import Path

RECORD = struct.Struct("<qq")  # the job's number; nanoseconds of CLOCK_MONOTONIC

_lock = threading.Lock()
_file: int | None = None


def touch(number: int) -> None:
    """Note that a job has started."""
    if _file is None:
        _open()
    os.write(_file, RECORD.pack(number, time.monotonic_ns()))


def _open() -> None:
    global _file
    with _lock:
        if _file is not None:
            return
        folder = Path(os.environ["BENCHMARK_FOLDER"])
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        opened = os.open(folder / f"ran.{os.getpid()}", flags, 0o600)
        # The folder is local and the wait short; nothing is measured meanwhile.
        while not (folder / "go").exists():
            time.sleep(0.001)
        _file = opened


class Records:
    """The records of all processes of one measurement, as the benchmark sees them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def go(self) -> int:
        """Let the waiting processes start; return the time."""
        (self._folder / "go").touch()
        return time.monotonic_ns()

    @property
    def processes(self) -> int:
        """How many processes hold their first job."""
        return len(self._files())

    @property
    def count(self) -> int:
        """How many jobs have started."""
        return sum(file.stat().st_size for file in self._files()) // RECORD.size

    def all(self) -> list[tuple[int, int]]:
        """Return (number, time) of each start, process by process."""
        return [
            record
            for file in self._files()
            for record in RECORD.iter_unpack(file.read_bytes())
        ]

    def _files(self) -> list[Path]:
        return list(self._folder.glob("ran.*"))
