"""The benchmarks run, on a server of their own: a figure for each measure, no job twice."""

import json
import re
import subprocess
import sys

import pytest
from django.conf import settings

from benchmarks.peers.system import load
from tests.processes import ROOT


def run(benchmark, *options):
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{benchmark}", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_speed_benchmark(tmp_path):
    figures = tmp_path / "figures.json"
    # Enough that a second process gets some.
    options = ["--n", "20", "--backlog", "3000", "--turns", "1", "--json", figures]
    # Most backlogs differ only in a column's value, most measures not by the database.
    only = "bare driver|dispatch many|drain, 2|prune"
    if settings.DATABASE == "postgres":
        only = "insert|dispatch one|drain|pick-up|paused"
    elif settings.DATABASE != "sqlite":
        only = "dispatch many|drain, 2"
    options += ["--only", only]
    done = run("speed", "--db", settings.DATABASE, *options)
    results = json.loads(figures.read_text())["results"]
    assert len(results) == done.stderr.count("1/1 ")
    for name, (figure,) in results.items():
        unit = {"pick-up": "ms", "prune": "rows/s"}.get(name.split()[0], "jobs/s")
        assert figure[unit] > 0
        assert f"| {name} |" in done.stdout


def test_limits_under_kills():
    """No key ever runs more than its limit, whoever is killed, and no slot stays behind."""
    done = run("limits", "--db", settings.DATABASE, "--seconds", "5")
    assert "Wrong: 0." in done.stdout, done.stdout


@pytest.mark.skipif(
    settings.DATABASE in ("mariadb", "mysql"),
    reason="SQLite and PostgreSQL tell whether it runs",
)
def test_a_long_drain():
    done = run("long_drain", "--db", settings.DATABASE, "--n", "300")
    assert re.search(r"\n\| 300 \| [\d,]+ \| \d+ \|", done.stdout), done.stdout


@pytest.mark.skipif(
    settings.DATABASE in ("sqlite", "mysql"),
    reason="a file counts no statements, MySQL does as MariaDB",
)
def test_the_idle_worker():
    # Long enough that a worker which a busy machine holds up has sent something.
    options = ["--db", settings.DATABASE, "--seconds", "5", "--settling", "0"]
    done = run("idle", *options)
    [row] = re.findall(rf"\| {settings.DATABASE} \| (.*) \|", done.stdout)
    statements, *shares = row.split(" | ")
    assert float(statements) > 0
    assert len(shares) == 3


@pytest.mark.skipif(
    settings.DATABASE != "postgres", reason="they are all on PostgreSQL"
)
def test_the_peers():
    """Those that are not installed are left out, and told how to get."""
    figured = run(
        "peers",
        "--systems",
        "raw_orm,leasequeue,pgqueuer",
        "--n",
        "20",
        "--only",
        "one|drain 1",
    )
    assert "\n| leasequeue | " in figured.stdout
    if load("pgqueuer").missing():
        assert "pgqueuer is left out: pip install pgqueuer" in figured.stderr


@pytest.mark.skipif(
    settings.DATABASE != "sqlite", reason="tests/admin look at each database's plans"
)
def test_the_admin():
    """Its pages are opened with few and more jobs, and one table tells both."""
    options = ["--rows", "2000", "--turns", "1", "--only", "failed of a group"]
    done = run("admin", "--db", "sqlite", *options)
    assert re.search(
        r"\n\| list: failed of a group \| \d+ \| [\d,]+ \|", done.stdout
    ), done.stdout
