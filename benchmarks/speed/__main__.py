"""`python -m benchmarks.speed --db postgres --n 2000`: see the package's own words.

Measures take turns, so that what else the machine does meets all of them alike; compare only
within one run. The table goes to standard output, or as JSON to a file.
"""

import argparse
import os
import re
import sys
from collections import defaultdict
from pathlib import Path

from benchmarks.database import KINDS, database, environment
from benchmarks.options import parser_of
from tests.server_programs import NAMES, ServerMissing
from tests.servers import ServerFailed, stop_on_signals


def main(arguments: list[str]) -> int:
    """Measure, print the table, and return the exit code."""
    options = parse(arguments)
    stop_on_signals()
    try:
        with database(options.db) as entry:
            os.environ |= environment(entry)
            measure(entry, options)
    except (ServerMissing, ServerFailed) as error:
        sys.exit(str(error))
    return 0


def measure(entry, options) -> None:
    """Run the wanted measures on the database, in turn."""
    import django

    django.setup()
    from benchmarks.speed.measures import Bench
    from benchmarks.speed.report import as_json, table
    from benchmarks.speed.state import server_version

    wanted = {
        name: run
        for name, run in Bench(entry, options.n, options.backlog).measures().items()
        if re.search(options.only, name)
    }
    results = defaultdict(list)
    for turn in range(options.turns):
        for name, run in wanted.items():
            done = run()
            results[name].append(done)
            words = f"{turn + 1}/{options.turns} {name}: {done.value:,.1f} {done.unit}"
            print(words, file=sys.stderr, flush=True)
    title = f"{NAMES.get(options.db, 'SQLite')} {server_version()}"
    print(f"{title}, {options.n} jobs, {options.turns} turns\n\n{table(results)}")
    if options.json:
        options.json.write_text(as_json(title, results))


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = parser_of("speed", __doc__)
    add = parser.add_argument
    add("--db", choices=KINDS, default="postgres", help="postgres")
    add(
        "--n",
        type=int,
        default=2000,
        help="jobs of a measure; some take a multiple (2000)",
    )
    add("--backlog", type=int, default=100_000, help="rows of a backlog (100000)")
    add("--turns", type=int, default=3, help="how often each measure is taken (3)")
    add("--only", default="", help="measures whose name matches this")
    add("--json", type=Path, help="a file for all single figures")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
