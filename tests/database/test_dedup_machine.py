"""Dispatch, claim, settle, retry, recovery, cancel, prune and time against a model of the rules.

The model is a few lines of Python that know nothing of the package. Time passes by moving
every stored time into the past, in steps far longer than a test takes, so that what is real
of it makes no difference.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

import pytest
from django.conf import settings
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from django_leasequeue import Dedup
from django_leasequeue.models import Job
from django_leasequeue.outcomes import (
    Cancelled,
    Failed,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from tests.road import claim
from tests.tasks import add

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        settings.DATABASE not in ("sqlite", "postgres"),
        reason="two databases are enough",
    ),
]

# Hours. Windows end at half hours and time passes by whole ones, so that the two never meet.
WINDOWS = [1.5, 2.5]
LEASE = 1.5
TIMES = [
    "run_at",
    "processing_until",
    "dedup_until",
    "last_suppressed_at",
    "cancel_requested_at",
    "created_at",
    "started_at",
    "last_attempted_at",
    "finished_at",
]
# Hours that finished jobs are kept, between the steps of time; cancelled ones not at all.
KEPT = {"succeeded": 1.2, "failed": 2.7, "cancelled": 0}
ERROR = {"exception_class": "builtins.ValueError", "message": "as asked"}
FINAL = {"succeeded", "failed", "cancelled"}


@dataclass
class Model:
    """One job by the rules. Times are in hours from the start of the world."""

    key: str | None
    args: list
    due: float
    ttl: float | None = None
    hold: str = "finished"
    window_ends: float = -1
    status: str = "pending"
    next_args: list | None = None
    rerun: bool = False
    to_cancel: bool = False
    finished: float = -1
    lease_ends: float = -1
    round: int = 1
    suppressed: int = 0
    claimed: object = field(default=None, repr=False)

    def holds(self, now):
        unfinished = self.hold == "finished" and self.status not in FINAL
        return unfinished or self.hold == "removed" or self.window_ends > now

    def ends(self, status, now):
        self.status, self.finished = status, now
        if status == "cancelled":
            self.next_args = None

    def in_window(self, now):
        return self.key is not None and self.window_ends > now

    def new_round(self, now):
        self.args, self.next_args = self.next_args or self.args, None
        self.rerun = self.to_cancel = False
        self.status, self.due, self.round = "pending", now, self.round + 1


class World(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        Job.objects.all().delete()
        self.now = 0
        self.jobs = {}

    # --- What callers do

    @rule(
        key=st.sampled_from("ab"),
        number=st.integers(0, 99),
        ttl=st.sampled_from([None, *WINDOWS]),
        until=st.sampled_from([None, "finished", "removed"]),
        flags=st.sets(st.sampled_from(["extend", "replace", "postpone", "rerun"])),
        delay=st.sampled_from([0, 1.5]),
        many=st.booleans(),
    )
    def dispatch(self, key, number, ttl, until, flags, delay, many):
        if "extend" in flags and ttl is None:
            flags -= {"extend"}
        if "replace" not in flags:
            flags -= {"postpone"}
        rules = Dedup(
            key,
            ttl=None if ttl is None else timedelta(hours=ttl),
            until=until,
            **dict.fromkeys(flags, True),
        )
        door = add.using(dedup=rules, delay=timedelta(hours=delay))
        done = (
            Job.objects.dispatch_many([door.spec(number, 0)])[0]
            if many
            else door.dispatch(number, 0)
        )
        owner = next((pk for pk, job in self.jobs.items() if job.key == key), None)
        if owner is not None and not self.jobs[owner].holds(self.now):
            self.jobs[owner].key = owner = None
        if owner is None:
            assert done.outcome == "added"
            assert done.job.pk not in self.jobs
            hold = until or ("" if ttl else "finished")
            ends = -1 if ttl is None else self.now + ttl
            self.jobs[done.job.pk] = Model(
                key, [number, 0], self.now + delay, ttl, hold, ends
            )
            return
        assert done.job.pk == owner
        assert done.outcome == self.answer(self.jobs[owner], [number, 0], flags, delay)

    def answer(self, job, args, flags, delay):
        job.suppressed += 1
        word = "skipped"
        if "extend" in flags and job.ttl is not None:
            word, job.window_ends = "extended", self.now + job.ttl
        if "replace" in flags and job.status == "pending":
            word, job.args = "replaced", args
            if "postpone" in flags:
                job.due = self.now + delay
        if "rerun" in flags and job.status == "running":
            word, job.rerun = "rerun", True
            if "replace" in flags:
                job.next_args = args
        return word

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data):
        pk = data.draw(st.sampled_from(sorted(self.jobs)))
        job = self.jobs[pk]
        done = Job.objects.filter(pk=pk).cancel()
        if job.status == "pending":
            assert done.cancelled == {pk}
            job.rerun = False
            job.ends("cancelled", self.now)
        elif job.status == "running":
            assert done.requested == {pk}
            job.to_cancel, job.rerun, job.next_args = True, False, None
        else:
            assert done.unchanged == {pk}

    # --- What workers do

    @rule()
    def claim(self):
        expected = set()
        for pk, job in self.jobs.items():
            if job.status == "pending" and job.due <= self.now:
                expected.add(pk)
            elif job.status == "running" and job.lease_ends < self.now:
                if job.rerun:
                    job.new_round(self.now)
                    expected.add(pk)
                elif job.to_cancel:
                    job.ends("cancelled", self.now)
                else:
                    expected.add(pk)
        claimed = claim(token=uuid4())
        assert {one.id for one in claimed} == expected
        for one in claimed:
            job = self.jobs[one.id]
            job.status, job.claimed = "running", one
            job.lease_ends = self.now + LEASE
            assert one.args == f"[{job.args[0]},{job.args[1]}]"

    @precondition(lambda self: any(job.claimed for job in self.jobs.values()))
    @rule(
        data=st.data(),
        outcome=st.sampled_from(
            [
                Succeeded("3"),
                Failed(ERROR),
                Cancelled(),
                Released(),
                Snoozed(timedelta(hours=1.5)),
                RetryLater(timedelta(hours=1.5), ERROR),
            ]
        ),
    )
    def settle(self, data, outcome):
        pk = data.draw(
            st.sampled_from([pk for pk, j in self.jobs.items() if j.claimed])
        )
        job = self.jobs[pk]
        verdict = Job.objects.settle([(job.claimed, outcome)])[0].verdict.value
        if job.status != "running" or job.lease_ends < self.now:
            assert verdict == "lost"
        else:
            assert verdict == "written"
            self.ended(job, outcome)
            if job.status == "cancelled" and not job.in_window(self.now):
                # Not kept at all: by the settle itself.
                del self.jobs[pk]
        job.claimed = None

    def ended(self, job, outcome):
        if job.rerun:
            # With the arguments that wait, also if the run was cancelled before.
            job.new_round(self.now)
            return
        match outcome:
            case Succeeded():
                job.ends("succeeded", self.now)
            case Failed():
                job.ends("failed", self.now)
            case Cancelled():
                job.ends("cancelled", self.now)
            case _:
                job.status = "pending"
        if isinstance(outcome, Snoozed | RetryLater):
            job.due = self.now + 1.5
        if job.to_cancel and job.status == "pending":
            job.ends("cancelled", self.now)

    @precondition(lambda self: any(job.claimed for job in self.jobs.values()))
    @rule(data=st.data(), death=st.sampled_from([None, "killed by SIGKILL"]))
    def give_back(self, data, death):
        pk = data.draw(
            st.sampled_from([pk for pk, j in self.jobs.items() if j.claimed])
        )
        job = self.jobs[pk]
        released = Job.objects.release(job.claimed.token, ids=[pk], death=death)
        held = job.status == "running" and job.lease_ends > self.now
        assert released == ({pk} if held else set())
        if held:
            self.ended(job, Released())
        job.claimed = None

    @rule()
    def prune(self):
        gone = {
            pk
            for pk, job in self.jobs.items()
            if job.status in FINAL
            and job.finished + KEPT[job.status] <= self.now
            and not job.in_window(self.now)
        }
        would = Job.objects.prune(dry_run=True)
        removed = Job.objects.prune()
        assert removed == would and removed.total() == len(gone)
        for pk in gone:
            del self.jobs[pk]

    # --- Time

    @rule(hours=st.sampled_from([1, 2, 3]))
    def time_passes(self, hours):
        self.now += hours
        for job in Job.objects.all():
            for name in TIMES:
                moment = getattr(job, name)
                if moment is not None:
                    setattr(job, name, moment - timedelta(hours=hours))
            job.save(update_fields=TIMES)

    # --- What always holds

    @invariant()
    def rows_are_as_the_model_has_them(self):
        rows = {row["id"]: row for row in Job.objects.values()}
        assert set(rows) == set(self.jobs)
        for pk, job in self.jobs.items():
            row = rows[pk]
            seen = {
                name: row[name] for name in ("status", "args", "next_args", "rerun")
            }
            assert seen == {name: getattr(job, name) for name in seen}
            assert (row["dedup_id"], row["round"]) == (job.key, job.round)
            assert row["suppressed"] == job.suppressed

    @invariant()
    def no_id_is_held_twice(self):
        keys = [job.key for job in self.jobs.values() if job.key]
        assert len(keys) == len(set(keys))


def test_the_rules(settings):
    settings.LEASEQUEUE = {
        "LEASE": timedelta(hours=LEASE),
        "SAFETY_BUFFER": 1,
        "RETENTION": {status: timedelta(hours=age) for status, age in KEPT.items()},
    }
    run_state_machine_as_test(
        World,
        settings=hypothesis_settings(
            max_examples=25,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
