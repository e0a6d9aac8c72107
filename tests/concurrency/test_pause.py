"""Pause and resume under races, and as real workers see them."""

import threading
import uuid

import pytest

from django_leasequeue import clock
from django_leasequeue.models import Job, Queue
from django_leasequeue.selection import Selection
from django_leasequeue.states import Status
from tests import tasks
from tests.factories import JobFactory
from tests.helpers import eventually, run_together, together
from tests.road import table
from tests.workers import SETTINGS, statuses, with_worker_tasks

TURNS = 6


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


# --- Those who pause and resume


def test_of_many_who_do_the_same_at_once_one_changes_something():
    """Also of those who make the row; whose name is in it is who was told so."""
    for turn in range(TURNS):
        answers = together(6, lambda n: Queue.objects.pause("mail", by=f"{n}"))
        assert sorted(answers) == [False] * 5 + [True], answers
        assert Queue.objects.get().paused_by == str(answers.index(True))
        answers = together(6, lambda n: Queue.objects.resume("mail", by=f"{n}"))
        assert sorted(answers) == [False] * 5 + [True], answers
        assert Queue.objects.get().resumed_by == str(answers.index(True))
        if turn % 2:
            Queue.objects.all().delete()


def test_pauses_and_resumes_alternate_whatever_the_race():
    """Each that changed something was followed by one of the other kind."""

    def work(number):
        verb = Queue.objects.resume if number % 2 else Queue.objects.pause
        return sum(verb("mail") for _ in range(TURNS))

    for _ in range(3):
        Queue.objects.all().delete()
        counts = together(6, work)
        surplus = sum(counts[::2]) - sum(counts[1::2])
        assert surplus == Queue.objects.get().is_paused


# --- Claims


def test_no_claim_that_begins_after_a_pause_takes_a_job_of_the_queue():
    """Whatever others do meanwhile; and the other queue is never held up."""
    for name in ("mail", "post"):
        JobFactory.create_batch(5, queue=name)
    done = threading.Event()
    # Of each claim when it began, by clock.now(), and the queues that it took jobs of.
    looks = []

    def since(instant):
        return [queues for began, queues in list(looks) if began > instant]

    def toggle():
        try:
            for _ in range(TURNS):
                assert Queue.objects.pause("mail")
                paused_at = clock.now()
                eventually(lambda instant=paused_at: len(since(instant)) >= 4)
                assert "mail" not in set().union(*since(paused_at))
                assert Queue.objects.resume("mail")
                resumed_at = clock.now()
                eventually(
                    lambda instant=resumed_at: {"mail", "post"} in since(instant)
                )
        finally:
            done.set()

    def work():
        while not done.is_set():
            token, began = uuid.uuid4(), clock.now()
            claim = Job.objects.claim(Selection(), 100, token, "host:1")
            looks.append((began, {job.queue for job in claim.jobs}))
            Job.objects.release(token)

    run_together([toggle, work, work])
    assert statuses() == {Status.PENDING: 10}


# --- Workers


def succeeded(jobs, process):
    def all_have():
        assert process.is_running, process.output
        seen = {row["status"] for pk, row in table().items() if pk in jobs}
        assert seen == {Status.SUCCEEDED}, seen
        return True

    eventually(all_have)


def dispatched(queue, count):
    """Dispatch so many quick jobs; return their ids."""
    specs = [tasks.add.using(queue=queue).spec(1, number) for number in range(count)]
    return {dispatch.job.pk for dispatch in Job.objects.dispatch_many(specs)}


@pytest.mark.parametrize("mode", ["--processes=1", "--in-process"])
def test_workers_start_no_job_of_a_paused_queue(worker_process, announcement, mode):
    """They take the others, and let what runs go on; a resume lets all start."""
    process = worker_process(mode, settings=SETTINGS)
    Job.objects.dispatch(
        tasks.announce_then_wait, args=[announcement.path], queue="mail"
    )
    announcement.wait()
    assert Queue.objects.pause("mail", by="ann")
    # By then a claim that had begun before the pause is over.
    succeeded(dispatched("post", 1), process)
    held = dispatched("mail", 20)
    succeeded(dispatched("post", 20), process)
    announcement.release()
    eventually(lambda: statuses()[Status.SUCCEEDED] == 22)
    succeeded(dispatched("post", 20), process)
    assert {table()[pk]["claims"] for pk in held} == {0}
    assert Queue.objects.resume("mail", by="ann")
    succeeded(held, process)


def test_what_was_claimed_ahead_when_the_queue_was_paused_is_given_back(
    worker_process, announcement, tmp_path
):
    """It may start until a second after its claim, as ever; then it is not taken again."""
    modules = [*SETTINGS["TASK_MODULES"], "tests.far_horizon"]
    process = worker_process("--threads=1", settings={"TASK_MODULES": modules})
    # Quick ones, so that the worker claims ahead.
    succeeded(dispatched("mail", 50), process)
    path = tmp_path / "runs"
    first = tasks.announce_then_wait.using(queue="mail", priority=1)
    behind = tasks.record_run.using(queue="mail")
    specs = [behind.spec(str(path), f"{number}") for number in range(5)]
    done = Job.objects.dispatch_many([first.spec(announcement.path), *specs])
    blocking, *held = [dispatch.job.pk for dispatch in done]
    announcement.wait()

    def claimed_ahead():
        return {table()[pk]["claims"] for pk in held} == {1}

    eventually(claimed_ahead)
    assert Queue.objects.pause("mail")
    eventually(lambda: {table()[pk]["status"] for pk in held} == {Status.PENDING})
    announcement.release()
    succeeded({blocking, *dispatched("post", 20)}, process)
    assert claimed_ahead()
    assert not path.exists()
    assert Queue.objects.resume("mail")
    succeeded(set(held), process)
    assert len(path.read_text().split()) == 5
