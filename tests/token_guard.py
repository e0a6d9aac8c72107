"""Refuses writes to the tables of jobs and steps that a lost lease would not stop.

In every worker process that the tests start (see apps.py) and in a `guarded()` block, an
UPDATE or DELETE of jobs is let through only if its condition names the token, or rows that
nobody runs; a write of steps, an INSERT too, only if it names the token, or removes those of
which no job is left. Anything else could change a job that another worker has by now.
"""

import contextlib
import os
import re
import sys
import traceback

from django.db import connections
from django.db.backends.signals import connection_created

TABLE, STEPS = "leasequeue_job", "leasequeue_step"
# In the environment of a process that is to be guarded.
VARIABLE = "LEASEQUEUE_TEST_GUARD"
# What a worker process prints before it ends; no test may overlook it.
ALARM = "A write without the token:"
_WRITES = re.compile(rf'^\s*(UPDATE|DELETE FROM)\s+["`]?{TABLE}\b', re.IGNORECASE)
_STEP_WRITES = re.compile(
    rf'^\s*(UPDATE|DELETE|INSERT)\b[^(]*["`]?{STEPS}\b', re.IGNORECASE
)
_CONDITION = re.compile(r"\bWHERE\b(.*)", re.IGNORECASE | re.DOTALL)
_STATUS = re.compile(
    r'["`]?status["`]?\s*(=|IN)\s*\(?\s*(%s(?:\s*,\s*%s)*)', re.IGNORECASE
)


class UnguardedWrite(AssertionError):
    """A statement that writes around the lease."""


def problem(sql, params):
    """Return what is wrong with a statement, None for one that harms no other worker."""
    if _STEP_WRITES.match(sql) and not _guards_steps(sql):
        return f"{sql} {params!r}"
    if not _WRITES.match(sql):
        return None
    found = _CONDITION.search(sql)
    condition = found[1] if found else ""
    if "processing_token" in condition or _spares_running(sql, condition, params or ()):
        return None
    return f"{sql} {params!r}"


def _guards_steps(sql):
    """Whether it names the token, or removes what no job is left of."""
    found = _CONDITION.search(sql)
    condition = found[1] if found else ""
    if "processing_token" in condition:
        return True
    is_delete = sql.lstrip().upper().startswith("DELETE")
    return is_delete and "NOT (EXISTS(" in condition.replace(
        "NOT EXISTS(", "NOT (EXISTS("
    )


def _spares_running(sql, condition, params):
    """Whether the condition leaves every running job alone."""
    # SQLite's way to take the write lock: no row has this id.
    if re.fullmatch(
        r'\s*["`]?leasequeue_job["`]?\.["`]?id["`]?\s*=\s*%s\s*', condition
    ):
        return tuple(params)[-1:] == (0,)
    found = _STATUS.search(condition)
    if not found:
        return False
    before = sql[: len(sql) - len(condition) + found.start(2)].count("%s")
    states = tuple(params)[before : before + found[2].count("%s")]
    return "running" not in [str(state) for state in states]


def guard(execute, sql, params, many, context):
    """The execute wrapper: raises UnguardedWrite."""
    wrong = problem(str(sql), params)
    if wrong:
        raise UnguardedWrite(f"{ALARM} {wrong}")
    return execute(sql, params, many, context)


@contextlib.contextmanager
def guarded(using="default"):
    """Guard this thread's connection for the length of the block."""
    with connections[using].execute_wrapper(guard):
        yield


def install():
    """Guard every connection of this process from now on, if it was asked for."""
    if VARIABLE in os.environ:
        connection_created.connect(_watch, weak=False)


def _watch(connection, **_):
    if _end_the_process not in connection.execute_wrappers:
        connection.execute_wrappers.append(_end_the_process)


def _end_the_process(execute, sql, params, many, context):
    wrong = problem(str(sql), params)
    if wrong:
        # Raised, it would be taken for an error of the database and tried again.
        traceback.print_stack(file=sys.stderr)
        print(f"{ALARM} {wrong}", file=sys.stderr, flush=True)
        os._exit(99)
    return execute(sql, params, many, context)
