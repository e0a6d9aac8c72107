"""One run of the tests: a Python, a Django and a database; and several side by side."""

import os
import re
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from example_project import bootstrap

# The longest takes half an hour; one that hangs is ended sooner by pytest's own limit.
RUN_SECONDS = 90 * 60
STOP_SECONDS = 60
RESULTS = bootstrap.FOLDER / "results"
# pytest's own last line: "=== 3 failed, 12 passed, 1 skipped in 4.56s ==="
SUMMARY = re.compile(
    r"^=* ?(no tests ran|\d+ \w+(, \d+ \w+)*) in [\d.]+s.*$", re.MULTILINE
)
WORDS = ["failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings"]
WORDS += ["errors"]
NO_TESTS = 5  # pytest's exit code


@dataclass
class Run:
    """One command with its log, and how it ended."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    is_pytest: bool = True
    seconds: float = 0.0
    exit_code: int | None = None
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def log(self):
        return RESULTS / f"{self.name.replace(' ', '-')}.log"

    @property
    def passed(self):
        return self.exit_code == 0 or (self.is_pytest and self.exit_code == NO_TESTS)

    @property
    def result(self):
        """What the table says of it."""
        if self.exit_code is None:
            return "not run"
        if not self.is_pytest:
            return "passed" if self.passed else "failed"
        return in_words(self.counts) or "no tests"

    def finish(self, exit_code):
        """Take the exit code, and the counts from the log."""
        self.exit_code = exit_code
        if self.is_pytest:
            self.counts = counted(self.log.read_text(errors="replace"))
        else:
            self.counts = {self.result: 1}
        if not self.passed and not self.counts.keys() & {"failed", "errors"}:
            self.counts["errors"] = 1  # it fell over before it could count


class Runner:
    """Runs several commands at a time, and ends them all if it is told to stop."""

    def __init__(self, jobs, show):
        self.jobs = jobs
        self.show = show
        self._processes = {}
        self._stopping = False
        self._lock = threading.Lock()

    def run(self, runs):
        """Run them in order, `jobs` at a time, and return when all have ended."""
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                list(pool.map(self._run, runs))
            except BaseException:  # Ctrl-C too: the pool waits for its threads
                self.stop()
                raise

    def stop(self):
        """End what runs and start no more."""
        with self._lock:
            self._stopping = True
            processes = list(self._processes.values())
        for process in processes:
            process.send_signal(signal.SIGINT)  # pytest then tears its fixtures down
        for process in processes:
            _end(process)

    def _run(self, run):
        started = time.monotonic()
        mark = re.sub(r"\W", "_", f"{os.getpid()}x{run.name}")
        environment = {**os.environ, **run.environment}
        if run.is_pytest:
            environment["LEASEQUEUE_TEST_RUN"] = mark
        with run.log.open("wb") as log:
            with self._lock:
                if self._stopping:
                    return
                process = self._processes[run.name] = subprocess.Popen(
                    run.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=bootstrap.ROOT,
                    env=environment,
                    # A terminal's Ctrl-C is passed on once, by stop(): a second one would
                    # break off the end of pytest's fixtures.
                    start_new_session=True,
                )
            try:
                process.wait(RUN_SECONDS)
            except subprocess.TimeoutExpired:
                log.write(f"\nStopped after {RUN_SECONDS} s.\n".encode())
                process.send_signal(signal.SIGINT)
                _end(process)
        _end_leftovers(mark)
        with self._lock:
            del self._processes[run.name]
        run.seconds = time.monotonic() - started
        run.finish(process.returncode)
        self.show(run)


def counted(output):
    """Return the counts of pytest's last line in `output`, by their words."""
    lines = list(SUMMARY.finditer(output))
    if not lines:
        return {}
    pairs = re.findall(r"(\d+) (\w+)", lines[-1].group(1))
    plural = {"error": "errors", "warning": "warnings"}
    return {plural.get(word, word): int(number) for number, word in pairs}


def in_words(counts):
    """Say counts as pytest does: "12 passed, 1 skipped"."""
    named = [(counts.get(word, 0), word) for word in WORDS]
    singular = {(1, "errors"): "1 error", (1, "warnings"): "1 warning"}
    return ", ".join(
        singular.get(item, "{} {}".format(*item)) for item in named if item[0]
    )


def _end(process):
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_leftovers(mark):
    """End the processes that a run has left: those that carry its mark, each by its id.

    A pytest that had to be killed could not stop the workers that it had started.
    """
    wanted = f"LEASEQUEUE_TEST_RUN={mark}".encode()
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in file.read_bytes().split(b"\0"):
                os.kill(int(file.parent.name), signal.SIGKILL)
        except OSError:
            continue  # ended already, or another user's
