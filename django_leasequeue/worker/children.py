"""A child of a supervisor, as the supervisor sees it: its process, its pipes and its board."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from uuid import UUID

from django_leasequeue import clock
from django_leasequeue.worker import process_state
from django_leasequeue.worker.board import Board
from django_leasequeue.worker.child_bootstrap import ChildBootstrap, command
from django_leasequeue.worker.log import counted, logger
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.overdue import Overdue
from django_leasequeue.worker.pipes import Message, Receiver, Sender
from django_leasequeue.worker.timed import TimedRun

# Held back while a child starts, until it has said how it takes them. See child.
_HELD_BACK = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


class ChildProcess:
    """One running child. `ended(self)` is called, in another thread, once it is reaped.

    All but `tell()` is for the supervisor's own thread.
    """

    def __init__(
        self,
        number: int,
        options: WorkerOptions,
        ended: Callable[["ChildProcess"], None],
    ) -> None:
        self.number = number
        self.started_at = clock.now()
        # Its own name in the jobs' rows, once it has told it.
        self.name: str | None = None
        # The names of the tasks that it knows, as far as it has told them.
        self.tasks: list[str] = []
        # What the supervisor knows of it, by its reports and by what it was told.
        self.is_idle = self.was_told = self.is_leaving = False
        self._was_stopped = False
        # Whether it has run a job to its end; whether it claims no more; and whether another
        # has its place already.
        self.has_finished = self.is_retiring = self.was_replaced = False
        # When to kill it, by `clock.now()`; and whether that was done.
        self.kill_at: float | None = None
        self.was_killed = False
        # Its runs with a time limit, and those of them that it was killed for.
        self.timed: dict[tuple[UUID, int], TimedRun] = {}
        self.overdue: list[Overdue] = []
        self._process = self._spawn(number, options)
        watcher = threading.Thread(
            target=self._wait, args=(ended,), name=f"leasequeue-{self.pid}", daemon=True
        )
        try:
            watcher.start()
        except RuntimeError:  # no more threads; nobody would notice its death
            self._process.kill()
            self._process.wait()
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def descriptor(self) -> int:
        """Where its reports can be read."""
        return self._reports.descriptor

    @property
    def said_all(self) -> bool:
        """Whether its end of the pipe is closed."""
        return self._reports.ended

    def ran(self) -> set[tuple[UUID, int]]:
        """Return jobs that it has called, by token and id, all that it holds among them."""
        return self._board.read()

    def read(self) -> list[Message]:
        """Return the reports that are there."""
        return [] if self._reports.ended else self._reports.read()

    def tell(self, message: Message) -> None:
        """Say something to the child. Never waits."""
        self._control.send(message)

    @property
    def dies_at(self) -> float:
        """When it is to be killed, for one of its runs or for itself."""
        if self.was_killed:
            return float("inf")
        times = [run.kill_at for run in self.timed.values()]
        return min([*times, float("inf") if self.kill_at is None else self.kill_at])

    def is_stopped(self) -> bool:
        """Whether a signal has stopped it, so that it does nothing for its jobs."""
        stopped = process_state.is_stopped(self.pid)
        if stopped != self._was_stopped:
            self._was_stopped = stopped
            words = (
                "goes on"
                if not stopped
                else (
                    "was stopped by a signal, so its leases are not renewed until it goes on"
                )
            )
            logger.warning("Child %s %s.", self.number, words)
        return stopped

    def kill(self) -> None:
        """End it by SIGKILL, since it or one of its runs did not end in time."""
        now = clock.now()
        self.overdue = [
            Overdue(run, run.timeout + now - run.deadline)
            for run in self.timed.values()
            if run.kill_at <= now
        ]
        self.was_killed = True
        self._process.kill()
        jobs, why = [late.run.job_id for late in self.overdue], "did not leave in time"
        if jobs:
            late = counted(
                len(jobs),
                "job that did not stop at its timeout",
                "jobs that did not stop at their timeouts",
            )
            why = f"runs {late} ({', '.join(map(str, jobs))})"
        logger.warning(
            "Child %s %s and is killed.",
            self.number,
            why,
            extra={"child_pid": self.pid, "job_ids": jobs},
        )

    def close(self) -> None:
        """Close the pipes and the board of a child that is dead."""
        self._control.close()
        self._board.close()
        os.close(self._reports.descriptor)

    @property
    def death(self) -> str | None:
        """How it died, such as "killed by SIGKILL"; None if it left as it was told to."""
        code = self._process.returncode
        if self.was_killed or (self.is_leaving and code == 0):
            return None
        if code >= 0:
            return f"exited with code {code}"
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"

    def _spawn(self, number: int, options: WorkerOptions) -> subprocess.Popen[bytes]:
        with ExitStack() as mine, ExitStack() as its:
            reports_in, reports_out = os.pipe()
            mine.callback(os.close, reports_in)
            its.callback(os.close, reports_out)
            control_in, control_out = os.pipe()
            mine.callback(os.close, control_out)
            its.callback(os.close, control_in)
            os.set_blocking(reports_in, False)
            self._reports, self._control = Receiver(reports_in), Sender(control_out)
            self._board, board = Board.make(options.most_held)
            mine.callback(self._board.close)
            its.callback(os.close, board)
            bootstrap = ChildBootstrap.make(
                options.to_json(), reports_out, control_in, board
            )
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
            its.callback(signal.pthread_sigmask, signal.SIG_SETMASK, mask)
            process = subprocess.Popen(
                command(number),
                env=bootstrap.environment(),
                stdin=subprocess.DEVNULL,
                pass_fds=(reports_out, control_in, board),
            )
            mine.pop_all()  # from here on closed by close()
        return process

    def _wait(self, ended: Callable[["ChildProcess"], None]) -> None:
        self._process.wait()
        ended(self)
