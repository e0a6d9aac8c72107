"""How PostgreSQL keeps a table of which each row is changed twice, then left alone."""

from typing import Any

# Room in each page for what claim and settle make of its rows: a version beside its
# predecessor costs a third less of the log than one on another page, and takes the place of
# a dead one sooner. docs/performance.md has the figures.
SETTINGS = {"fillfactor": 50}


def storage_statements(connection: Any, table: str) -> list[str]:
    """Return what sets how the job table is kept; nothing where there is nothing to set."""
    words = ", ".join(f"{name} = {value}" for name, value in SETTINGS.items())
    return _altered(connection, table, f"SET ({words})")


def usual_storage_statements(connection: Any, table: str) -> list[str]:
    """Return what has the server's usual way back."""
    return _altered(connection, table, f"RESET ({', '.join(SETTINGS)})")


def _altered(connection: Any, table: str, change: str) -> list[str]:
    if connection.vendor != "postgresql":
        return []
    return [f"ALTER TABLE {connection.ops.quote_name(table)} {change}"]
