"""README's second command, `python3 -m tests`: every test on every database.

    python3 -m tests                                  # everything
    python3 -m tests --db sqlite --python 3.13        # less of it
    python3 -m tests --db mysql -- tests/database/test_claim.py -k order

Needs nothing but Python: makes its virtual environments under .venv/, starts private
servers, and gets what is missing from Debian's apt-get if it may. What follows `--` goes to
pytest. Says at the end what ran and what did not, and why.
"""

import argparse
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from example_project import bootstrap
from example_project.bootstrap import CannotInstall
from tests import machine, matrix, runs, servers
from tests.matrix import DATABASES, PAIRS
from tests.server_programs import NAMES, ServerMissing

MYSQL_FAMILY = {"mariadb", "mysql"}
# On a server of its own, which it kills.
CHAOS = ["-m", "benchmarks.chaos", "--seconds", "60"]
# The documentation's site; a link that leads nowhere is a warning, and so an error.
SITE = ["sphinx", "-q", "-W", "--keep-going", "docs", str(runs.RESULTS / "site")]
# On a cluster of its own, whose servers take most of the time.
CLUSTER = ["-m", "benchmarks.galera", "--seconds", "10", "--no-kills"]


class Session:
    """One call of the command: what it may use, what it runs, what it leaves out."""

    def __init__(self, options):
        self.options = options
        self.left_out = []  # sentences
        self.failures = []  # sentences: what was required and is missing
        self.runs = []
        self.python_of = {}  # series -> Interpreter
        self.program_of = {}  # series -> the Python of its virtual environment
        self.has_galera = False

    def main(self):
        """Do it all; return the exit code."""
        started = time.monotonic()
        shutil.rmtree(runs.RESULTS, ignore_errors=True)
        runs.RESULTS.mkdir(parents=True)
        self.find_pythons()
        programs = self.find_servers()
        self.make_environments()
        with servers.running(programs) as running:
            self.plan(servers.environment(running))
            runner = runs.Runner(self.options.jobs, self.show)
            runner.run(self.runs)
        self.report_coverage()
        return self.report(programs, time.monotonic() - started)

    def find_pythons(self):
        for series in self.options.python:
            found = machine.interpreter(series)
            if found:
                self.python_of[series] = found
            else:
                self.left_out.append(f"Python {series}: not installed")
        if not self.python_of:
            # Better a pair that nobody promises than no test at all.
            this = machine.this_interpreter()
            self.python_of[this.series] = this

    def find_servers(self):
        programs = []
        for kind in self.options.db:
            if kind == "sqlite":
                continue
            try:
                install = not self.options.no_install
                programs.append(machine.server_program(kind, install=install))
            except ServerMissing as missing:
                self.miss(kind, str(missing))
        if "mariadb" in self.options.db and self.options.checks:
            try:
                machine.galera(install=not self.options.no_install)
                self.has_galera = True
            except ServerMissing as missing:
                # No failure, even if all are required: not every MariaDB comes with it.
                self.left_out.append(f"MariaDB in a cluster: {missing}")
        if "postgres" in self.options.db:
            try:
                machine.pooler(install=not self.options.no_install)
            except ServerMissing as missing:
                self.say_missing(f"PostgreSQL behind a pooler: {missing}")
        if "sqlite" in self.options.db:
            try:
                machine.browser(install=not self.options.no_install)
            except ServerMissing as missing:
                self.say_missing(f"The admin in a browser: {missing}")
        return programs

    def miss(self, database, why):
        """Leave a database out, which is a failure if all are required."""
        self.options.db.remove(database)
        self.say_missing(f"{NAMES[database]}: {why}")

    def say_missing(self, sentence):
        """Note what is left out, which is a failure if everything is required."""
        (self.failures if self.options.require_all else self.left_out).append(sentence)

    def make_environments(self):
        extras = {"dev"}
        if MYSQL_FAMILY.intersection(self.options.db):
            try:
                for python in self.python_of.values():
                    machine.prepare_mysqlclient(python)
                extras.add("mysql")
            except CannotInstall as error:
                for database in sorted(MYSQL_FAMILY.intersection(self.options.db)):
                    self.miss(database, str(error))
        newest = max(self.python_of, key=numbers)

        def make(series):
            checked = self.options.checks and series == newest
            site = {"deployment", "docs", "types"} if checked else set()
            package = f"{bootstrap.ROOT}[{','.join(sorted(extras | site))}]"
            return bootstrap.virtual_environment(
                f"tests-{series}",
                "--no-compile",  # most of it is never imported
                "--editable",
                package,
                f"Django~={django_for(series)}.0",
                python=self.python_of[series].path,
            )

        with ThreadPoolExecutor(self.options.jobs) as pool:
            made = pool.map(make, self.python_of)
            self.program_of = dict(zip(self.python_of, made, strict=True))

    def plan(self, environment):
        newest = max(self.program_of, key=numbers)
        oldest = min(self.program_of, key=numbers)
        self.newest = self.program_of[newest]
        if self.options.checks:
            self.runs += [
                runs.Run(name, [self.newest, "-m", *words], is_pytest=False)
                for name, words in {
                    "lint": ["ruff", "check", "."],
                    "format": ["ruff", "format", "--check", "."],
                    "types": ["mypy"],
                    "pyright": ["pyright", "--pythonpath", str(self.newest)],
                    "docs": SITE,
                }.items()
            ]
        planned = []
        if self.has_galera:
            run = runs.Run("cluster", [self.newest, *CLUSTER], is_pytest=False)
            planned.append((False, matrix.PARTS.index("others"), run))
        for series in sorted(self.program_of, key=numbers, reverse=True):
            for database in self.options.db:
                parts = matrix.parts(database, series == newest, series == oldest)
                if self.options.chosen:
                    parts = {"chosen": []}
                if self.options.checks and series == newest:
                    words = [self.newest, *CHAOS, "--db", database]
                    run = runs.Run(f"chaos {database}", words, is_pytest=False)
                    planned.append((False, matrix.PARTS.index("others"), run))
                for part, tests in parts.items():
                    run = self.planned(series, series == newest, database, part, tests)
                    run.environment.update(environment)
                    planned.append((series != newest, matrix.PARTS.index(part), run))
        self.runs += [run for _, _, run in sorted(planned, key=lambda item: item[:2])]

    def planned(self, series, is_newest, database, part, tests):
        """Return the run of a part of the tests."""
        name = f"{series} {django_for(series)} {database} {part}"
        variables = {
            **matrix.FOR_SPEED,
            "LEASEQUEUE_TEST_DB": database,
            # The whole number once for each database.
            "LEASEQUEUE_TEST_JOBS": "10000" if is_newest else "1000",
            "COVERAGE_FILE": str(runs.RESULTS / f".coverage.{series}"),
        }
        measure = is_newest and matrix.is_measured(database, part)
        words = [self.program_of[series], "-X", "dev", "-m"]
        if measure and not self.options.no_coverage:
            words += ["coverage", "run", "-m"]
        cache = runs.RESULTS / f"cache-{name.replace(' ', '-')}"
        words += ["pytest", "-o", f"cache_dir={cache}", "--durations=20"]
        words += [*self.options.pytest, *tests]
        return runs.Run(name, words, variables)

    def show(self, run):
        print(f"{run.name}: {run.result} in {run.seconds:.0f} s", flush=True)
        if not run.passed or len(self.runs) == 1:
            print(run.log.read_text(errors="replace"), flush=True)

    def report_coverage(self):
        data = sorted(runs.RESULTS.glob(".coverage.*"))
        if self.options.no_coverage or not data:
            return
        threshold = f"--fail-under={self.options.coverage_min}"
        environment = {"COVERAGE_FILE": str(runs.RESULTS / ".coverage")}
        coverage = [self.newest, "-m", "coverage"]
        combine = runs.Run(
            "combine", [*coverage, "combine"], environment, is_pytest=False
        )
        total = runs.Run(
            "coverage", [*coverage, "report", threshold], environment, is_pytest=False
        )
        runs.Runner(1, lambda run: None).run([combine, total])
        print(f"\n{total.log.read_text()}")
        self.runs += [run for run in (combine, total) if run is total or not run.passed]

    def report(self, programs, seconds):
        versions = {program.kind: program.version for program in programs}
        versions["sqlite"] = sqlite_version(self.newest)
        print("\nPython   Django  Database            Tests          Result")
        for run in self.runs:
            if not run.is_pytest:
                print(f"{run.name:<52}{run.result} in {run.seconds:.0f} s")
                continue
            series, django, kind, part = run.name.split()
            python = str(self.python_of[series])
            database = f"{NAMES.get(kind, 'SQLite')} {versions[kind]}"
            result = f"{run.result} in {run.seconds:.0f} s"
            print(f"{python:<9}{django:<8}{database:<20}{part:<15}{result}")
        for sentence in self.left_out:
            print(f"Left out: {sentence}")
        for sentence in self.failures:
            print(f"Missing: {sentence}")
        total = {
            word: sum(run.counts.get(word, 0) for run in self.runs)
            for word in runs.WORDS
        }
        total["errors"] += len(self.failures)
        words = f"{runs.in_words(total) or 'no tests ran'} in {seconds:.2f}s"
        print(f" {words} ".center(80, "="), flush=True)
        return 0 if all(run.passed for run in self.runs) and not self.failures else 1


