"""`python -m benchmarks.peers`: this queue beside others, on one PostgreSQL server.

requirements.txt beside this file says what to install, into an environment of its own. Systems
that are not installed are left out, and told. Measures take turns over the systems, so that
what else the machine does meets all of them alike; compare only within one run. Every job ran
once, or the run fails.
"""

import argparse
import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.database import database
from benchmarks.options import parser_of
from benchmarks.peers.system import NAMES, load
from tests.server_programs import ServerMissing
from tests.servers import ServerFailed, stop_on_signals

MEASURES = ("one", "many", "drain 1", "drain 2", "pick-up")


def main(arguments: list[str]) -> int:
    """Measure, print the table."""
    options = parse(arguments)
    stop_on_signals()
    names = []
    for name in options.systems:
        if missing := load(name).missing():
            words = f"{name} is left out: pip install {' '.join(missing)}"
            print(words, file=sys.stderr)
        else:
            names.append(name)
    try:
        with database("postgres") as entry:
            rows = measure(entry, names, options)
    except (ServerMissing, ServerFailed) as error:
        sys.exit(str(error))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


def measure(entry, names: list[str], options) -> list[dict[str, Any]]:
    """Run all measures in turns, print the table, and return each single figure."""
    from benchmarks.peers.measures import MANY_SCALE, PICKED_UP, Bench
    from benchmarks.peers.report import table
    from benchmarks.peers.server import Server

    server = Server(entry)
    benches = [Bench(name, load(name), server) for name in names]
    rows = []

    def record(bench, measure, config, figures) -> None:
        row = {"system": bench.name, "measure": measure, "config": config}
        rows.append({**row, "load": os.getloadavg()[0], "figures": figures})
        words = ", ".join(f"{value:,.2f} {unit}" for unit, value in figures.items())
        told = f"{bench.name} {measure} {config}: {words}"
        print(told, file=sys.stderr, flush=True)

    for _ in range(options.turns):
        for wanted in MEASURES:
            for bench in benches:
                if not re.search(options.only, wanted):
                    continue
                if wanted in ("one", "many"):
                    count = options.n * (MANY_SCALE if wanted == "many" else 1)
                    record(bench, wanted, "", bench.put(wanted, count))
                elif wanted == "pick-up":
                    record(
                        bench,
                        wanted,
                        bench.system.pick_up,
                        bench.pick_up(min(options.n, PICKED_UP)),
                    )
                else:
                    count = options.n * bench.system.scale
                    for config in bench.system.configs:
                        done = bench.drain(config, int(wanted[-1]), count)
                        record(bench, wanted, config, done)
    title = f"PostgreSQL {server.version()}, Python {platform.python_version()}"
    print(f"{title}, n={options.n}, {options.turns} turns\n\n{table(rows)}")
    return rows


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = parser_of("peers", __doc__)
    add = parser.add_argument
    add(
        "--systems",
        type=lambda text: text.split(","),
        default=NAMES,
        help=f"of {','.join(NAMES)}; the first is the floor",
    )
    add("--n", type=int, default=2000, help="jobs of a measure; some take a multiple")
    add("--turns", type=int, default=1, help="how often each measure is taken (1)")
    add("--only", default="", help="measures whose name matches this")
    add("--json", type=Path, help="a file for all single figures")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
