"""The floor of what is written with querysets: claim and finish of benchmarks.floors."""

from benchmarks.peers.system import System, several


class Client:
    def setup(self):
        from django.core.management import call_command

        call_command("migrate", run_syncdb=True, verbosity=0)

    def open(self):
        from benchmarks.models import FloorJob

        self.model = FloorJob

    def one(self, number):
        self.model.objects.create(args={"number": number})

    def many(self, numbers):
        jobs = [self.model(args={"number": number}) for number in numbers]
        self.model.objects.bulk_create(jobs)


SYSTEM = System(
    packages=("Django", "psycopg"),
    tables=("benchmarks_floorjob",),
    unfinished="SELECT 1 FROM benchmarks_floorjob WHERE status <> 2 LIMIT 1",
    client=Client,
    configs={"50 at a time": several("benchmarks.floors", "orm")},
    pick_up="50 at a time",
    settings={},
    scale=5,
)
