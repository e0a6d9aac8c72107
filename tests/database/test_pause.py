"""Pause and resume: what the verbs answer, and what claims and drains make of it."""

import uuid

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import IntegrityError, transaction

from django_leasequeue.models import Job, Queue
from django_leasequeue.selection import Selection
from django_leasequeue.states import Status
from django_leasequeue.transitions.claim import Claim
from tests.factories import JobFactory
from tests.helpers import failing
from tests.road import WORKER, claim, deadlock, ids, row
from tests.tasks import add

NAMES = ["mail", "Mail", "mail.", "máil", "'; --", "%s", "\N{GRINNING FACE}" * 100]


def queue(name="mail", using="default"):
    return Queue.objects.using(using).get(pk=name)


def look(queues="*", exclude="", **options):
    """Return the Claim of one look for jobs."""
    selection = Selection.parse(queues, exclude)
    return Job.objects.claim(selection, 10, uuid.uuid4(), WORKER, **options)


# --- The verbs


def test_only_the_first_pause_and_resume_change_something():
    """Who asked for it first stays in the row; when, by the database's clock."""
    assert not Queue.objects.resume("mail", by="bob")
    assert not Queue.objects.exists()
    assert Queue.objects.pause("mail", by="ann", reason="The server is down.")
    first = queue()
    assert first.is_paused
    assert (first.paused_by, first.reason) == ("ann", "The server is down.")
    assert abs((first.paused_at - JobFactory().created_at).total_seconds()) < 60
    assert not Queue.objects.pause("mail", by="bob", reason="So there.")
    assert queue().paused_at == first.paused_at
    assert (queue().paused_by, queue().reason) == ("ann", "The server is down.")
    assert Queue.objects.resume("mail", by="cy")
    assert not Queue.objects.resume("mail", by="dee")
    after = queue()
    assert not after.is_paused
    assert (after.paused_by, after.resumed_by) == ("ann", "cy")
    assert after.resumed_at >= first.paused_at
    assert Queue.objects.pause("mail")
    assert (queue().paused_by, queue().reason) == ("", "")
    assert [str(paused) for paused in Queue.objects.paused()] == ["mail"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_are_exact(name):
    for other in NAMES:
        JobFactory(queue=other)
    assert Queue.objects.pause(name)
    assert {job.queue for job in claim()} == set(NAMES) - {name}


@pytest.mark.parametrize(
    "name", ["", "a\0b", "x" * 101, "\ud800", "*", "a,b", " a", None, 7]
)
def test_what_can_not_be_a_name_is_refused(name):
    for verb in (Queue.objects.pause, Queue.objects.resume):
        with pytest.raises((TypeError, ValueError)):
            verb(name)
    assert not Queue.objects.exists()


@pytest.mark.parametrize("given", [None, 1, b"ann", User(username="ann")], ids=repr)
def test_who_and_why_are_texts(given):
    """A user object is none: it would be stored as something else than its name."""
    who = r"by must be a str, such as user\.get_username\(\)"
    with pytest.raises(TypeError, match=who):
        Queue.objects.pause("mail", by=given)
    with pytest.raises(TypeError, match=who):
        Queue.objects.resume("mail", by=given)
    with pytest.raises(TypeError, match="reason must be a str, not"):
        Queue.objects.pause("mail", reason=given)
    assert not Queue.objects.exists()


def test_texts_for_people_are_cut_to_fit():
    assert Queue.objects.pause("mail", by="a\0" * 300, reason="é" * 10_000)
    assert 240 < len(queue().paused_by) <= 255
    assert 490 < len(queue().reason) <= 500
    assert Queue.objects.resume("mail", by="b" * 300)
    assert 240 < len(queue().resumed_by) <= 255


def test_a_verb_refuses_a_filter():
    for verb in (Queue.objects.paused().pause, Queue.objects.paused().resume):
        assert verb.alters_data
        with pytest.raises(TypeError, match="would ignore the filter"):
            verb("mail")


@pytest.mark.django_db(transaction=True)
def test_passing_trouble_passes():
    with failing(deadlock(), match="UPDATE"):
        assert Queue.objects.pause("mail")
    with failing(deadlock(), match="INSERT"):
        assert Queue.objects.pause("post")
    with failing(deadlock(), match="UPDATE"):
        assert Queue.objects.resume("mail")


def test_in_a_transaction():
    """It goes with the caller's transaction, and a conflict does not break it."""
    with pytest.raises(IntegrityError), transaction.atomic():
        assert Queue.objects.pause("mail")
        raise IntegrityError("as the test asked")
    assert not Queue.objects.exists()
    with transaction.atomic():
        assert Queue.objects.pause("mail")
        assert not Queue.objects.pause("mail")
        assert Queue.objects.resume("mail")
        assert Queue.objects.pause("mail")
    assert queue().is_paused


@pytest.mark.django_db(databases=["default", "other"])
def test_each_database_has_its_own():
    JobFactory(queue="mail")
    JobFactory(queue="mail", using="other")
    assert Queue.objects.using("other").pause("mail")
    assert len(claim()) == 1
    assert claim(using="other") == []
    assert not Queue.objects.exists()


# --- Claims


@pytest.mark.parametrize(
    ("queues", "exclude", "taken"),
    [
        ("*", "", ["mail", "post"]),
        ("mail", "", ["mail"]),
        ("mail,post", "", ["mail", "post"]),
        ("post,*", "", ["post", "mail"]),
        ("*", "post", ["mail"]),
    ],
)
def test_a_paused_queue_is_as_good_as_excluded(queues, exclude, taken):
    """In every form of a claim; and it is taken again from the resume on."""
    for name in ("mail", "post"):
        JobFactory(queue=name, priority=5)
    Queue.objects.pause("mail")
    Queue.objects.pause("of nobody")
    found = [job.queue for job in claim(queues=queues, exclude=exclude)]
    assert found == [name for name in taken if name != "mail"]
    Queue.objects.resume("mail")
    found = [job.queue for job in claim(queues=queues, exclude=exclude)]
    assert found == [name for name in taken if name == "mail"]


def test_a_pause_that_is_not_committed_yet_stops_nobody(second_connection):
    """A claim neither waits for it nor heeds it."""
    if second_connection.vendor == "sqlite":
        pytest.skip("nobody else can write there")
    JobFactory(queue="mail")
    with second_connection.cursor() as cursor:
        second_connection.set_autocommit(False)
        cursor.execute(
            "INSERT INTO leasequeue_queue"
            " (name, paused_at, paused_by, reason, resumed_by)"
            " VALUES ('mail', '2026-01-01', '', '', '')"
        )
        assert len(claim()) == 1
        second_connection.rollback()
        second_connection.set_autocommit(True)


def test_nobody_sleeps_until_a_job_of_a_paused_queue_is_due():
    JobFactory(queue="mail")
    JobFactory(queue="mail", suspect=1)
    JobFactory(queue="mail", scheduled=True, priority=1)
    Queue.objects.pause("mail")
    assert look() == Claim([], None)
    assert look(alone=True) == Claim([], None)
    JobFactory(queue="post", scheduled=True)
    found = look()
    assert found.jobs == []
    assert 3000 < found.due_in <= 3600
    Queue.objects.resume("mail")
    assert look().suspects


def test_dispatches_are_stored_and_wait():
    Queue.objects.pause("mail")
    job = add.using(queue="mail", dedup="k").dispatch(1, 2).job
    assert add.using(queue="mail", dedup="k").dispatch(1, 2).outcome == "skipped"
    assert claim() == []
    assert row(job)["status"] == Status.PENDING
    Queue.objects.resume("mail")
    assert ids(claim()) == [job.pk]


def test_what_runs_goes_on_and_what_is_lost_waits():
    """A job of a paused queue is settled, renewed and recovered like any other."""
    running, lost = JobFactory(queue="mail"), JobFactory(queue="mail", expired=True)
    [held] = claim(1, expired=False)
    Queue.objects.pause("mail")
    assert Job.objects.renew(held.token).renewed == {running.pk}
    assert claim() == []
    assert row(lost)["status"] == Status.PENDING
    assert row(lost)["recoveries"] == 1
    assert Job.objects.release(held.token) == {running.pk}
    assert claim() == []


# --- Drains


@pytest.mark.django_db(transaction=True)
def test_a_drain_says_what_waits_in_paused_queues_and_ends(capsys):
    for name, count in [("mail", 2), ("post", 1), ("default", 1)]:
        for _ in range(count):
            add.using(queue=name).dispatch(1, 2)
    add.using(queue="mail", delay=3600).dispatch(1, 2)
    for name in ("mail", "post", "empty"):
        Queue.objects.pause(name)
    call_command("runjobs", "--in-process", "--drain")
    said = capsys.readouterr().err
    assert "Draining: 1 job is due." in said
    assert said.splitlines()[-1] == (
        "Drained: 1 succeeded. Still waiting: 4 jobs: 4 in paused queues (mail, post)."
    )
    call_command("runjobs", "--in-process", "--drain", "--exclude=post")
    assert capsys.readouterr().err.splitlines()[-1] == (
        "Drained: nothing was due. Still waiting: 4 jobs: 3 in paused queues (mail), "
        "1 in queues that this worker does not take."
    )
