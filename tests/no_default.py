"""Every verb once, in a project whose default database is empty.

Run by test_no_default, and by test_replica where no read may leave the jobs' database.
"""

import asyncio
import os
import uuid

import django
from asgiref.sync import sync_to_async
from django.db import connections, transaction


async def adispatch(door):
    await door.adispatch(7, 8)
    await sync_to_async(connections.close_all)()  # of the loop's own thread


def main(routed):
    from django_leasequeue import Dedup
    from django_leasequeue.models import Job
    from django_leasequeue.outcomes import Succeeded
    from django_leasequeue.selection import Selection
    from tests.tasks import add

    jobs = Job.objects if routed else Job.objects.using("other")
    door = add if routed else add.using(database="other")

    def claim(alone=False):
        token = uuid.uuid4()
        return jobs.claim(Selection(), 10, token, "host:1", alone=alone).jobs

    def settle(alone=False):
        verdicts = jobs.settle([(job, Succeeded("3")) for job in claim(alone)])
        assert {settled.verdict.value for settled in verdicts} == {"written"}

    job, _ = jobs.dispatch(add, [1, 2], dedup="k")
    assert job.run_at is not None
    assert jobs.dispatch(add, [1, 2], dedup="k").job == job
    settle()
    assert jobs.dispatch(add, [1, 2], dedup=Dedup("k", ttl=60)).added
    assert len(jobs.dispatch_many([add.spec(1, 2), add.spec(3, 4)])) == 2
    door.dispatch(5, 6)
    asyncio.run(adispatch(door))
    with transaction.atomic(using="other"):
        assert not jobs.dispatch(add, [1, 2], dedup="k").added
        jobs.dispatch_many([add.using(dedup="j").spec(1, 2)])
    held = claim()
    with transaction.atomic(using="other"):
        # The count of a running job's id is written once this has committed.
        assert not jobs.dispatch(add, [1, 2], dedup="k").added
    assert jobs.renew(held[0].token).renewed == {job.id for job in held}
    assert jobs.release(held[0].token, death="test") == {job.id for job in held}
    assert len(jobs.filter(args=[5, 6]).cancel().cancelled) == 1
    settle(alone=True)
    in_the_table(jobs)


def in_the_table(jobs):
    """What is asked of jobs that are there, and of one."""
    from django_leasequeue.models import Job, Queue, Schedule, Worker
    from tests.tasks import add

    rows = Job.objects.using("other")
    assert (rows.count(), rows.finished().count()) == (7, 7)
    assert sum(jobs.filter(task=add.name).wait(5).values()) == 7
    failed = jobs.filter(args=[5, 6])
    assert len(failed.retry().retried) == 1
    assert len(failed.cancel().cancelled) == 1
    late, _ = jobs.dispatch(add, [1, 1], delay=600)
    assert late.why()[0].kind and jobs.why(late.pk)[0].kind
    assert len(jobs.filter(pk=late.pk).run_now().made_due) == 1
    assert late.cancel() and late.status == "cancelled"
    late.retry()
    assert late.status == "pending" and late.cancel()
    queues = Queue.objects.using("other")
    assert queues.pause("mail") and queues.resume("mail")
    assert list(Worker.objects.using("other").live()) == []
    assert Schedule.objects.using("other").all().pause() == 0


if __name__ == "__main__":
    django.setup()
    main(routed=os.environ["LEASEQUEUE_TEST_ROUTED"] == "1")
    connections.close_all()
    print("done")
