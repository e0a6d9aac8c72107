"""django_leasequeue as it is here."""

from benchmarks.peers.system import Start, System


class Client:
    def setup(self):
        from django.core.management import call_command

        call_command("migrate", run_syncdb=True, verbosity=0)

    def open(self):
        from benchmarks.tasks import noop
        from django_leasequeue.models import Job

        self.jobs, self.noop = Job.objects, noop

    def one(self, number):
        self.noop.dispatch(number)

    def many(self, numbers):
        self.jobs.dispatch_many(map(self.noop.spec, numbers))


def runjobs(*options: str):
    def start(processes: int) -> Start:
        command = ["django", "runjobs", "--verbosity=0", f"--processes={processes}"]
        return Start([*command, *options])

    return start


SYSTEM = System(
    packages=("Django", "psycopg"),
    tables=("leasequeue_job",),
    unfinished="SELECT 1 FROM leasequeue_job "
    "WHERE status IN ('pending', 'running') LIMIT 1",
    client=Client,
    configs={"default": runjobs(), "1 thread": runjobs("--threads=1")},
    pick_up="default",
    settings={},
    scale=5,
)
