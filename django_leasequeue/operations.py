"""Operations for migrations of the job table."""

from array import array
from typing import Any

from django.db.migrations.operations.base import Operation
from django.db.models import F, Window
from django.db.models.functions import RowNumber

from django_leasequeue import db

# Rows in one update: below SQLite's former limit of 999 parameters, and short enough to
# hold nobody up.
ROWS = 500


class LatestKeepsDedupId(Operation):
    """Let the latest job of each dedup id keep it, so that the unique constraint can be made.

    Where several jobs of one queue have one id, all but the one with the largest primary key
    lose the id, which moves to `released_dedup_id`. Nothing else changes and no row is
    removed, so that they are run as they would have been. Put it before the AddConstraint:

        class Migration(migrations.Migration):
            atomic = False  # each 500 rows are stored on their own
            operations = [
                LatestKeepsDedupId(),
                migrations.AddConstraint("job", models.UniqueConstraint(...)),
            ]

    It may be interrupted and run again, and run twice. A dispatch by code that does not know
    the constraint may add another job of an id meanwhile: then AddConstraint fails, and the
    migration is run again. It reads the table once, in the database, and keeps 8 bytes for
    each id that is lost.

    `model`: the job model, as "app_label.name". There is no way back, and none is needed.
    """

    reduces_to_sql = False
    reversible = True

    def __init__(self, model: str = "leasequeue.job") -> None:
        self.model = model

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Nothing: the columns stay as they are."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Take the ids from all but the latest."""
        model = from_state.apps.get_model(self.model)
        alias = schema_editor.connection.alias
        if not self.allow_migrate_model(alias, model):
            return
        rows = model._base_manager.using(alias).filter(dedup_id__isnull=False)
        # In the way of the constraint, not of the column: its collation may be another yet.
        place = Window(
            RowNumber(),
            partition_by=[db.Exactly("queue"), db.Exactly("dedup_id")],
            order_by=F("pk").desc(),
        )
        earlier = rows.annotate(place=place).filter(place__gt=1).order_by("pk")
        found = array("q", earlier.values_list("pk", flat=True))
        for start in range(0, len(found), ROWS):
            # In this order: MySQL assigns from left to right and would copy the null.
            rows.filter(pk__in=found[start : start + ROWS]).update(
                released_dedup_id=F("dedup_id"), dedup_id=None
            )

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Nothing: without the constraint the ids may stay where they are."""

    def describe(self) -> str:
        return f"Let the latest {self.model} of each dedup id keep it"

    @property
    def migration_name_fragment(self) -> str:
        return "latest_keeps_dedup_id"


class _Statements(Operation):
    """An operation of a few statements, none where the database has no need of it.

    `model`: the job model, as "app_label.name".
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, model: str = "leasequeue.job") -> None:
        self.model = model

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Nothing: Django knows nothing of what they make."""

    def _run(self, schema_editor: Any, state: Any, statements: Any) -> None:
        model = state.apps.get_model(self.model)
        connection = schema_editor.connection
        if self.allow_migrate_model(connection.alias, model):
            for statement in statements(connection, model._meta.db_table):
                schema_editor.execute(statement)


class NotifyWorkers(_Statements):
    """Have PostgreSQL tell workers of new jobs, by triggers; elsewhere there is nothing to do.

    A later migration that alters the type of `status`, `run_at` or `blocked`, or drops one,
    has to go back before and to come again after it, since the triggers name these columns:

        operations = [ForgetWorkers(), migrations.AlterField(...), NotifyWorkers()]

    It may be run twice. `model`: the job model, as "app_label.name".
    """

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Make the triggers and their function."""
        self._run(schema_editor, from_state, db.notify_statements)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Remove them."""
        self._run(schema_editor, from_state, db.no_notify_statements)

    def describe(self) -> str:
        return f"Have PostgreSQL tell workers of new rows of {self.model}"

    @property
    def migration_name_fragment(self) -> str:
        return "notify_workers"


class ForgetWorkers(NotifyWorkers):
    """The opposite of NotifyWorkers."""

    database_forwards = NotifyWorkers.database_backwards
    database_backwards = NotifyWorkers.database_forwards

    def describe(self) -> str:
        return f"Have PostgreSQL tell nobody of new rows of {self.model}"

    @property
    def migration_name_fragment(self) -> str:
        return "forget_workers"


class LeaveRoom(_Statements):
    """Have PostgreSQL leave room in each page for what claim and settle make of its rows.

    Elsewhere there is nothing to do. Rows that are there already stay as they are; nobody
    waits for it. Whoever has set a fillfactor of their own sets it again afterwards. It may
    be run twice. `model`: the job model, as "app_label.name".
    """

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Set it for pages to come."""
        self._run(schema_editor, from_state, db.storage_statements)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Go back to full pages."""
        self._run(schema_editor, from_state, db.usual_storage_statements)

    def describe(self) -> str:
        return f"Have PostgreSQL leave room in the pages of {self.model}"

    @property
    def migration_name_fragment(self) -> str:
        return "leave_room"
