"""Counting what became of the jobs, and showing a drain's progress."""

import contextlib
import sys
import threading
from collections import Counter
from typing import Any, Protocol, TextIO

from django_leasequeue import clock
from django_leasequeue.worker.log import FAILED, WORDS, counted

# Seconds between two lines where there is no terminal.
_LINE_EVERY = 5.0


class Display(Protocol):
    """Shows how far a drain has come."""

    def show(self, counts: Counter[str]) -> None:
        """More jobs have ended."""

    def close(self, counts: Counter[str], left: str) -> None:
        """The drain is over. `left`: a sentence about the jobs that still wait, or ""."""


class NoDisplay:
    """Shows nothing: for a worker that runs until it is stopped."""

    def show(self, counts: Counter[str]) -> None:
        """See Display."""

    def close(self, counts: Counter[str], left: str) -> None:
        """See Display."""


class ProgressLines:
    """A plain line now and then, and one at the end."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._stream, self._said_at = stream, clock.now()
        self._say(f"Draining: {counted(total, 'job is', 'jobs are')} due.")

    def show(self, counts: Counter[str]) -> None:
        """See Display."""
        if clock.now() - self._said_at >= _LINE_EVERY:
            self._said_at = clock.now()
            self._say(f"So far: {listed(counts)}.")

    def close(self, counts: Counter[str], left: str) -> None:
        """See Display."""
        done = f"Drained: {listed(counts) or 'nothing was due'}."
        self._say(f"{done} {left}".rstrip())

    def _say(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()


class Progress:
    """How many runs ended in which way; see `log` for the words. For any thread."""

    def __init__(self, display: Display | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._display = display or NoDisplay()

    def add(self, word: str, number: int = 1) -> None:
        """Count so many."""
        # The terminal may be gone; the worker goes on.
        with self._lock, contextlib.suppress(OSError):
            self.counts[word] += number
            self._display.show(self.counts)

    def close(self, left: str = "") -> None:
        """Show the end. `left`: a sentence about the jobs that still wait, or ""."""
        with contextlib.suppress(OSError):
            self._display.close(self.counts, left)

    @property
    def failed(self) -> int:
        """How many jobs failed for good."""
        return self.counts[FAILED]


def drain_display(total: int, stream: TextIO | None = None) -> Display:
    """Return what suits the stream (stderr unless given): a bar on a terminal, or lines."""
    shown: Any = stream or sys.stderr
    if not shown.isatty():
        return ProgressLines(total, shown)
    # Not at the top: what draws it is of no use to the many processes that draw nothing.
    from django_leasequeue.worker.progress_bar import ProgressBar

    return ProgressBar(total, shown)


def listed(counts: Counter[str]) -> str:
    """Return how many ended in which way, in the order of `log.WORDS`."""
    return ", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word])
