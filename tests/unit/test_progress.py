"""worker.progress: counts, and how a drain shows them."""

import contextlib
import io
import threading
from collections import Counter

import pytest

from django_leasequeue.worker import log, progress
from django_leasequeue.worker.progress import Progress, ProgressLines, drain_display
from django_leasequeue.worker.progress_bar import ProgressBar
from tests.helpers import together


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_bar_is_for_terminals_only(stream):
    display = drain_display(3, stream())
    assert isinstance(display, ProgressBar if stream is Terminal else ProgressLines)


def test_lines_tell_the_start_the_counts_and_the_end(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(progress, "_LINE_EVERY", 0)
    counting = Progress(drain_display(3, stream))
    counting.add(log.FAILED)
    counting.add(log.SUCCEEDED)
    counting.close()
    assert stream.getvalue().splitlines() == [
        "Draining: 3 jobs are due.",
        "So far: 1 failed.",
        "So far: 1 succeeded, 1 failed.",
        "Drained: 1 succeeded, 1 failed.",
    ]
    assert counting.failed == 1


class Meeting(Counter):
    """Counts that two threads read at the same time, if they can."""

    barrier = threading.Barrier(2)

    def __getitem__(self, word):
        count = super().__getitem__(word)
        with contextlib.suppress(threading.BrokenBarrierError):
            self.barrier.wait(0.2)
        return count


def test_two_threads_count_two():
    counting = Progress()
    counting.counts = Meeting()
    together(2, lambda _: counting.add(log.SUCCEEDED))
    assert dict(counting.counts) == {log.SUCCEEDED: 2}


def test_lines_are_few():
    stream = io.StringIO()
    counting = Progress(ProgressLines(100, stream))
    for _ in range(100):
        counting.add(log.SUCCEEDED)
    counting.close()
    assert len(stream.getvalue().splitlines()) == 2


def test_an_empty_drain_says_so():
    stream = io.StringIO()
    Progress(ProgressLines(0, stream)).close()
    assert stream.getvalue().splitlines()[-1] == "Drained: nothing was due."


def test_a_bar_counts_runs():
    """A job that is retried and ends in the same drain has two."""
    stream = io.StringIO()
    counting = Progress(ProgressBar(1, stream))
    counting.add(log.RETRIED)
    counting.add(log.SUCCEEDED)
    counting.close()
    assert "2/2 runs" in stream.getvalue()


@pytest.mark.parametrize("display", [ProgressBar, ProgressLines])
def test_the_end_tells_what_still_waits(display):
    stream = io.StringIO()
    Progress(display(0, stream)).close("Still waiting: 1 job.")
    assert stream.getvalue().splitlines()[-1].endswith("Still waiting: 1 job.")


@pytest.mark.parametrize(
    ("number", "line"), [(0, "0 jobs are"), (1, "1 job is"), (2, "2 jobs are")]
)
def test_one_job_is_no_plural(number, line):
    stream = io.StringIO()
    ProgressLines(number, stream)
    assert stream.getvalue() == f"Draining: {line} due.\n"


def test_the_bar_grows_by_jobs_that_were_not_due_at_the_start():
    stream = Terminal()
    counting = Progress(ProgressBar(1, stream))
    for _ in range(3):
        counting.add(log.SUCCEEDED)
    counting.close()
    assert "3/3" in stream.getvalue()
    assert "3 succeeded" in stream.getvalue()


def test_a_terminal_that_is_gone_stops_nothing():
    class Gone:
        def show(self, counts, left=""):
            raise OSError("gone")

        close = show

    counting = Progress(Gone())
    counting.add(log.FAILED)
    counting.close()
    assert counting.failed == 1
