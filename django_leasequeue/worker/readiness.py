"""What has to be so before a worker starts: above all, the tables that this code expects."""

from django.db import InterfaceError, OperationalError, connections
from django.db.migrations.executor import MigrationExecutor

from django_leasequeue.models import Job
from django_leasequeue.worker import bounded
from django_leasequeue.worker.log import logger

IN_TRANSACTION = (
    "can't be called in a transaction: jobs are run and settled in others, which can't see "
    "what is not committed. In a test, run_jobs() of django_leasequeue.testing runs jobs in "
    "its transaction; one that calls this is a TransactionTestCase, and runjobs needs "
    "--in-process there."
)


def missing_migrations(database: str) -> list[str]:
    """Return the names of this app's migrations that the database lacks.

    Without a database that answers there is nothing to say: the worker then waits for it.
    """
    label = Job._meta.app_label
    connection = connections[database]
    try:
        with bounded.Bounded(database):
            executor = MigrationExecutor(connection)
    except (InterfaceError, OperationalError) as error:
        logger.warning(
            "The database does not answer yet: %s", error, extra={"database": database}
        )
        connection.close()
        return []
    finally:
        bounded.let_go(database)
    targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] == label]
    plan = executor.migration_plan(targets)
    return [migration.name for migration, _ in plan if migration.app_label == label]
