"""Whether the server takes writes."""

from django.db import connections

_READ_ONLY = {
    # Also of a standby, and of a database or role that is set to it.
    "postgresql": "SELECT current_setting('transaction_read_only') = 'on'",
    "mysql": "SELECT @@GLOBAL.read_only",
    "sqlite": "PRAGMA query_only",
}


def takes_writes(using: str) -> bool:
    """Ask the server whether it takes writes now, as far as it says so beforehand.

    A full disk, or an SQLite file that may not be written, is seen by a write alone.
    """
    connection = connections[using]
    with connection.cursor() as cursor:
        cursor.execute(_READ_ONLY[connection.vendor])
        row = cursor.fetchone()
    return not (row and row[0])
