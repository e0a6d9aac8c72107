"""monitoring: the figures of a queue, and whether they are as they should be."""

from datetime import timedelta

from django_leasequeue import db
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Queue, Worker
from django_leasequeue.models.group_wait import GroupWait
from django_leasequeue.monitoring import (
    Limits,
    failures,
    figures,
    health,
    queues,
)
from tests.admin.looking import make_worker
from tests.factories import JobFactory
from tests.road import statements


def of(name):
    [found] = [one for one in figures("default").queues if one.name == name]
    return found


def problems(**limits):
    return [problem.kind for problem in health("default", Limits(**limits)).problems]


def test_queues():
    """Each with what is ready, waits and runs; none that have only finished jobs."""
    JobFactory.create_batch(2, queue="mail", run_at=DatabaseNow(-90))
    JobFactory(queue="mail", priority=5, suspect=1, recoveries=1)
    JobFactory(queue="mail", scheduled=True)
    JobFactory(queue="mail", blocked=1, concurrency_key="k")
    GroupWait.objects.create(job=JobFactory(queue="mail", blocked=2), group="g")
    JobFactory(queue="mail", leased=True)
    JobFactory(queue="video", scheduled=True)
    JobFactory(queue="busy", expired=True)
    JobFactory(queue="done", succeeded=True)
    JobFactory(queue="held", run_at=DatabaseNow(-90))
    Queue.objects.pause("held", by="ann", reason="The server is down.")
    make_worker(queues=["mail", "busy"])
    make_worker(name="all", queues=["*"], exclude=["busy"])
    make_worker(name="silent", queues=["*"], last_seen_at=DatabaseNow(-100))
    found = {one.name: one for one in figures("default").queues}
    assert list(found) == ["busy", "held", "mail", "video"]
    mail, video, held = found["mail"], found["video"], found["held"]
    assert (mail.ready, mail.waiting, mail.running, mail.workers) == (3, 4, 1, 2)
    assert 90 <= mail.oldest_ready < 150
    assert (mail.blocked, video.blocked, mail.paused_at) == (2, 0, None)
    assert (video.ready, video.waiting, video.oldest_ready) == (0, 1, None)
    assert (held.paused, held.ready, held.waiting) == (True, None, 1)
    assert (held.paused_by, held.reason) == ("ann", "The server is down.")
    assert held.as_dict()["paused_at"] == held.paused_at.isoformat()
    assert (found["busy"].running, found["busy"].workers) == (1, 1)


def test_more_than_are_counted(monkeypatch):
    monkeypatch.setattr(queues, "MOST_COUNTED", 2)
    JobFactory.create_batch(5, queue="mail")
    JobFactory.create_batch(5, queue="mail", priority=3, leased=True)
    mail = of("mail")
    assert (mail.ready, mail.waiting, mail.running) == (3, 3, 3)


def test_failures_of_the_window():
    """By queue and task, most first; not those before it."""
    JobFactory.create_batch(2, failed=True, queue="mail")
    JobFactory(failed=True, queue="mail", task="b")
    JobFactory(failed=True, queue="A", task="b")
    JobFactory(failed=True, task="old", finished_at=DatabaseNow(-timedelta(hours=2)))
    JobFactory(succeeded=True, task="fine")
    found = [(one.queue, one.task, one.count) for one in failures("default", 3600)]
    assert found == [("mail", "tests.tasks.add", 2), ("A", "b", 1), ("mail", "b", 1)]
    assert failures("default", 0) == []


def test_all_is_well():
    assert problems() == []
    make_worker()
    JobFactory()
    found = health("default", Limits(max_failures=0, max_silent=0, host="host"))
    assert found.is_well
    assert found.as_dict() == {"status": "ok", "problems": []}


def test_a_ready_job_has_waited_for_long():
    make_worker()
    JobFactory(queue="mail", run_at=DatabaseNow(-361))
    [problem] = health("default", Limits()).problems
    assert problem.kind == "age" and 361 <= problem.data["age"] < 420
    assert problem.sentence == (
        "Queue 'mail': the oldest ready job has waited for 6 minutes, more than 5 minutes."
    )
    assert problems(max_age=600) == problems(max_age=None) == []
    assert problems(queues=("video",)) == []
    Queue.objects.pause("mail")
    assert problems() == []


def test_nobody_takes_a_queue():
    JobFactory(queue="mail")
    JobFactory(queue="later", scheduled=True)
    assert problems() == ["workers"]
    assert problems(need_workers=False) == []
    make_worker(queues=["video"])
    assert problems() == ["workers"]
    make_worker(name="second", queues=["mail"])
    assert problems() == []
    Worker.objects.update(last_seen_at=DatabaseNow(-61))
    assert problems() == ["workers"]


def test_too_many_have_failed():
    JobFactory.create_batch(3, failed=True, queue="mail")
    assert problems(max_failures=3) == []
    assert problems(max_failures=2) == ["failures"]
    assert problems(max_failures=2, queues=("video",)) == []
    Job.objects.update(finished_at=DatabaseNow(-100))
    assert problems(max_failures=2, window=60) == []


def test_workers_have_vanished():
    make_worker(last_seen_at=DatabaseNow(-61))
    assert problems() == problems(max_silent=1) == []
    assert problems(max_silent=0) == ["silent"]


def test_a_worker_of_this_host():
    make_worker(host="a")
    make_worker(name="b", host="b", last_seen_at=DatabaseNow(-61))
    assert problems(host="a") == []
    assert problems(host="b") == problems(host="c") == ["host"]


def test_read_only(monkeypatch):
    """test_why.py has it of a database that is; whatever else is asked, it is told."""
    monkeypatch.setattr(db, "takes_writes", lambda using: False)
    assert problems(max_age=None, need_workers=False) == ["read_only"]


def test_statements():
    """As many, however many jobs, queues and tasks there are; no locks."""
    counts = set()
    for number in range(3):
        for queue in ("a", "b", "c")[: number + 1]:
            JobFactory(queue=f"{queue}{number}")
            JobFactory(queue=f"{queue}{number}", task=queue, failed=True)
            JobFactory(queue=f"{queue}{number}", leased=True)
        with statements() as seen:
            figures("default")
        counts.add(len(seen))
        assert not [sql for sql in seen if "UPDATE" in sql]
    assert counts == {11}
