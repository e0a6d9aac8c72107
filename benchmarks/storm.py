"""What each process of a storm does, and what it tells at its end.

Times are those of `clock.now()`, which all processes of one machine share.
"""

import random
import re
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

from django.db import Error, connection, transaction
from django.db.models import Count
from django.db.models.functions import Coalesce

from django_leasequeue import Dedup, clock, db
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.selection import Selection
from django_leasequeue.states import FINAL
from django_leasequeue.transitions.dispatch import one as dispatching
from django_leasequeue.transitions.dispatch import owner as owners
from django_leasequeue.transitions.settle import Verdict
from tests.tasks import add

# Seconds of rest for those who find nothing to do, so that the others have the processor.
IDLE = 0.005


class Answer(NamedTuple):
    """One dispatched id, and when its call began and ended."""

    pk: int
    added: bool
    began: float
    ended: float


class Told:
    """What a process has seen. The counts go up while it runs."""

    def __init__(self):
        self.answers: list[Answer] = []
        self.runs: list[int] = []
        # When a row's removal had been answered, by id.
        self.removed: dict[int, float] = {}
        self.lost_inserts = 0
        self.rolled_back = 0
        # The victim's statement -> how often.
        self.deadlocks: Counter[str] = Counter()
        self.samples = 0
        self.twins: list[dict] = []
        # Seconds that each settle took.
        self.settles: list[float] = []


class RolledBack(Exception):
    """The caller changes its mind."""


def dispatch(told, stop, added, report, options):
    """Dispatch ids at random until told to stop."""
    dice = random.Random()
    kind = KINDS[options.dispatch]
    with noting(told), broken_order() if options.break_order else mock.MagicMock():
        while not stop.is_set():
            # New ids from time to time: the first job of an id is where inserts are lost.
            jobs = added()
            age = jobs // options.fresh
            # And mostly all want the same one.
            number = jobs if dice.random() < 0.8 else dice.randrange(options.ids)
            key = f"k{number % options.ids}-{age}"
            began = clock.now()
            try:
                done = kind(told, key, options, dice)
            except RolledBack:
                told.rolled_back += 1
                continue
            ended = clock.now()
            told.answers += [Answer(d.job.pk, d.added, began, ended) for d in done]
            report(sum(d.added for d in done), told.lost_inserts)


def alone(told, key, options, dice):
    return [Job.objects.dispatch(add, [1, 2], dedup=key)]


def replacing(told, key, options, dice):
    return [Job.objects.dispatch(add, [1, 2], dedup=Dedup(key, replace=True))]


def inside(told, key, options, dice):
    """In transactions, of which some are rolled back; run again as docs/dedup.md says."""
    while True:
        try:
            with transaction.atomic():
                done = alone(told, key, options, dice)
                if dice.random() < options.rollbacks:
                    raise RolledBack
            return done
        except Error as error:
            if not db.is_passing_trouble(error, connection):
                raise


def in_a_batch(told, key, options, dice):
    age = key.partition("-")[2]
    keys = [f"k{number}-{age}" for number in range(options.ids)]
    dice.shuffle(keys)
    return Job.objects.dispatch_many(add.using(dedup=key).spec(1, 2) for key in keys)


KINDS = {"alone": alone, "inside": inside, "replacing": replacing, "batch": in_a_batch}


def work(told, stop, added, report, options):
    """Claim, settle and perhaps remove jobs until told to stop and none is left."""
    with noting(told):
        while not stop.is_set() or Job.objects.exclude(status__in=FINAL).exists():
            token = uuid.uuid4()
            jobs = Job.objects.claim(Selection.parse("*"), 2, token, "w").jobs
            if not jobs:
                time.sleep(IDLE)
            for job in jobs:
                told.runs.append(job.id)
                began = clock.now()
                while not settled(job):
                    pass
                told.settles.append(clock.now() - began)
                if options.remove:
                    # By primary key and no other way, as remove-at-once does.
                    finished = db.by_key(Job.objects.all(), [job.id], status__in=FINAL)
                    finished._raw_delete(finished.db)
                    told.removed[job.id] = clock.now()


def settled(job):
    (done,) = Job.objects.settle([(job, Succeeded("3"))])
    if done.verdict is Verdict.LOST:
        raise AssertionError(f"Job {job.id} was lost: {done.why}")
    return done.verdict is Verdict.WRITTEN


def watch(told, stop, added, report, options):
    """Look for ids with two unfinished jobs, each time in one statement."""
    unfinished = Job.objects.exclude(status__in=FINAL).order_by()
    per_id = unfinished.values(key=Coalesce("dedup_id", "released_dedup_id"))
    twins = per_id.annotate(jobs=Count("id")).filter(jobs__gt=1)
    while not stop.is_set():
        told.twins += twins.all()
        told.samples += 1
        time.sleep(IDLE)


ROLES = {"dispatch": dispatch, "work": work, "watch": watch}


@contextmanager
def noting(told):
    """Count lost inserts and the deadlocks of which this process was the victim."""

    def wrapper(execute, sql, params, many, context):
        try:
            return execute(sql, params, many, context)
        except Error as error:
            text = str(error).lower()
            told.lost_inserts += "duplicate" in text or "unique" in text
            if "deadlock" in text:
                told.deadlocks[kind_of(sql)] += 1
            raise

    with connection.execute_wrapper(wrapper):
        yield


def kind_of(sql):
    """A statement in a few words: its verb, and the columns that it sets or asks for."""
    verb = sql.split(None, 1)[0]
    columns = re.findall(r"SET (.*?) WHERE", sql, re.S)
    names = re.findall(r"[`\"](\w+)[`\"] =", columns[0]) if columns else []
    asked = "through dedup_id" if re.search(r"dedup_id. = (%s|\')", sql) else ""
    lock = "FOR UPDATE" if "FOR UPDATE" in sql else ""
    return " ".join(filter(None, [verb, ", ".join(names), asked, lock]))


@contextmanager
def broken_order():
    """Let a dispatch lock its owner through the dedup index, as it must not."""

    def locking(rows, wanted, deadline, hidden):
        with db.bounded_transaction(rows.db, deadline.left):
            owner = owners.find(rows, wanted, locking=True)
            return dispatching._decide_locked(rows, wanted, owner)

    with mock.patch.object(dispatching, "_pass_alone", locking):
        yield
