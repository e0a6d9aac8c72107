"""The measures of one system on the server: what it does a second, and how soon."""

import json
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.database import ROOT, environment
from benchmarks.peers.server import Server
from benchmarks.peers.system import System
from benchmarks.speed.workers import workers
from django_leasequeue import clock

# Seconds after which a drain is cut off; its rate so far counts.
LIMIT = 20.0
# Jobs whose pick-up is timed, at most.
PICKED_UP = 100
MANY_SCALE = 10

# A figure by the name of what it counts.
Figures = dict[str, float]


class Bench:
    """One system: `name` of it, and where its database is."""

    def __init__(self, name: str, system: System, server: Server) -> None:
        self.name, self.system, self._server = name, system, server
        self._entry = server.database(name)
        self._variables = {"PEER": name}
        if system.settings is not None:
            self._variables["DJANGO_SETTINGS_MODULE"] = "benchmarks.peers.settings"
        self._client("setup", 0)

    def put(self, measure: str, count: int) -> Figures:
        """Jobs that one process puts in, one by one or by the bulk interface."""
        self._server.empty(self._entry, self.system.tables)
        seconds = self._client(measure, count, before=self._server.reset)
        return {"jobs/s": count / seconds, **self._server.per_job(count)}

    def drain(self, config: str, processes: int, count: int) -> Figures:
        """Jobs that its workers run and finish. Raises AssertionError if one ran twice."""
        server, system = self._server, self.system
        server.empty(self._entry, system.tables)
        self._client("many", count)
        server.analyze(self._entry)
        start = system.configs[config](processes)
        with (
            server.connect(self._entry) as connection,
            workers(
                start.module, self._entry, start.count, self._with(start)
            ) as running,
        ):
            records = running.records
            running.wait_for(lambda: records.processes == processes)
            server.reset()
            started = records.go()
            ends = clock.now() + LIMIT
            running.wait_for(lambda: records.count >= count or clock.now() > ends)
            if records.count >= count:
                running.wait_for(
                    lambda: not connection.execute(system.unfinished).fetchone()
                )
            seconds = (time.monotonic_ns() - started) / 1e9
            numbers = [number for number, _ in records.all()]
            counted = server.per_job(len(numbers))
        assert len(set(numbers)) == len(numbers), f"{self.name} ran a job twice"
        return {"jobs/s": len(numbers) / seconds, **counted}

    def pick_up(self, count: int) -> Figures:
        """From the return of a dispatch to the start of its job, by an idle worker."""
        self._server.empty(self._entry, self.system.tables)
        start = self.system.configs[self.system.pick_up](1)
        with workers(
            start.module, self._entry, start.count, self._with(start)
        ) as running:
            records = running.records
            records.go()
            # The client's warm-up wakes the worker as well.
            warm = lambda: running.wait_for(lambda: records.processes == 1)  # noqa: E731
            returned = dict(self._client("pick_up", count, before=warm))
            running.wait_for(lambda: returned.keys() <= dict(records.all()).keys())
            started = dict(records.all())
        waits = sorted((started[one] - returned[one]) / 1e6 for one in returned)
        p99 = waits[max(int(len(waits) * 0.99) - 1, 0)]
        return {"ms": statistics.median(waits), "p99 ms": p99}

    def _with(self, start) -> dict[str, str]:
        return {**self._variables, **start.variables}

    def _client(self, measure: str, count: int, before=None) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.client", measure, str(count)],
            cwd=ROOT,
            env=environment(self._entry, **self._variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if measure != "setup":
            process.stdout.readline()  # it is warm
            if before:
                before()
        out, _ = process.communicate("\n")
        if process.returncode:
            raise RuntimeError(f"The client of {self.name} ended with an error.")
        return json.loads(out) if measure != "setup" else None
