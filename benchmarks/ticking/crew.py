"""The processes that tick, and what they have made of it."""

import random
import subprocess
import sys
import time
from datetime import timedelta
from statistics import median

from benchmarks.database import ROOT
from django_leasequeue import clock

SECOND = timedelta(seconds=1)


class Crew:
    """So many processes, in the environment `env`; `close()` ends them."""

    def __init__(self, count, env):
        self._env = env
        self._processes = [self._start() for _ in range(count)]
        self.killed = 0

    def _start(self):
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.ticking.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=self._env,
        )

    def wait_until_ticking(self):
        """Return once each of them is."""
        for process in self._processes:
            assert process.stdout.readline(), "A process ended before it ticked."

    def run(self, seconds, kill_every=None, *, replaced=True):
        """Let them tick for so long; kill one at random about every `kill_every` seconds.

        `replaced`: whether another takes its place; else the last one is spared.
        """
        ends = clock.now() + seconds
        while (left := ends - clock.now()) > 0:
            if kill_every is None:
                time.sleep(left)
                return
            time.sleep(min(left, random.uniform(0, 2 * kill_every)))
            if not replaced and len(self._processes) == 1:
                return
            self._kill(random.randrange(len(self._processes)))
            if replaced:
                self._processes.append(self._start())

    def _kill(self, place):
        process = self._processes.pop(place)
        process.kill()
        self._end(process)
        self.killed += 1

    def close(self):
        """Let them end after the tick at hand."""
        for process in self._processes:
            process.stdin.close()
        for process in self._processes:
            self._end(process)

    def _end(self, process):
        process.wait(180)
        process.stdin.close()
        process.stdout.close()


def verdict(schedule, jobs, after=0.0):
    """Return what is wrong with the ticks of a schedule of seconds, and how late each was.

    `jobs`: (tick, created_at) of all its jobs. Those of the first `after` seconds, while the
    processes start, are not counted as late.
    """
    first = schedule.created_at.replace(microsecond=0) + SECOND
    number = (schedule.last_tick - first) // SECOND + 1
    expected = [first + n * SECOND for n in range(number)]
    ticks = sorted(tick for tick, _ in jobs)
    wrong = []
    if len(set(ticks)) < len(ticks):
        wrong.append(f"{len(ticks) - len(set(ticks))} ticks have two jobs.")
    if set(expected) != set(ticks):
        wrong.append(f"These are missing or too many: {set(expected) ^ set(ticks)}.")
    if schedule.fired != len(ticks):
        wrong.append(f"It counted {schedule.fired} jobs of {len(ticks)}.")
    started = first + timedelta(seconds=after)
    late = sorted(
        (made - tick).total_seconds() for tick, made in jobs if tick > started
    )
    return wrong, (median(late), late[-1]) if late else (0, 0)