def django_for(series):
    return PAIRS.get(series, list(PAIRS.values())[-1])


def numbers(series):
    return tuple(map(int, series.split(".")))


def sqlite_version(python):
    script = "import sqlite3; print(sqlite3.sqlite_version)"
    return bootstrap.output([python, "-c", script])


def names(text):
    return [name for name in text.split(",") if name]


def parse(arguments):
    """Return the options. What follows `--` is for pytest."""
    rest = []
    if "--" in arguments:
        split = arguments.index("--")
        arguments, rest = arguments[:split], arguments[split + 1 :]
    parser = argparse.ArgumentParser(
        prog="python3 -m tests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--db", type=names, default=DATABASES, help=f"of {','.join(DATABASES)}")
    add("--python", type=names, default=list(PAIRS), help=f"of {','.join(PAIRS)}")
    add("--jobs", type=int, default=2, help="runs at a time (2)")
    add("--checks", action="store_true", help="lint, format, types and docs too")
    add("--require-all", action="store_true", help="what is missing is a failure")
    add("--no-install", action="store_true", help="never call apt-get for a server")
    add("--no-coverage", action="store_true", help="measure no coverage")
    add("--coverage-min", type=float, default=0, help="fail under this percentage")
    options = parser.parse_args(arguments)
    wrong = set(options.db) - set(DATABASES)
    if wrong:
        parser.error(
            f"no such database: {', '.join(sorted(wrong))}; there are "
            f"{', '.join(DATABASES)}"
        )
    options.db = list(options.db)
    options.pytest = rest
    options.chosen = any(os.path.exists(word.partition("::")[0]) for word in rest)
    # What a part of the tests covers says nothing of the whole.
    options.no_coverage |= options.chosen or bool({"-k", "-m"}.intersection(rest))
    return options


def main(arguments):
    bootstrap.check_python()
    options = parse(arguments)
    servers.stop_on_signals()
    try:
        return Session(options).main()
    except CannotInstall as error:
        sys.exit(str(error))
    except servers.ServerFailed as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Stopped.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
