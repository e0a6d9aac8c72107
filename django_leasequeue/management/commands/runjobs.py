"""`manage.py runjobs`: run the jobs of the queue."""

import os
import sys
from argparse import ArgumentParser
from contextlib import ExitStack
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error, InterfaceError, OperationalError, connections

from django_leasequeue.db.configured import is_as_configured
from django_leasequeue.exceptions import JobNotRunnable
from django_leasequeue.management.worker_options import (
    warn_of_unknown_queues,
    worker_options,
)
from django_leasequeue.worker import bounded, exits, log
from django_leasequeue.worker.connections import close_idle
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.progress import Progress, drain_display
from django_leasequeue.worker.readiness import IN_TRANSACTION, missing_migrations
from django_leasequeue.worker.waiting import due_jobs, jobs_left


class Command(BaseCommand):
    """Start a worker. The defaults of its options are the settings in LEASEQUEUE."""

    help = (
        "Runs jobs until it is stopped by SIGTERM, SIGINT or SIGHUP: then it takes no more, "
        "lets running jobs finish, gives back those that don't in time, and exits with 0. "
        "A second signal ends it at once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See BaseCommand."""
        parser.add_argument(
            "--queues",
            default="*",
            help="Queues to take jobs from, in strict order, separated by commas; * stands "
            "for every queue not named. Default: *",
        )
        parser.add_argument(
            "--exclude",
            default="",
            help="Queues never to take jobs from, separated by commas.",
        )
        parser.add_argument("--processes", type=int, help="How many child processes.")
        parser.add_argument(
            "--threads",
            type=int,
            help="How many jobs of plain tasks each process runs at once.",
        )
        parser.add_argument(
            "--async-tasks",
            type=int,
            help="How many jobs of async tasks each process runs beside those. A process "
            "claims no more jobs than it has room for whatever their kind is, so while all "
            "its threads are busy it starts no async job either, and the other way round.",
        )
        parser.add_argument(
            "--drain",
            action="store_true",
            help="Run all jobs that are due, then exit: with 0, or with 1 if any failed.",
        )
        parser.add_argument(
            "--job",
            type=int,
            metavar="ID",
            help="Run this one pending job in this very process, also if it is not due or "
            "its queue is paused, then exit: with 0 if it succeeded, with 1 if it did not, "
            "with 2 if it could not be run.",
        )
        parser.add_argument(
            "--stop-after",
            type=int,
            metavar="N",
            help="Exit with 0 after N jobs in all; the child processes share them evenly.",
        )
        parser.add_argument(
            "--max-jobs",
            type=int,
            metavar="N",
            help="Replace each child process by a fresh one after N jobs, or a little "
            "earlier, so that not all are replaced at once. Its running jobs end first.",
        )
        parser.add_argument(
            "--max-memory",
            type=int,
            metavar="MIB",
            help="The same once it uses so many mebibytes of memory and has run a job.",
        )
        parser.add_argument(
            "--shutdown-timeout",
            type=float,
            metavar="SECONDS",
            help="How long running jobs have to finish at a stop.",
        )
        parser.add_argument(
            "--reload",
            action="store_true",
            help="Start the child processes anew when the code changes. For development.",
        )
        parser.add_argument(
            "--in-process",
            action="store_true",
            help="Run jobs in this very process, for debuggers and Windows.",
        )
        parser.add_argument(
            "--database",
            choices=tuple(connections),
            help="The alias of the database that holds the jobs.",
        )

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Run the system checks, as far as that is possible without a database."""
        try:
            with ExitStack() as stack:
                for alias in connections:
                    stack.callback(bounded.let_go, alias)
                    stack.enter_context(bounded.Bounded(alias))
                super().check(*args, **kwargs)
        except (InterfaceError, OperationalError) as error:
            log.logger.warning("Some system checks were left out: %s", error)

    def handle(self, *args: Any, **given: Any) -> None:
        """Run the worker to its end. Raise CommandError if a drained job failed."""
        if given["drain"] and sys.stderr.isatty():
            # A line for each job would tear the progress bar to pieces.
            given["verbosity"] = max(given["verbosity"], 1) - 1
        undo = log.configure(given["verbosity"])
        try:
            self._handle(given)
        finally:
            if not getattr(self, "_called_from_command_line", False):
                undo()  # as in a test, whose other tests write no log

    def _handle(self, given: dict[str, Any]) -> None:
        options = worker_options(given)
        if connections[options.database].in_atomic_block:
            raise CommandError(
                f"runjobs {IN_TRANSACTION}", returncode=1 if options.job is None else 2
            )
        missing = missing_migrations(options.database)
        if missing:
            raise CommandError(
                f"The database {options.database!r} lacks {', '.join(missing)} of this app, "
                f"so no job could be run. Run 'manage.py migrate --database "
                f"{options.database}' first."
            )
        if not given["skip_checks"]:
            # The checks have imported the tasks.
            warn_of_unknown_queues(options)
        if options.job is not None:
            self._run_one(options)
            return
        progress = Progress(
            drain_display(_counted_due(options)) if options.drain else None
        )
        # A supervisor uses the database in its keeper's thread only.
        close_idle()
        try:
            left = (self._run_here if given["in_process"] else self._supervise)(
                options, progress
            )
        finally:
            progress.close(_told_left(options) if options.drain else "")
        failed = progress.failed if options.drain else 0
        self._leave_behind(left, 1 if failed else 0)
        if failed:
            raise CommandError(f"{log.counted(failed, 'job')} failed.", returncode=1)

    def _run_one(self, options: WorkerOptions) -> None:
        """Run the job `options.job`. Raise CommandError unless it succeeds."""
        from django_leasequeue.worker.single import Single

        single = Single(options)
        # The job may run for long, in other threads.
        close_idle()
        try:
            left = single.run()
        except (Error, JobNotRunnable) as error:
            raise CommandError(str(error), returncode=2) from error
        succeeded = single.word == log.SUCCEEDED
        self._leave_behind(left, 0 if succeeded else 1)
        if not succeeded:
            raise CommandError(f"Job {options.job}: {single.word}.", returncode=1)

    def _leave_behind(self, left: int, code: int) -> None:
        """Exit at once if jobs or callbacks still run: their threads would hold up the end."""
        if left and getattr(self, "_called_from_command_line", False):
            exits.at_once(code)

    def _run_here(self, options: WorkerOptions, progress: Progress) -> int:
        """Work in this process; return how many jobs and callbacks still run."""
        from django_leasequeue.worker.inprocess import InProcess

        return InProcess(options, progress).run()

    def _supervise(self, options: WorkerOptions, progress: Progress) -> int:
        """Work in child processes; no job runs in this one."""
        # Not at the top: Windows has not all that it imports.
        from django_leasequeue.worker.supervisor import Supervisor

        if not os.environ.get("DJANGO_SETTINGS_MODULE"):
            raise CommandError(
                "Child processes find the project by DJANGO_SETTINGS_MODULE, which is not "
                "set. Set it, or use --in-process."
            )
        if not is_as_configured(connections[options.database]):
            raise CommandError(
                f"Child processes open the database that the settings name for "
                f"{options.database!r}, but here it is another one, such as a test's: they "
                "would run other jobs than these. Use --in-process, or run_job(), in a "
                "TransactionTestCase."
            )
        supervisor = Supervisor(options, progress)
        supervisor.run()
        if supervisor.gave_up:
            raise CommandError(
                "The children died before they could work.", returncode=1
            )
        return 0


def _counted_due(options: WorkerOptions) -> int:
    """Return how many jobs are due; a display can do without if that can't be told."""
    try:
        return due_jobs(options)
    except Error:
        return 0


def _told_left(options: WorkerOptions) -> str:
    """Return what a drain leaves waiting, as far as that can be told."""
    try:
        return jobs_left(options)
    except Error:
        return ""
    finally:
        close_idle()
