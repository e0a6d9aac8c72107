"""A drain's progress on a terminal."""

from collections import Counter
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from django_leasequeue import clock
from django_leasequeue.worker.progress import listed

# Seconds between two drawings, so that thousands of short jobs a second are no slower for it.
_DRAW_EVERY = 0.1


class ProgressBar:
    """A progress bar. `total`: how many jobs are due at the start, each of which is a run."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total, self._stream, self._drawn_at = total, stream, clock.now()
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("runs"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[counts]}", markup=False),
            console=Console(file=stream, highlight=False),
            # A thread of its own would draw on when the terminal is gone.
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=total, counts="")
        self._bar.start()
        # It would stay hidden after an end at once.
        self._bar.console.show_cursor(True)

    def show(self, counts: Counter[str]) -> None:
        """See Display."""
        self._set(counts)
        if clock.now() - self._drawn_at >= _DRAW_EVERY:
            self._drawn_at = clock.now()
            self._bar.refresh()

    def close(self, counts: Counter[str], left: str) -> None:
        """See Display."""
        self._total = counts.total()
        self._set(counts)
        self._bar.refresh()
        self._bar.stop()
        if left:
            self._stream.write(f"{left}\n")

    def _set(self, counts: Counter[str]) -> None:
        # Retries, and jobs that jobs dispatched, come on top.
        done = counts.total()
        total = max(self._total, done)
        self._bar.update(self._task, completed=done, total=total, counts=listed(counts))
