"""Retry by hand beside itself, dispatches, prunes and other people's locks."""

import pytest
from django.db import connection, transaction

from django_leasequeue import db, ownership
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.transitions import retry as retrying
from tests.callers import caller
from tests.factories import JobFactory
from tests.helpers import DEADLINE, failing, in_thread, paused, run_together, together
from tests.road import deadlock, isolation, lock_wait, locked, row, table
from tests.tasks import add

has_row_locks = pytest.mark.skipif(
    "not connection.features.has_select_for_update",
    reason="one lock for the whole file",
)
QUEUED = {"task": add.name, "dedup_hold": "finished"}


def lost(**fields):
    """A failed job without its id."""
    return JobFactory(failed=True, **QUEUED, released_dedup_id="k", **fields)


def retry(*jobs):
    done = Job.objects.filter(pk__in=[job.pk for job in jobs]).retry()
    return {kind: ids for kind, ids in done._asdict().items() if ids}


def dispatch():
    return add.using(dedup="k").dispatch(1, 2)


# --- Beside another retry


@pytest.mark.parametrize("kind", ["with its id", "without"])
def test_two_people_at_once(kind):
    """Case 176: one new round, however many press the button."""
    for _ in range(5):
        job = lost() if kind == "without" else JobFactory(failed=True, dedup_id="k")
        answers = together(4, lambda number, job=job: retry(job))
        assert answers.count({"retried": {job.pk}}) == 1
        others = [answer for answer in answers if "retried" not in answer]
        assert all(set(answer) <= {"unfinished", "busy"} for answer in others)
        after = row(job)
        assert (after["status"], after["round"]) == ("pending", 2)
        assert after["dedup_id"] == "k"
        Job.objects.all().delete()


@pytest.mark.parametrize("holder", [None, "finished"])
def test_two_jobs_of_one_id_at_once(holder):
    for _ in range(5):
        jobs = [lost() for _ in range(4)]
        if holder:
            JobFactory(succeeded=True, **QUEUED, dedup_id="k")
        answers = together(4, lambda number, jobs=jobs: retry(jobs[number]))
        retried = [answer["retried"] for answer in answers if "retried" in answer]
        assert len(retried) == 1
        (winner,) = retried[0]
        rows = table()
        pending = [pk for pk, job in rows.items() if job["status"] == "pending"]
        assert pending == [winner]
        assert rows[winner]["dedup_id"] == "k"
        Job.objects.all().delete()


@has_row_locks
def test_a_locked_row_is_passed_over():
    """Case 178: done for the others, and told for the three."""
    held, gone, free = (JobFactory(failed=True) for _ in range(3))
    finished = lost()
    before = row(held), row(finished)
    with locked([held, finished]):
        real = retrying._retry

        def removed_meanwhile(rows, ids):
            Job.objects.filter(pk=gone.pk).delete()
            return real(rows, ids)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(retrying, "_retry", removed_meanwhile)
            assert retry(held, gone, free, finished) == {
                "retried": {free.pk},
                "busy": {held.pk, finished.pk},
                "gone": {gone.pk},
            }
    assert (row(held), row(finished)) == before


@has_row_locks
def test_a_locked_holder_is_not_waited_for():
    """It holds the id no longer, but somebody is about to do something to it."""
    job, holder = lost(), JobFactory(succeeded=True, **QUEUED, dedup_id="k")
    before = table()
    with locked([holder]):
        assert retry(job) == {"busy": {job.pk}}
    assert table() == before


@has_row_locks
def test_a_running_holder_is_not_locked():
    """It is only told about: a slow caller must not hold up its worker."""
    job, holder = lost(), JobFactory(leased=True, **QUEUED, dedup_id="k")
    with transaction.atomic():
        assert retry(job) == {"conflicts": {job.pk: holder.pk}}
        with caller() as other:
            other.begin()
            other.do(Job.objects.select_for_update(nowait=True).get, pk=holder.pk)


# --- Beside a dispatch


def test_one_of_them_gets_the_id():
    """Whoever is first; the other is told who that was."""
    for _ in range(10):
        job = lost()
        told, (dispatched, outcome) = run_together([lambda j=job: retry(j), dispatch])
        if outcome == "skipped":
            assert told == {"retried": {job.pk}}
            assert dispatched == job
        else:
            assert told == {"conflicts": {job.pk: dispatched.pk}}
        held = Job.objects.filter(dedup_id="k").values_list("pk", flat=True)
        assert list(held) == [dispatched.pk]
        Job.objects.all().delete()


@has_row_locks
def test_a_dispatch_that_found_it_finished():
    """It meant to take the id over, and finds that the job holds it again."""
    job = JobFactory(failed=True, **QUEUED, dedup_id="k")
    with paused(db, "wait_for_unchanged") as pause, in_thread(dispatch) as other:
        pause.wait()
        assert retry(job) == {"retried": {job.pk}}
        pause.resume()
        assert other.result() == (job, "skipped")


def test_a_dispatch_that_takes_the_id_before_it_is_looked_at():
    """The job had its id when it was chosen: under the lock it has it no more."""
    job = JobFactory(failed=True, **QUEUED, dedup_id="k")
    with paused(retrying, "_retry") as pause, in_thread(lambda: retry(job)) as other:
        pause.wait()
        new, outcome = dispatch()
        assert outcome == "added"
        pause.resume()
        assert other.result() == {"conflicts": {job.pk: new.pk}}
    assert row(job)["status"] == "failed"


