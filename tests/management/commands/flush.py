"""Django's flush for the end of a test, at a tenth of its cost.

Every test that commits ends with a flush. Django's empties all tables, and fills those of
permissions and content types again. This one, which stands in its place while the tests are
an installed app, looks which tables hold rows, empties these, and keeps those two as the
migrations have filled them.
"""

from django.core.management.color import no_style
from django.core.management.commands import flush
from django.db import connections

FILLED_BY_MIGRATE = {"auth_permission", "django_content_type"}


class Command(flush.Command):
    def handle(self, *, database, **options):
        connection = connections[database]
        tables = filled(connection)
        if tables:
            statements = connection.ops.sql_flush(
                no_style(), tables, reset_sequences=False, allow_cascade=True
            )
            connection.ops.execute_sql_flush(statements)


def filled(connection):
    """Return the names of the tables to empty: those of the models, if they have rows."""
    tables = connection.introspection.django_table_names(
        only_existing=True, include_views=False
    )
    tables = sorted(set(tables) - FILLED_BY_MIGRATE)
    if not tables:
        return []
    exist = ", ".join(
        f"EXISTS(SELECT 1 FROM {connection.ops.quote_name(table)})" for table in tables
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {exist}")
        return [
            table
            for table, any_row in zip(tables, cursor.fetchone(), strict=True)
            if any_row
        ]
