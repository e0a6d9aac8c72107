"""The matrix's sum is in pytest's own words, and adds up."""

import sys
from pathlib import Path

import pytest

from tests import helpers, runs


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("=== 3 failed, 12 passed in 4.56s ===", {"failed": 3, "passed": 12}),
        ("=== 1 passed, 1 error in 0.10s (0:00:00) ===", {"passed": 1, "errors": 1}),
        (
            "== 2 passed, 1 xfailed, 1 warning in 1.0s ==",
            {"passed": 2, "xfailed": 1, "warnings": 1},
        ),
        ("=== no tests ran in 0.01s ===", {}),
        ("it fell over", {}),
    ],
)
def test_counts_are_read_from_the_last_line(line, counts):
    assert runs.counted(f"dots\n{line}\n") == counts


def test_an_earlier_sum_in_the_log_does_not_count():
    log = "=== 99 passed in 1.00s ===\nthat was a test's own output\n== 1 passed in 1.00s =="
    assert runs.counted(log) == {"passed": 1}


def test_counts_are_said_in_pytests_order():
    counts = {"errors": 1, "skipped": 2, "passed": 3, "failed": 0}
    assert runs.in_words(counts) == "3 passed, 2 skipped, 1 error"
    assert runs.in_words({}) == ""


def test_run_that_cannot_count_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    run = runs.Run("3.13 6.1 sqlite", [sys.executable, "-c", "raise SystemExit(3)"])
    runs.Runner(1, lambda run: None).run([run])
    assert not run.passed
    assert run.result == "1 error"


@pytest.mark.parametrize(("code", "word"), [(0, "passed"), (1, "failed")])
def test_another_command_counts_as_one(tmp_path, monkeypatch, code, word):
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    command = [sys.executable, "-c", f"raise SystemExit({code})"]
    run = runs.Run("chaos sqlite", command, is_pytest=False)
    runs.Runner(1, lambda run: None).run([run])
    assert (run.result, run.counts) == (word, {word: 1})


def test_run_is_marked_and_leaves_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    leave = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid)"
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    run = runs.Run("left over", [sys.executable, "-c", leave, *sleep])
    runs.Runner(1, lambda run: None).run([run])
    left = int(run.log.read_text())
    # A kill takes effect in its own time.
    helpers.eventually(lambda: has_ended(left))


def has_ended(pid):
    """Whether a process is gone, or only its entry waits for init."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"
