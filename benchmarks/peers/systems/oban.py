"""Oban for Python, the open-source edition: its own command as the worker, coroutines."""

import os
import sys

from benchmarks.peers.loops import Loop
from benchmarks.peers.system import System, address, several

MODULE = "benchmarks.peers.systems.oban"
TASKS = "benchmarks.peers.systems.oban_tasks"


class Client(Loop):
    async def _open(self):
        from oban import Oban
        from psycopg_pool import AsyncConnectionPool

        self.pool = AsyncConnectionPool(address(), min_size=1, max_size=4, open=False)
        await self.pool.open()
        self.oban = Oban(pool=self.pool)

    def open(self):
        from benchmarks.peers.systems.oban_tasks import Noop

        self.new = Noop.new
        self.run(self._open())

    def setup(self):
        from oban.schema import install

        self.open()
        self.run(install(self.pool))
        self.close()

    def close(self):
        self.run(self.pool.close())

    def one(self, number):
        self.run(self.oban.enqueue(self.new({"i": number})))

    def many(self, numbers):
        self.run(self.oban.enqueue_many([self.new({"i": n}) for n in numbers]))


def start(size: str) -> None:
    """Become its command."""
    command = os.path.join(os.path.dirname(sys.executable), "oban")
    options = ["--dsn", address(), "--log-level", "WARNING"]
    options += ["--queues", f"default:{size}", "--cron-modules", TASKS]
    os.execv(sys.executable, [sys.executable, command, "start", *options])


SYSTEM = System(
    packages=("oban", "psycopg"),
    tables=("oban_jobs",),
    unfinished="SELECT 1 FROM oban_jobs WHERE state <> 'completed' LIMIT 1",
    client=Client,
    configs={
        "10 at once": several(MODULE, "10"),
        "100 at once": several(MODULE, "100"),
    },
    pick_up="10 at once",
)

if __name__ == "__main__":
    start(sys.argv[1])
