"""The killer: chooses what happens next, and to whom."""

import random
import signal
import threading
import time
from collections import Counter

from django.db import Error, connection

from benchmarks.chaos.workers import LEASE
from django_leasequeue import clock

# Seconds between two blows.
PAUSE = (0.5, 3.0)
# Seconds for which things are stopped: past the lease.
FROZEN = LEASE + 2
JOB = "leasequeue_job"


class Killer:
    """Strikes until `close()`, in the thread that calls `run`. `seed` makes its choices."""

    def __init__(self, workers, server, seed):
        self._workers, self._server = workers, server
        self._dice = random.Random(seed)
        self.done = Counter()
        self._threads = []
        self._blows = [
            self.kill_child,
            self.kill_supervisor,
            self.freeze,
            self.lock_rows,
        ]
        if server is not None:
            self._blows += [self.cut, self.swallow, self.kill_server]

    def run(self, seconds):
        """Strike at random moments for so long; raise AssertionError if a worker gives up."""
        ends, deck = clock.now() + seconds, []
        while clock.now() < ends:
            time.sleep(self._dice.uniform(*PAUSE))
            self._look_after_workers()
            if not deck:
                # All of them in turn, so that even a short run has seen each.
                deck = self._dice.sample(self._blows, len(self._blows))
            blow = deck.pop()
            if blow(self._dice.choice(self._workers)):
                self.done[blow.__name__.replace("_", " ")] += 1

    def close(self):
        """Undo what can be undone, and start whoever is to be started."""
        for thread in self._threads:
            thread.join(60)
        for worker in self._workers:
            if worker.start_at is not None:
                worker.start()

    def _look_after_workers(self):
        for worker in self._workers:
            if worker.ended_by_itself:
                raise AssertionError(f"Worker {worker.number} ended by itself.")
            if worker.start_at is not None and worker.start_at <= clock.now():
                worker.start()

    def _later(self, seconds, *actions):
        def act():
            time.sleep(seconds)
            for action in actions:
                action()

        self._aside(act)

    def _aside(self, action):
        thread = threading.Thread(target=action, daemon=True)
        thread.start()
        self._threads.append(thread)

    def kill_child(self, worker):
        """SIGKILL to one child."""
        children = worker.children()
        if children:
            worker.signal(signal.SIGKILL, [self._dice.choice(children)])
        return bool(children)

    def kill_supervisor(self, worker):
        """SIGKILL to a supervisor, and sometimes to its children with it."""
        if worker.start_at is not None:
            return False
        children = worker.children() if self._dice.random() < 0.5 else []
        worker.kill(clock.now() + self._dice.uniform(0, 3))
        worker.signal(signal.SIGKILL, children)
        return True

    def freeze(self, worker):
        """SIGSTOP to a child, a supervisor or all of them, and SIGCONT past the lease."""
        if worker.start_at is not None:
            return False
        family = [*worker.children(), worker.process.pid]
        chosen = self._dice.choice([family, family[:1], family[-1:]])
        worker.signal(signal.SIGSTOP, chosen)
        self._later(FROZEN, lambda: worker.signal(signal.SIGCONT, chosen))
        return True

    def cut(self, worker):
        """End all of a worker's connections."""
        worker.proxy.cut()
        return True

    def swallow(self, worker):
        """Let nothing through to or from a worker, for some seconds, and tell nobody."""
        worker.proxy.swallow()
        self._later(self._dice.uniform(0.5, FROZEN), worker.proxy.forward)
        return True

    def kill_server(self, worker):
        """SIGKILL to the database server, and start it again."""
        self._server.crash()
        time.sleep(self._dice.uniform(0, 2))
        self._server.revive()
        return True

    def lock_rows(self, worker):
        """Keep running jobs locked (on SQLite the whole file) for up to a lease and more."""
        longest = 2.0 if self._server is None else LEASE * 1.3
        seconds = self._dice.uniform(0.2, longest)
        self._aside(lambda: _hold_locks(seconds))
        return True


def _hold_locks(seconds):
    try:
        connection.set_autocommit(False)
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute(f"UPDATE {JOB} SET id = id WHERE id = 0")
            else:
                cursor.execute(
                    f"SELECT id FROM {JOB} WHERE status = 'running' ORDER BY id LIMIT 10"
                )
                for row in cursor.fetchall():
                    cursor.execute(
                        f"SELECT id FROM {JOB} WHERE id = %s FOR UPDATE", row
                    )
        time.sleep(seconds)
    except Error:
        pass  # the server was killed
    finally:
        connection.close()
