"""The floor: psycopg, a batch claimed and a batch finished, and nothing that a queue promises."""

import sys
import time

from benchmarks.peers.system import System, address, several
from benchmarks.record import touch

TABLE = """
CREATE TABLE raw_job (
    id bigserial PRIMARY KEY, status smallint NOT NULL DEFAULT 0,
    priority int NOT NULL DEFAULT 0, args jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz, finished_at timestamptz
);
CREATE INDEX raw_job_ready ON raw_job (priority DESC, id) WHERE status = 0
"""
ONE = "INSERT INTO raw_job (args) VALUES (jsonb_build_object('i', %s::bigint))"
TOLD = f"WITH j AS ({ONE} RETURNING id) SELECT pg_notify('raw_job', '') FROM j"
MANY = "COPY raw_job (args) FROM STDIN"
CLAIM = """
UPDATE raw_job SET status = 1, started_at = now() WHERE id IN (
    SELECT id FROM raw_job WHERE status = 0 ORDER BY priority DESC, id
    LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING id, args
"""
FINISH = "UPDATE raw_job SET status = 2, finished_at = now() WHERE id = ANY(%s)"


class Client:
    def setup(self):
        self.open()
        self.connection.execute(TABLE)

    def open(self):
        import psycopg

        self.connection = psycopg.connect(address(), autocommit=True)

    def one(self, number):
        # A notification costs next to nothing within the statement; the pick-up needs it.
        self.connection.execute(TOLD, (number,))

    def many(self, numbers):
        with self.connection.cursor() as cursor, cursor.copy(MANY) as copy:
            for number in numbers:
                copy.write_row((f'{{"i": {number}}}',))


def work(batch: int) -> None:
    """Run jobs until stopped."""
    import psycopg

    connection = psycopg.connect(address(), autocommit=True)
    listener = psycopg.connect(address(), autocommit=True)
    listener.execute("LISTEN raw_job")
    while True:
        rows = connection.execute(CLAIM, (batch,)).fetchall()
        for _, args in rows:
            touch(args["i"])
        if rows:
            connection.execute(FINISH, ([pk for pk, _ in rows],))
            continue
        for _ in listener.notifies(timeout=1, stop_after=1):
            time.sleep(0)


SYSTEM = System(
    packages=("psycopg",),
    tables=("raw_job",),
    unfinished="SELECT 1 FROM raw_job WHERE status <> 2 LIMIT 1",
    client=Client,
    configs={"50 at a time": several("benchmarks.peers.systems.raw_psycopg", "50")},
    pick_up="50 at a time",
    scale=10,
)

if __name__ == "__main__":
    work(int(sys.argv[1]))
