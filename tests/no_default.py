"""Every verb once, in a project whose default database is empty. Run by test_no_default."""

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
    assert (jobs.count(), jobs.finished().count()) == (7, 7)


if __name__ == "__main__":
    django.setup()
    main(routed=os.environ["LEASEQUEUE_TEST_ROUTED"] == "1")
    connections.close_all()
    print("done")
