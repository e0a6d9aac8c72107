"""pgqueuer with the driver of its documentation, asyncpg; the job a coroutine or in a thread.

`pgqueuer.run` is what its command calls. A finished job is moved to its log.
"""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

from benchmarks.peers.loops import Loop
from benchmarks.peers.system import System, address, several
from benchmarks.record import touch

MODULE = "benchmarks.peers.systems.pgqueuer"


class Client(Loop):
    async def _open(self):
        import asyncpg
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.queries import Queries

        connection = await asyncpg.connect(address())
        self.queries = Queries(AsyncpgDriver(connection))

    def open(self):
        self.run(self._open())

    def setup(self):
        self.open()
        self.run(self.queries.install())

    def one(self, number):
        self.run(self.queries.enqueue("noop", b"%d" % number))

    def many(self, numbers):
        payloads = [b"%d" % number for number in numbers]
        names, priorities = ["noop"] * len(payloads), [0] * len(payloads)
        self.run(self.queries.enqueue(names, payloads, priorities))


@asynccontextmanager
async def main():
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver

    connection = await asyncpg.connect(address())
    queue = PgQueuer(AsyncpgDriver(connection))
    in_thread = "IN_THREAD" in os.environ

    @queue.entrypoint("noop")
    async def noop(job):
        if in_thread:
            await asyncio.to_thread(touch, int(job.payload))
        else:
            touch(int(job.payload))

    try:
        yield queue
    finally:
        await connection.close()


SYSTEM = System(
    packages=("pgqueuer", "asyncpg", "uvloop"),
    tables=("pgqueuer", "pgqueuer_log", "pgqueuer_statistics"),
    unfinished="SELECT 1 FROM pgqueuer LIMIT 1",
    client=Client,
    configs={
        "default (10 at a time), async": several(MODULE, "10"),
        "100 at a time, async": several(MODULE, "100"),
        "100 at a time, in threads": several(MODULE, "100", IN_THREAD="1"),
    },
    pick_up="default (10 at a time), async",
    scale=5,
)

if __name__ == "__main__":
    import pgqueuer
    import uvloop

    uvloop.run(pgqueuer.run(f"{MODULE}:main", batch_size=int(sys.argv[1])))
