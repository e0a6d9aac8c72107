"""The benchmarks run, on a server of their own: a figure for each measure, no job twice."""

import json
import subprocess
import sys

from django.conf import settings

from tests.processes import ROOT


def test_the_speed_benchmark(tmp_path):
    figures = tmp_path / "figures.json"
    # Enough that a second process gets some.
    options = ["--db", settings.DATABASE, "--n", "20", "--turns", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed", *options, "--json", figures],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(figures.read_text())["results"]
    assert len(results) == done.stderr.count("1/1 ")
    for name, (figure,) in results.items():
        assert figure["ms" if name.startswith("pick-up") else "jobs/s"] > 0
        assert f"| {name} |" in done.stdout
