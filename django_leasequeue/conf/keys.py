"""The keys of LEASEQUEUE, each with its default and where that number comes from."""

from django_leasequeue.backoff import Exponential
from django_leasequeue.conf.kinds import (
    Backoff,
    Duration,
    Flag,
    Modules,
    Paths,
    Retention,
    Setting,
    Whole,
    WholeOrNone,
)
from django_leasequeue.retention import Rule
from django_leasequeue.states import Status

_DAY = 24 * 3600.0

SETTINGS: dict[str, Setting] = {
    # A job of a vanished worker waits this long. Kubernetes, too, gives a node 300 s
    # before it takes its pods for gone. Renewed every third of it, so two renewals may
    # fail.
    "LEASE": Duration(300.0, minimum=0.01),
    # A tenth of the lease: time for a worker's last write to arrive and commit, and
    # more than the clocks of two nodes of one database cluster should ever differ.
    "SAFETY_BUFFER": Duration(30.0),
    # Deaths in which the job was alone: once is bad luck, twice is suspicious, after
    # the third it is stopped. Sidekiq's super_fetch draws the same line.
    "MAX_RECOVERIES": Whole(3, minimum=0),
    # Runs in all. A task may have done half of its work when it fails, so that it can
    # be run again is for its author to say.
    "MAX_ATTEMPTS": Whole(1, minimum=1),
    # Its cap is the lease: a failure waits no longer than a crash would.
    "BACKOFF": Backoff(Exponential(base=1, factor=2, max=300, jitter=0.25)),
    # What went well is looked at on the same day if at all; what did not, once a month is
    # soon enough, also for whoever was on holiday. Solid Queue keeps a day, too.
    "RETENTION": Retention(
        {
            Status.SUCCEEDED: Rule(_DAY),
            Status.FAILED: Rule(30 * _DAY),
            Status.CANCELLED: Rule(30 * _DAY),
        }
    ),
    # Jobs of one queue that run at a time, on all workers together.
    "CONCURRENCY": WholeOrNone(minimum=1),
    # One; a second is a second interpreter's memory, so it is asked for.
    "PROCESSES": Whole(1, minimum=1),
    # Python runs one thread at a time, so threads serve tasks that wait; each holds a
    # connection, of which PostgreSQL has 100 by default for everybody.
    "THREADS": Whole(4, minimum=1),
    # Half of PostgreSQL's 100 connections, if each coroutine uses the database.
    "ASYNC_TASKS": Whole(50, minimum=1),
    # Kubernetes and Heroku kill 30 s after SIGTERM; five are left for giving jobs back.
    "SHUTDOWN_TIMEOUT": Duration(25.0),
    # Off for a transaction pooler, which shares its sessions among its clients.
    "NOTIFY": Flag(True),
    # Short enough that a person waiting for a job doesn't notice; five reads a second
    # of a few index entries are no load.
    "POLL_INTERVAL": Duration(0.2, minimum=0.01),
    "TASK_MODULES": Modules(),
    "MIDDLEWARE": Paths(),
    # 1 MiB is a sixteenth of MariaDB's default max_allowed_packet, the smallest limit
    # of the databases here. The least values hold "[]" and "null".
    "MAX_ARGUMENT_BYTES": Whole(2**20, minimum=2),
    "MAX_RESULT_BYTES": Whole(2**20, minimum=4),
    # An entry is at most 45 KB, so a row's errors stay below half a megabyte.
    "MAX_ERRORS": Whole(10, minimum=1),
    # For development: whoever dispatches would wait for every job.
    "IMMEDIATE": Flag(False),
}
# Those that QUEUES may set for a queue of its own.
PER_QUEUE = frozenset(
    {
        "LEASE",
        "SAFETY_BUFFER",
        "MAX_RECOVERIES",
        "MAX_ATTEMPTS",
        "BACKOFF",
        "RETENTION",
        "CONCURRENCY",
    }
)
