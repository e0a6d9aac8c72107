"""transitions.step: recorded once, by whoever holds the lease, and gone with its job."""

import uuid

import pytest
from django.db import IntegrityError, connection

from django_leasequeue import Dedup
from django_leasequeue.db import DatabaseNow
from django_leasequeue.exceptions import JobRunAborted
from django_leasequeue.models import Job, Step
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.states import Status
from tests import tasks
from tests.factories import JobFactory
from tests.helpers import failing
from tests.road import claim, deadlock, locked, row, statements
from tests.token_guard import guarded

DAY = 24 * 3600


@pytest.fixture
def job():
    JobFactory()
    [job] = claim()
    return job


def record(job, name="a", result="1", *, seconds=0.5, first=False):
    with guarded():
        return Job.objects.record_step(job, name, result, seconds, first=first)


def settle(*jobs):
    with guarded():
        return Job.objects.settle([(job, Succeeded()) for job in jobs])


def steps(job, **having):
    pk = getattr(job, "id", job)
    return dict(Step.objects.filter(job_id=pk, **having).values_list("name", "result"))


@pytest.mark.django_db(transaction=True)
def test_it_is_recorded_with_who_and_when(job):
    """By one statement."""
    with statements() as sent:
        assert record(job, "a", '{"ok":true}')
    assert len(sent) == 1
    [step] = Step.objects.all()
    assert (step.job_id, step.round, step.name) == (job.id, 1, "a")
    assert step.result == {"ok": True}
    assert (step.seconds, step.attempt, step.worker) == (0.5, 1, job.worker)
    assert Step.objects.filter(recorded_at__lte=DatabaseNow()).exists()
    assert Step.objects.filter(recorded_at__gt=DatabaseNow(-60)).exists()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("now", "why"),
    [
        ({"processing_token": uuid.uuid4(), "claims": 3}, "another worker has claimed"),
        ({"processing_token": uuid.uuid4()}, "given back and is running"),
        ({"processing_until": DatabaseNow(-1)}, "its lease ended before the step"),
        ({"processing_until": DatabaseNow(29)}, "its lease ended before the step"),
    ],
)
def test_a_stale_worker_records_nothing(job, now, why, first):
    job.claims = 2  # not the first, which is a statement less
    Job.objects.filter(pk=job.id, processing_token=job.token).update(
        **{"claims": 2, "recoveries": 1, **now}
    )
    before = row(job)
    with pytest.raises(JobRunAborted, match=why):
        record(job, first=first)
    assert row(job) == before
    assert steps(job) == {}


def test_a_job_that_was_given_back_or_is_gone_takes_no_step(job):
    Job.objects.release(job.token)
    with pytest.raises(JobRunAborted, match="is pending"):
        record(job)
    Job.objects.filter(status=Status.PENDING).delete()
    with pytest.raises(JobRunAborted, match="its row was removed"):
        record(job)
    assert not Step.objects.exists()


def test_once_more_is_no_error_and_changes_nothing(job):
    """The answer to the first was lost, so the run asks again."""
    assert record(job, "a", "1")
    assert record(job, "a", "2")
    assert steps(job) == {"a": 1}


def test_other_violations_are_raised(job):
    error = IntegrityError("another constraint")
    with failing(error, match="insert into"), pytest.raises(IntegrityError):
        record(job)


def test_names_are_compared_exactly(job):
    names = ["a", "A", "a ", "á", "a\u0301", "x" * 255, "\U0001f600" * 255]
    for number, name in enumerate(names):
        assert record(job, name, str(number))
    assert steps(job) == {name: number for number, name in enumerate(names)}


@pytest.mark.django_db(transaction=True)
def test_passing_trouble_passes(job):
    with failing(deadlock(), match="insert into") as refused:
        assert record(job)
    assert len(refused) == 1
    assert steps(job) == {"a": 1}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("first", [True, False])
def test_a_locked_row_is_busy_not_lost(first):
    if not connection.features.has_select_for_update:
        pytest.skip("no row locks")
    JobFactory(claims=1, recoveries=1, suspect=1)
    [job] = claim()
    with locked([job]):
        assert not record(job, first=first)
    assert record(job, first=first)
    assert steps(job) == {"a": 1}


