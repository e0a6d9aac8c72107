"""What the admin's pages cost: `python -m benchmarks.admin --rows 1000000 --db postgres`.

Fills the job table of a private server, opens each page some times, and counts its statements
and the rows and index entries that they look at; first with a thousand jobs, then with
`--rows`. Exits with 1 if a page of the large table has many statements, or more than of a small
one, or looks at more than its bound. Prints a table in Markdown.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import django

from benchmarks import database
from benchmarks.options import parser_of
from django_leasequeue import clock
from tests import servers

SMALL = 1_000
# Rows and index entries that a page may look at, whatever there is: it reads 40,000 entries of
# indexes; and where these don't lead to all of its jobs it looks at 50,000, twice.
MOST_TOUCHED = 200_000
MOST_STATEMENTS = 24
# Statements that it may send besides: where to go on if the list is cut, and looks next to
# its begin if an index has more than is read of it.
MORE = 4


class Cost(NamedTuple):
    """Of one page: statements, rows and entries looked at by all, and the median time."""

    statements: list[str]
    touched: int
    scans: bool
    milliseconds: float


def main(arguments: list[str] | None = None) -> int:
    """Run it; returns the exit code."""
    parser = parser_of("admin", __doc__)
    parser.add_argument("--db", choices=database.KINDS, default="sqlite")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default="", help="pages with this in their name")
    options = parser.parse_args(arguments)
    servers.stop_on_signals()
    with database.served(options.db) as (entry, _):
        settings = {"DJANGO_SETTINGS_MODULE": "benchmarks.admin.settings"}
        os.environ.update(database.environment(entry, **settings))
        django.setup()
        return _run(options)


def _run(options) -> int:
    from django.core.management import call_command

    from benchmarks.admin import table
    from django_leasequeue.models import Job

    call_command("migrate", verbosity=0)
    costs: dict[str, list[Cost]] = {}
    for rows in (SMALL, options.rows):
        Job.objects.all().delete()
        began = clock.now()
        table.build(rows)
        print(f"{rows} rows in {clock.now() - began:.0f} s", file=sys.stderr)
        for name, cost in _costs(options):
            costs.setdefault(name, []).append(cost)
            print(f"{name}: {cost[1:]}, {len(cost[0])}", file=sys.stderr)
    return _told(options, costs)


def _costs(options):
    from django.contrib.auth import get_user_model
    from django.test import Client

    from benchmarks.admin.pages import pages

    client = Client()
    user = get_user_model()
    client.force_login(
        user.objects.filter(username="ann").first()
        or user.objects.create_superuser("ann", password=None)
    )
    for name, url in pages().items():
        if options.only in name:
            yield name, _cost(lambda url=url: _open(client, url), options.turns)


def _open(client, url: str) -> None:
    response = client.get(url)
    if response.status_code != 200:
        raise RuntimeError(f"{url} answered {response.status_code}.")


def _cost(look: Callable[[], Any], turns: int) -> Cost:
    from tests.plans import watched

    look()
    times = []
    for _ in range(turns):
        began = time.perf_counter()
        look()
        times.append((time.perf_counter() - began) * 1000)
    with watched("default") as seen:
        look()
    return Cost(
        [statement.sql for statement in seen],
        sum(statement.touched for statement in seen),
        any(statement.scans for statement in seen),
        statistics.median(times),
    )


def _told(options, costs: dict[str, list[Cost]]) -> int:
    wrong = []
    print(
        f"| page | statements | looked at | ms, {SMALL:,} jobs | ms, {options.rows:,} | ratio |"
    )
    print("|---|---|---|---|---|---|")
    for name, (small, large) in costs.items():
        ratio = large.milliseconds / small.milliseconds
        print(
            f"| {name} | {len(large.statements)} | {large.touched:,} | "
            f"{small.milliseconds:.0f} | {large.milliseconds:.0f} | {ratio:.1f} |"
        )
        if len(large.statements) > len(small.statements) + MORE:
            wrong.append(
                f"{name}: {len(large.statements)} statements, {len(small.statements)} of a "
                "small table"
            )
        if len(large.statements) > MOST_STATEMENTS:
            wrong.append(f"{name}: {len(large.statements)} statements")
        if large.touched > MOST_TOUCHED:
            wrong.append(f"{name}: {large.touched} rows and entries")
        if large.scans and options.db == "postgres" and options.rows > 10 * SMALL:
            wrong.append(f"{name}: a scan of the table")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
