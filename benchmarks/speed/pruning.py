"""What a prune of many rows does to those who dispatch and run jobs meanwhile."""

import json
import statistics
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from benchmarks.rows import fill
from benchmarks.speed import state
from benchmarks.speed.workers import workers
from benchmarks.tasks import noop
from django_leasequeue.models import Job
from django_leasequeue.states import Status

# Seconds between two dispatches, and how many there are at least before the prune.
APART = 0.01
BEFORE = 100


def prune_beside_work(
    entry: dict[str, Any], size: int, command: list[str]
) -> tuple[float, dict[str, float]]:
    """Return rows pruned a second; and milliseconds of dispatches and pick-ups beside it."""
    state.empty()
    past = datetime.now(UTC) - timedelta(days=9)
    times = dict.fromkeys(("started_at", "last_attempted_at", "finished_at"), past)
    fill(size, first=size, status=Status.SUCCEEDED, attempts=1, **times)
    state.analyze(state.JOBS)
    # The worker would help.
    keeps_all = {"BENCHMARK_SETTINGS": json.dumps({"RETENTION": None})}
    with workers(command, entry, more=keeps_all) as running:
        records = running.records
        records.go()
        dispatcher = Dispatcher()
        dispatcher.start()
        # Once it has caught up with what came while it started.
        running.wait_for(lambda: 0 < len(dispatcher.sent) - 2 <= records.count)
        first = len(dispatcher.sent)
        running.wait_for(lambda: records.count >= first + BEFORE)
        before = len(dispatcher.sent)
        started = time.perf_counter()
        removed = Job.objects.prune().total()
        rate = removed / (time.perf_counter() - started)
        dispatcher.stop()
        running.wait_for(lambda: records.count == len(dispatcher.sent))
        begun = dict(records.all())
    assert removed == size, removed
    beside = dispatcher.sent[before:]
    figures = {}
    for name, sent in (("alone", dispatcher.sent[first:before]), ("", beside)):
        took = [(returned - called) / 1e6 for _, called, returned in sent]
        waits = [(begun[number] - returned) / 1e6 for number, _, returned in sent]
        for what, values in (("dispatch", took), ("pick-up", waits)):
            label = f"{what} {name}".strip()
            figures[f"ms {label}"] = statistics.median(values)
            figures[f"ms longest {label}"] = max(values)
    return rate, figures


class Dispatcher(threading.Thread):
    """Dispatches at a steady pace; `sent`: number, when called, when returned, each."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[int, int, int]] = []
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(APART):
            called = time.monotonic_ns()
            noop.dispatch(len(self.sent))
            self.sent.append((len(self.sent), called, time.monotonic_ns()))
        connection.close()

    def stop(self) -> None:
        """Return once it has sent its last."""
        self._stopped.set()
        self.join()
