"""procrastinate through its Django app, and its own worker."""

from benchmarks.peers.system import System, several

TASKS = "benchmarks.peers.systems.procrastinate_tasks"
WORKER = ["django", "procrastinate", "worker"]
QUIET = {"PROCRASTINATE_LOG_LEVEL": "warning"}


class Client:
    def setup(self):
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    def open(self):
        from benchmarks.peers.systems.procrastinate_tasks import noop

        self.task = noop

    def one(self, number):
        self.task.defer(i=number)

    def many(self, numbers):
        self.task.batch_defer(*({"i": number} for number in numbers))


SYSTEM = System(
    packages=("procrastinate", "Django", "psycopg"),
    tables=("procrastinate_jobs", "procrastinate_events"),
    unfinished="SELECT 1 FROM procrastinate_jobs "
    "WHERE status IN ('todo', 'doing') LIMIT 1",
    client=Client,
    configs={
        "default (1 at once), async": several(*WORKER, **QUIET),
        "10 at once, in threads": several(
            *WORKER, "--concurrency", "10", IN_THREAD="1", **QUIET
        ),
    },
    pick_up="default (1 at once), async",
    settings={
        "INSTALLED_APPS": ["procrastinate.contrib.django"],
        "PROCRASTINATE_IMPORT_PATHS": [TASKS],
    },
)
