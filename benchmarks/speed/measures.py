"""The measures. Each empties the tables, acts, and returns one figure."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import floors
from benchmarks.database import ROOT, environment
from benchmarks.speed import backlog, pruning, state
from benchmarks.speed.workers import workers

# The last: of a dispatch's own row, by create() and bulk_create(); the others make the least
# row that a queue needs.
FLOORS = {"driver": "bare driver", "orm": "bare ORM", "orm_job": "bare ORM, same row"}
RUNJOBS = ["django", "runjobs", "--verbosity=0"]
# Jobs whose pick-up is timed, at most.
PICKED_UP = 100
# What is fast is given more to do, so that it lasts long enough to be timed.
DRAIN_SCALE = 5
MANY_SCALE = 10


@dataclass(frozen=True)
class Measured:
    """A figure and its unit; `more`: further figures by name."""

    value: float
    unit: str
    more: dict[str, float]


class Bench:
    """The measures on one database, of so many jobs each; `size`: rows of a backlog."""

    def __init__(self, entry: dict[str, Any], count: int, size: int) -> None:
        self._entry, self._count, self._size = entry, count, size

    def measures(self) -> dict[str, Callable[[], Measured]]:
        """Return the measures by their names, in the order of the table."""
        found: dict[str, Callable[[], Measured]] = {}
        for kind in ("one", "many"):
            for who in (*FLOORS, "dispatch"):
                name = (
                    f"insert {kind}, {FLOORS[who]}"
                    if who in FLOORS
                    else f"dispatch {kind}"
                )
                found[name] = partial(self.put, f"{who}_{kind}")
        found["dispatch one, new dedup id"] = partial(self.put, "dispatch_dedup_new")
        found["dispatch one, skipped"] = partial(self.put, "dispatch_dedup_skip")
        for kind in ("driver", "orm"):
            module = ["benchmarks.floors", kind]
            found[f"drain, {FLOORS[kind]}"] = partial(
                self.drain, module, "orm_many", floors.TABLE
            )
        for name, options, fill in (
            ("drain", {}, "dispatch_many"),
            ("drain, 2 processes", {"processes": 2}, "dispatch_many"),
            ("drain, async def", {}, "dispatch_many_async"),
            # A transaction each, which takes many times as long.
            ("drain, atomic", {"scale": 1}, "dispatch_many_atomic"),
        ):
            module = [*RUNJOBS, f"--processes={options.get('processes', 1)}"]
            found[name] = partial(self.drain, module, fill, state.JOBS, **options)
        found["pick-up by an idle worker"] = self.pick_up
        for name, rows in backlog.backlogs(self._size).items():
            found[f"first jobs, {name}"] = partial(self.first, rows)
        found["prune"] = self.prune
        return found

    def put(self, measure: str) -> Measured:
        """Jobs that one process puts into the table."""
        state.empty()
        count = self._count * (MANY_SCALE if measure.endswith("many") else 1)
        before = state.counters()
        seconds = self._client(measure, count)
        return Measured(count / seconds, "jobs/s", state.per_job(before, count))

    def drain(
        self,
        module: list[str],
        fill: str,
        table: str,
        processes: int = 1,
        scale: int = DRAIN_SCALE,
    ) -> Measured:
        """Jobs that workers run and finish. Raises AssertionError if one ran twice."""
        state.empty()
        count = self._count * scale
        self._client(fill, count)
        state.analyze(table)
        with workers(module, self._entry) as running:
            records = running.records
            running.wait_for(lambda: records.processes == processes)
            before = state.counters()
            started = records.go()
            running.wait_for(lambda: records.count >= count)
            running.wait_for(lambda: not state.unfinished(table))
            seconds = (time.monotonic_ns() - started) / 1e9
            more = state.per_job(before, count) | {"MiB": running.memory() / 2**20}
            numbers = sorted(number for number, _ in records.all())
        if numbers != list(range(count)):
            raise AssertionError(f"{count} jobs had {len(numbers)} runs.")
        return Measured(count / seconds, "jobs/s", more)

    def pick_up(self) -> Measured:
        """From the return of a dispatch to the start of its job, by an idle worker."""
        state.empty()
        with workers(RUNJOBS, self._entry) as running:
            records = running.records
            records.go()
            self._client("dispatch_one", 0)  # its warm-up wakes the worker as well
            running.wait_for(lambda: records.processes == 1)
            running.wait_for(lambda: not state.unfinished(state.JOBS))
            warm = records.count
            count = min(self._count, PICKED_UP)
            returned = dict(self._client("latency", count))
            running.wait_for(lambda: records.count == warm + len(returned))
            started = dict(records.all())
        waits = sorted((started[one] - returned[one]) / 1e6 for one in returned)
        p99 = waits[max(int(len(waits) * 0.99) - 1, 0)]
        return Measured(statistics.median(waits), "ms", {"p99": p99})

    def first(self, rows: backlog.Backlog) -> Measured:
        """The first jobs that a worker starts with others in the table."""
        count = max(self._count // 2, 1)
        rate, costs = backlog.first_jobs(self._entry, rows, self._size, count, RUNJOBS)
        return Measured(rate, "jobs/s", costs)

    def prune(self) -> Measured:
        """Rows that a prune removes, and what others notice of it."""
        rate, waits = pruning.prune_beside_work(self._entry, self._size, RUNJOBS)
        return Measured(rate, "rows/s", waits)

    def _client(self, measure: str, count: int) -> Any:
        command = [sys.executable, "-m", "benchmarks.speed.client", measure, str(count)]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(self._entry),
            stdout=subprocess.PIPE,
            check=True,
        )
        return json.loads(done.stdout)