@has_row_locks
def test_a_dispatch_between_the_look_for_the_holder_and_the_write():
    """The unique constraint decides, and the next pass finds the winner."""
    job = lost()
    with (
        paused(retrying, "_take_over", after=True) as pause,
        in_thread(lambda: retry(job)) as person,
    ):
        pause.wait()
        new, outcome = dispatch()
        assert outcome == "added"
        pause.resume()
        assert person.result() == {"conflicts": {job.pk: new.pk}}
    assert row(job)["status"] == "failed"


@has_row_locks
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_dispatch_that_has_not_committed_is_waited_for(end):
    job = lost()
    with caller() as rival, caller() as person:
        rival.begin()
        new = rival.do(dispatch).job
        answer = person.start(retry, job)
        person.wait_until_blocked()
        getattr(rival, end)()
        expected = {
            "commit": {"conflicts": {job.pk: new.pk}},
            "rollback": {"retried": {job.pk}},
        }
        assert answer.result(DEADLINE) == expected[end]


@has_row_locks
def test_a_dispatch_that_does_not_commit(monkeypatch):
    monkeypatch.setattr(retrying, "RERUN_FOR", 0.2)
    job, other = lost(), JobFactory(failed=True)
    options = {"innodb_lock_wait_timeout": 1} if connection.vendor == "mysql" else {}
    with caller() as rival, caller(**options) as person:
        rival.begin()
        rival.do(dispatch)
        expected = {"retried": {other.pk}, "busy": {job.pk}}
        assert person.do(retry, job, other) == expected


@has_row_locks
def test_a_holder_that_the_callers_snapshot_hides():
    job = lost()
    with isolation("repeatable read"), transaction.atomic():
        assert Job.objects.count() == 1
        with caller() as rival:
            rival.do(dispatch)
        assert retry(job) == {"conflicts": {job.pk: None}}
        # The transaction is usable.
        JobFactory()
    assert Job.objects.pending().count() == 2


@pytest.mark.skipif(
    "connection.vendor != 'mysql'", reason="elsewhere a snapshot refuses the write"
)
def test_a_holder_that_has_finished_behind_the_callers_snapshot():
    """What is locked is true: the holder that the snapshot shows as running has ended."""
    job, holder = lost(), JobFactory(leased=True, **QUEUED, dedup_id="k")
    ended = {"status": "succeeded", "finished_at": DatabaseNow()}
    free = {"processing_token": None, "processing_until": None}
    with isolation("repeatable read"), transaction.atomic():
        assert Job.objects.count() == 2
        with caller() as worker:
            found = Job.objects.filter(pk=holder.pk)
            worker.do(lambda: found.update(**ended, **free))
        assert retry(job) == {"retried": {job.pk}}
    assert row(holder)["released_dedup_id"] == "k"


# --- Beside a prune


def old(**fields):
    return JobFactory(failed=True, finished_at=DatabaseNow(-90 * 86400), **fields)


def test_a_prune_that_looked_at_it_before():
    """It comes back to life between the look and the delete."""
    job, other = old(), old()
    with paused(db, "remove") as pause, in_thread(Job.objects.prune) as pruner:
        pause.wait()
        assert retry(job) == {"retried": {job.pk}}
        pause.resume()
        assert pruner.result() == {"failed": 1}
    assert row(job)["status"] == "pending"
    assert row(other) is None


def test_a_prune_that_removes_it_before():
    job = old(dedup_id="k")
    with paused(retrying, "_retry") as pause, in_thread(lambda: retry(job)) as person:
        pause.wait()
        assert Job.objects.prune() == {"failed": 1}
        pause.resume()
        assert person.result() == {"gone": {job.pk}}


@has_row_locks
def test_a_prune_of_the_holder():
    """The holder's row goes while the id is being taken from it."""
    job, holder = lost(), old(**QUEUED, dedup_id="k")
    with paused(ownership, "holds") as pause, in_thread(lambda: retry(job)) as person:
        pause.wait()
        assert Job.objects.prune() == {"failed": 1}
        pause.resume()
        assert person.result() == {"busy": {job.pk}}
    assert row(holder) is None
    assert retry(job) == {"retried": {job.pk}}


# --- Trouble


@pytest.mark.parametrize("match", ["UPDATE", "dedup_id"])
def test_passing_trouble_runs_again(match):
    jobs = lost(), JobFactory(failed=True, dedup_id="b")
    for nth in range(2):
        with failing(deadlock, match=match) as refused:
            answer = retry(jobs[nth])
        assert refused
        assert answer == {"retried": {jobs[nth].pk}}


def test_a_wait_that_ends_is_told(monkeypatch):
    monkeypatch.setattr(retrying, "RERUN_FOR", 0.0)
    if connection.vendor == "sqlite":
        pytest.skip("no lock waits")
    job = lost()
    taking = f"SET {connection.ops.quote_name('dedup_id')}"
    with failing(lock_wait, match=taking, times=99) as refused:
        assert retry(job) == {"busy": {job.pk}}
    assert refused
    assert row(job)["status"] == "failed"
