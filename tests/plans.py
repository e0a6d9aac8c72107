"""How a database goes about the statements that the package really sends it."""

import contextlib
import json
import re
from dataclasses import dataclass, field

from django.db import connections, transaction

TABLE = "leasequeue_job"
# What the databases call the way by primary key.
PRIMARY = "primary key"
_SQLITE_STEP = re.compile(r"(SCAN|SEARCH) (\S+)(?: USING (?:COVERING )?(.*))?")


@dataclass
class Statement:
    """One statement as it was carried out."""

    sql: str
    # Indexes through which the job table was read.
    indexes: set[str] = field(default_factory=set)
    # Whether it was read from end to end, and whether rows had to be sorted.
    scans: bool = False
    sorts: bool = False
    # Rows and index entries looked at; on SQLite the steps of its machine by eight, which is
    # about what a row costs.
    touched: int = 0
    plan: str = ""

    @property
    def picks(self):
        """Whether it picks the first rows of many."""
        return "LIMIT" in self.sql

    @property
    def locks(self):
        """Whether it leaves rows locked."""
        return "FOR UPDATE" in self.sql or self.sql.startswith("UPDATE")


@contextlib.contextmanager
def watched(using):
    """Explain and measure what is sent to a database; yields the growing list of Statements.

    Inserts and transaction control are left out.
    """
    connection = connections[using]
    seen = []
    busy = False

    def wrapper(execute, sql, params, many, context):
        nonlocal busy
        if busy or sql.split()[0] not in ("SELECT", "UPDATE", "DELETE", "WITH"):
            return execute(sql, params, many, context)
        busy = True
        try:
            statement = Statement(sql.strip())
            _EXPLAIN[connection.vendor](connection, statement, params)
            with _MEASURE[connection.vendor](connection, statement):
                result = execute(sql, params, many, context)
            seen.append(statement)
            return result
        finally:
            busy = False

    with connection.execute_wrapper(wrapper):
        yield seen


def _rows(connection, sql, params=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _explain_sqlite(connection, statement, params):
    for row in _rows(connection, f"EXPLAIN QUERY PLAN {statement.sql}", params):
        statement.plan += f"{row['detail']}\n"
        step = _SQLITE_STEP.match(row["detail"])
        if step and step[2] in (TABLE, "U0"):
            way = (step[3] or "").replace("INTEGER PRIMARY KEY", f"INDEX {PRIMARY}")
            statement.scans |= step[1] == "SCAN"
            for name in re.findall(r"INDEX ([^(]+?)(?: \(|$)", way):
                statement.indexes.add(_sqlite_name(connection, name))
        statement.sorts |= "USE TEMP B-TREE FOR" in row["detail"]


def _sqlite_name(connection, name):
    """Return the name of the constraint for which SQLite has made an index of its own name."""
    if not name.startswith("sqlite_autoindex"):
        return name
    columns = [row["name"] for row in _rows(connection, f"PRAGMA index_info({name})")]
    found = connection.introspection.get_constraints(connection.cursor(), TABLE)
    [constraint] = [key for key, value in found.items() if value["columns"] == columns]
    return constraint


def _explain_postgres(connection, statement, params):
    # Carried out and undone, since only so it tells the rows.
    with transaction.atomic(using=connection.alias):
        sql = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}"
        [row] = _rows(connection, sql, params)
        transaction.set_rollback(True, using=connection.alias)
    [plan] = row["QUERY PLAN"]
    statement.plan = json.dumps(plan, indent=1)
    _walk(plan["Plan"], statement)


def _walk(node, statement):
    kind = node["Node Type"]
    statement.sorts |= "Sort" in kind
    if "Index Name" in node and node.get("Relation Name", TABLE) == TABLE:
        name = node["Index Name"]
        statement.indexes.add(PRIMARY if name == f"{TABLE}_pkey" else name)
    if kind.endswith("Scan") and node.get("Relation Name", TABLE) == TABLE:
        statement.scans |= kind == "Seq Scan"
        if "Index Name" in node or kind == "Seq Scan":
            rows = sum(
                node.get(name, 0)
                for name in (
                    "Actual Rows",
                    "Rows Removed by Filter",
                    "Rows Removed by Index Recheck",
                )
            )
            # A look that finds nothing is a look, too.
            statement.touched += round(max(rows, 1) * node["Actual Loops"])
    for child in node.get("Plans", ()):
        _walk(child, statement)


def _explain_mysql(connection, statement, params):
    form = "" if connection.mysql_is_mariadb else "FORMAT=TRADITIONAL "
    for row in _rows(connection, f"EXPLAIN {form}{statement.sql}", params):
        statement.plan += f"{row}\n"
        if row["table"] in (TABLE, "U0"):
            key = row["key"]
            statement.indexes.update({PRIMARY if key == "PRIMARY" else key} - {None})
            statement.scans |= row["type"] in ("ALL", "index")
        statement.sorts |= "filesort" in (row["Extra"] or "")


@contextlib.contextmanager
def _measure_nothing(connection, statement):
    yield


@contextlib.contextmanager
def _measure_sqlite(connection, statement):
    def step():
        statement.touched += 1

    connection.connection.set_progress_handler(step, 8)
    try:
        yield
    finally:
        connection.connection.set_progress_handler(None, 8)


@contextlib.contextmanager
def _measure_mysql(connection, statement):
    first, before = _handler_reads(connection), _handler_reads(connection)
    yield
    # Asking is itself counted.
    statement.touched = _handler_reads(connection) - before - (before - first)


def _handler_reads(connection):
    rows = _rows(connection, "SHOW SESSION STATUS LIKE 'Handler_read_%%'", ())
    return sum(int(row["Value"]) for row in rows)


_EXPLAIN = {
    "sqlite": _explain_sqlite,
    "postgresql": _explain_postgres,
    "mysql": _explain_mysql,
}
_MEASURE = {
    "sqlite": _measure_sqlite,
    "postgresql": _measure_nothing,
    "mysql": _measure_mysql,
}
