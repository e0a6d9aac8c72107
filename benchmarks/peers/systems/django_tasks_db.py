"""django-tasks-db, the reference backend of Django's tasks, and its own worker."""

from benchmarks.peers.system import System, several


class Client:
    def setup(self):
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    def open(self):
        from benchmarks.peers.systems.django_tasks import noop

        self.task = noop

    def one(self, number):
        self.task.enqueue(number)

    def many(self, numbers):
        # There is no bulk interface: this only fills the queue.
        from django_tasks_db.models import DBTaskResult, get_date_max

        DBTaskResult.objects.bulk_create(
            DBTaskResult(
                args_kwargs={"args": [number], "kwargs": {}},
                priority=0,
                task_path=self.task.module_path,
                queue_name="default",
                backend_name="default",
                run_after=get_date_max(),
            )
            for number in numbers
        )


SYSTEM = System(
    packages=("django-tasks-db", "Django", "psycopg"),
    tables=("django_tasks_database_dbtaskresult",),
    unfinished="SELECT 1 FROM django_tasks_database_dbtaskresult "
    "WHERE status IN ('READY', 'RUNNING') LIMIT 1",
    client=Client,
    configs={
        "default": several("django", "db_worker", "--no-startup-delay", "-v0"),
    },
    pick_up="default",
    settings={
        "INSTALLED_APPS": ["django_tasks_db"],
        "TASKS": {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}},
    },
    bulk=False,
)