def test_it_ends_the_suspicion():
    """What was recorded stays done, so the losses before it count no more."""
    JobFactory(claims=1, recoveries=2, lost_alone=2, suspect=1)
    [job] = claim()
    assert record(job, first=True)
    now = row(job)
    assert (now["recoveries"], now["lost_alone"], now["suspect"]) == (0, 0, 0)
    assert now["status"] == Status.RUNNING


def test_steps_of_earlier_rounds_go_with_the_first_of_the_new(job):
    record(job, "a")
    Job.objects.filter(pk=job.id, processing_token=job.token).update(rerun=True)
    settle(job)
    assert row(job)["round"] == 2
    [again] = claim()
    assert again.round == 2
    record(again, "a", "2", first=True)
    record(again, "b", "3")
    assert steps(again) == {"a": 2, "b": 3}
    assert steps(again, round=2) == {"a": 2, "b": 3}


# --- Replace


def replaced(*args):
    dedup = Dedup("k", replace=True)
    return Job.objects.dispatch(tasks.add, args=args, dedup=dedup)


@pytest.mark.parametrize("many", [False, True])
def test_a_job_that_holds_steps_is_replaced_by_a_new_round(many):
    """They are what the old arguments came to."""
    job = replaced(1, 1).job
    [held] = claim()
    record(held)
    Job.objects.release(held.token)
    Job.objects.filter(status=Status.PENDING).update(attempts=2, progress=1)
    if many:
        spec = tasks.add.using(dedup=Dedup("k", replace=True)).spec(2, 2)
        [(_, outcome), _] = Job.objects.dispatch_many([spec, spec])
    else:
        outcome = replaced(2, 2).outcome
    assert outcome == "replaced"
    now = row(job)
    assert (now["round"], now["attempts"], now["progress"]) == (2, 0, None)
    assert now["args"] == [2, 2]
    [again] = claim()
    assert again.round == 2


def test_a_job_without_steps_is_replaced_in_its_round():
    job = replaced(1, 1).job
    with statements() as sent:
        replaced(2, 2)
    assert not [sql for sql in sent if "leasequeue_step" in sql]
    [held] = claim()
    Job.objects.release(held.token)
    replaced(3, 3)
    assert (row(job)["round"], row(job)["args"]) == (1, [3, 3])


# --- The end


def test_steps_are_removed_with_their_job_by_prune():
    jobs = [
        JobFactory(succeeded=True, finished_at=DatabaseNow(-days * DAY))
        for days in (2, 2, 0)
    ]
    for job in jobs:
        _step_of(job)
    with guarded():
        assert Job.objects.prune() == {"succeeded": 2}
    assert list(Step.objects.values_list("job", flat=True)) == [jobs[2].pk]


def test_steps_are_removed_with_their_job_by_its_outcome(settings):
    settings.LEASEQUEUE = {"RETENTION": 0}
    for _ in range(2):
        JobFactory()
    first, second = claim()
    stays = JobFactory(succeeded=True)
    _step_of(stays)
    first.has_steps = True
    record(first)
    with statements() as sent:
        settle(second)
    assert not [sql for sql in sent if "leasequeue_step" in sql]
    settle(first)
    assert row(first) is row(second) is None
    assert list(Step.objects.values_list("job", flat=True)) == [stays.pk]


def test_steps_of_a_later_claim_are_looked_for(settings):
    settings.LEASEQUEUE = {"RETENTION": 0}
    job = JobFactory(claims=1)
    _step_of(job)
    [held] = claim()
    settle(held)
    assert row(held) is None
    assert not Step.objects.exists()


def test_steps_are_removed_with_their_job_by_hand():
    for job in (JobFactory(succeeded=True), JobFactory(succeeded=True)):
        _step_of(job)
    Step.objects.first().job.delete()
    assert Step.objects.count() == 1


def _step_of(job):
    Step.objects.create(
        job=job, round=1, name="a", seconds=1, attempt=1, recorded_at=DatabaseNow()
    )
