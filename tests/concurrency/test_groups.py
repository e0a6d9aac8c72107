"""Jobs that wait for a group, beside the last settles, dispatches and looks of others."""

from django.db import transaction

from django_leasequeue.models import GroupWait, Job
from django_leasequeue.outcomes import Failed, Succeeded
from django_leasequeue.transitions import groups
from tests.factories import JobFactory
from tests.helpers import in_thread, paused, run_together, together
from tests.road import claim, ids, row
from tests.tasks import add

FAILED = Failed({"message": "as asked"})


def after(done="g", **options):
    return add.using(after_group=done, **options).dispatch(1, 2).job


def look():
    return Job.objects.start_after_groups().started


def waits(job):
    return GroupWait.objects.filter(pk=job.pk).exists()


def test_the_last_settles_at_once():
    """Neither sees the other, the looks that follow do: it starts, and once."""
    for _ in range(5):
        JobFactory.create_batch(4, group="g")
        job = after()
        held = claim()
        assert len(held) == 4

        def end(number, held=held):
            outcome = FAILED if number % 2 else Succeeded()
            Job.objects.settle([(held[number], outcome)])
            return look()

        assert sum(together(4, end)) == 1
        assert ids(claim()) == [job.pk]
        assert claim() == []
        Job.objects.all().delete()


def test_many_looks_at_once():
    """Each job is started by one of them."""
    for _ in range(5):
        last = JobFactory(group="g")
        jobs = [after() for _ in range(6)]
        Job.objects.filter(pk=last.pk).delete()
        assert sum(together(4, lambda number: look())) == 6
        assert not any(map(waits, jobs))
        Job.objects.all().delete()


def test_a_dispatch_and_the_last_settle_at_once():
    """Whichever commits last looks last, and sees the other."""
    for _ in range(10):
        JobFactory(group="g")
        [held] = claim()

        def end(held=held):
            Job.objects.settle([(held, Succeeded())])
            look()

        job, _ = run_together([after, end])
        assert not waits(job)
        assert row(job)["blocked"] == 0
        Job.objects.all().delete()


def test_the_last_job_and_a_cancel_by_hand_at_once():
    for _ in range(5):
        JobFactory(group="g")
        [held] = claim()
        other = JobFactory(group="g")
        job = after()

        def end(held=held):
            Job.objects.settle([(held, Succeeded())])
            look()

        run_together([end, Job.objects.filter(pk=other.pk).cancel])
        assert not waits(job)
        Job.objects.all().delete()


def test_what_is_dispatched_while_a_look_finds_the_group_done():
    """The look answers for what it knew to wait; what came later has jobs of its own."""
    last = JobFactory(group="g")
    job = after()
    Job.objects.filter(pk=last.pk).delete()
    with (
        paused(groups, "_newest_unfinished", after=True) as pause,
        in_thread(look) as background,
    ):
        pause.wait()
        with transaction.atomic():
            add.using(group="g").dispatch(1, 2)
            later = after()
        assert waits(later)
        pause.resume()
    assert background.result() == 1
    assert not waits(job)
    assert waits(later)
