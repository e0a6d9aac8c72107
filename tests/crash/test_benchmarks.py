"""The benchmarks run, on a server of their own: a figure for each measure, no job twice."""

import json
import re
import subprocess
import sys

import pytest
from django.conf import settings

from benchmarks.peers.system import load
from tests.processes import ROOT

# So many processes are started one after the other.
pytestmark = pytest.mark.timeout(600)


def run(benchmark, *options):
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{benchmark}", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_speed_benchmark(tmp_path):
    figures = tmp_path / "figures.json"
    # Enough that a second process gets some.
    options = ["--n", "20", "--backlog", "3000", "--turns", "1", "--json", figures]
    # Most backlogs differ only in a column's value.
    options += ["--only", "insert|dispatch|drain|pick-up|50 queues|paused|prune"]
    done = run("speed", "--db", settings.DATABASE, *options)
    results = json.loads(figures.read_text())["results"]
    assert len(results) == done.stderr.count("1/1 ")
    for name, (figure,) in results.items():
        unit = {"pick-up": "ms", "prune": "rows/s"}.get(name.split()[0], "jobs/s")
        assert figure[unit] > 0
        assert f"| {name} |" in done.stdout


def test_a_long_drain():
    done = run("long_drain", "--db", settings.DATABASE, "--n", "300")
    assert re.search(r"\n\| 300 \| [\d,]+ \| \d+ \|", done.stdout), done.stdout


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
