"""A child of the supervisor: `python -m django_leasequeue.worker.child`, started by it only.

The main thread owns the signals and the loop; another one hears what the supervisor says.
A child ends when it is told to, when it has had its share of --stop-after or its number of
--max-jobs, or when the pipe from the supervisor ends, since then nobody renews its leases.
"""

import gc
import logging
import signal
from typing import Any
from uuid import UUID

import django

from django_leasequeue.worker import exits, log
from django_leasequeue.worker.board import Board
from django_leasequeue.worker.child_bootstrap import ChildBootstrap
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.pipes import Receiver, Sender
from django_leasequeue.worker.reports import Reports
from django_leasequeue.worker.stop import Level, Stop
from django_leasequeue.worker.vital import vital_thread
from django_leasequeue.worker.wakeup import Wakeup


def main() -> None:
    """Run jobs until told to stop; then exit with 0."""
    bootstrap = ChildBootstrap.take()
    bootstrap.apply()
    wakeup = Wakeup()
    stop = Stop(wakeup.wake)
    _own_signals(stop)
    options = WorkerOptions.from_json(bootstrap.options)
    board = Board(bootstrap.board, options.most_held)
    reports = Reports(Sender(bootstrap.reports), board, options.drain)
    django.setup()
    log.configure(options.verbosity)
    left = _work(options, reports, stop, wakeup, Receiver(bootstrap.control))
    reports.leaving()
    if left:
        # Threads whose task does not return would be in the way of an orderly end, and so
        # would the one in which asgiref awaits an `async def` callback.
        logging.shutdown()
        exits.at_once(0)


def _own_signals(stop: Stop) -> None:
    # Ctrl-C and a closing terminal reach the whole process group; what follows is for the
    # supervisor to say. It starts its children with all blocked, so that none comes early.
    # Ignored rather than handled: so programs that a task runs live on, too.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # A service manager may send it to the whole group, so only the supervisor counts them.
    signal.signal(
        signal.SIGTERM, lambda *_: stop.request(Level.GRACEFUL, "the child got SIGTERM")
    )
    signal.pthread_sigmask(
        signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
    )


def _work(
    options: WorkerOptions,
    reports: Reports,
    stop: Stop,
    wakeup: Wakeup,
    control: Receiver,
) -> int:
    # These need Django to be set up.
    from django_leasequeue import discovery, registry
    from django_leasequeue.worker import middleware
    from django_leasequeue.worker.heartbeat import take_away, worker_name
    from django_leasequeue.worker.loop import Loop
    from django_leasequeue.worker.reload import Watcher
    from django_leasequeue.worker.running import Running

    running = Running()
    vital_thread(
        _hear, control, reports, stop, running, wakeup, name="leasequeue-control"
    ).start()
    discovery.autodiscover()
    middleware.loaded()
    # What is there by now stays: to look through it for garbage would hold up jobs for some
    # hundredths of a second each time.
    gc.collect()
    gc.freeze()
    name = worker_name()
    watcher = Watcher(reports.changed) if options.reload else None
    reports.ready(name, registry.names())
    try:
        return Loop(options, name, reports, running, stop, wakeup).run()
    finally:
        if watcher:
            watcher.close()
        if reports.orphaned:
            take_away(name, options.database)


def _hear(
    control: Receiver, reports: Reports, stop: Stop, running: Any, wakeup: Wakeup
) -> None:
    """Do what the supervisor says, until it is gone."""
    from django_leasequeue.worker.killed import Killed

    for message in control:
        match message:
            case {"do": "stop", "why": why}:
                stop.request(Level.GRACEFUL, why)
            case {"do": "retire", "why": why}:
                stop.retire(why)
            case {"do": "leave"}:
                stop.request(Level.AT_ONCE, "at once")
            case {"do": "killed"}:
                running.add_killed(Killed.from_message(message))
                wakeup.wake()
            case {"do": "renewed", "token": token, "ids": ids, "at": at}:
                running.renewed(UUID(token), ids, at)
            case {"do": "cancel", "token": token, "ids": ids}:
                running.cancel(UUID(token), ids)
            case {"do": "lost", "token": token, "ids": ids, "why": why}:
                running.lose(UUID(token), ids, why)
    reports.orphaned = True
    log.logger.warning("The supervisor is gone, so this child stops.")
    stop.request(Level.GRACEFUL, "the supervisor is gone")


if __name__ == "__main__":
    main()
