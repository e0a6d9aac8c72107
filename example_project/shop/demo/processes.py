"""Workers as processes of their own, and waiting for what they do."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

from django.conf import settings
from django.core.management import CommandError

# Seconds. A slow machine must not fail the demo, a hung one must not hold it for ever.
PATIENCE = 120


def wait_for(look, what):
    """Call `look` until it returns something true, and return that.

    Raise CommandError if nothing comes of it in time.
    """
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > deadline:
            raise CommandError(f"Waited {PATIENCE} s for {what}.")
        time.sleep(0.02)
    return found


@contextmanager
def worker(*options, log):
    """Run `manage.py runjobs OPTIONS` beside the block; it is gone at the end, always.

    `log`: the path of the file that gets its log.
    """
    command = ["runjobs", *options]
    process = subprocess.Popen(
        [sys.executable, settings.BASE_DIR / "manage.py", *command],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "SHOP_LOG": str(log)},
        # Ctrl-C reaches the demo alone, which then ends the worker in good order.
        start_new_session=True,
    )
    try:
        yield Worker(" ".join(command), process, log)
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
        # Its children are in its group, which nothing else is in.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Worker:
    """A worker that runs; each method raises CommandError if it does not as it should."""

    def __init__(self, command, process, log):
        self.command, self._process, self._log = command, process, log

    def wait_for(self, look, what):
        """Wait as wait_for() does, but not for a worker that has ended."""

        def running():
            if self._process.poll() is not None:
                raise self._error(f"ended before {what}")
            return look()

        return wait_for(running, f"its worker, until {what}")

    def stop(self):
        """Ask it to end, as a deploy would, and wait until it has."""
        self._process.terminate()
        self.finish()

    def finish(self):
        """Wait for its end, with exit code 0."""
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise self._error(f"did not end within {PATIENCE} s") from None
        if code != 0:
            raise self._error(f"ended with exit code {code}")

    def _error(self, what):
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        text = "\n".join(lines[-10:])
        return CommandError(f"manage.py {self.command} {what}.\n{text}".rstrip())


@contextmanager
def ended_by_signals():
    """Make Ctrl-C, SIGTERM and a closing terminal end the block so that it cleans up."""

    def end(number, frame):
        sys.exit(128 + number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
