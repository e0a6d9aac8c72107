"""Jobs in every state. All times are expressions, so the database's clock decides."""

import uuid
from datetime import timedelta

import factory

from django_leasequeue.db import DatabaseNow
from django_leasequeue.states import Status


class JobFactory(factory.django.DjangoModelFactory):
    """A pending job that is due. `JobFactory(leased=True, using="other", queue="mail")`."""

    class Meta:
        model = "leasequeue.Job"

    task = "tests.tasks.add"
    queue = "default"
    args = [1, 2]
    kwargs = {}
    run_at = DatabaseNow()
    created_at = DatabaseNow()

    class Params:
        leased = factory.Trait(
            status=Status.RUNNING,
            worker="another worker",
            claims=1,
            processing_token=factory.LazyFunction(uuid.uuid4),
            processing_until=DatabaseNow(timedelta(minutes=5)),
            started_at=DatabaseNow(-timedelta(seconds=10)),
            last_attempted_at=DatabaseNow(-timedelta(seconds=10)),
        )
        expired = factory.Trait(
            leased=True, processing_until=DatabaseNow(-timedelta(seconds=1))
        )
        finished = factory.Trait(
            attempts=1,
            claims=1,
            started_at=DatabaseNow(-timedelta(seconds=10)),
            last_attempted_at=DatabaseNow(-timedelta(seconds=10)),
            finished_at=DatabaseNow(),
        )
        succeeded = factory.Trait(finished=True, status=Status.SUCCEEDED, result=3)
        failed = factory.Trait(
            finished=True,
            status=Status.FAILED,
            errors=[
                {
                    "exception_class": "builtins.ValueError",
                    "message": "as asked",
                    "traceback": "",
                    "attempt": 1,
                    "at": "2026-01-02T03:04:05+00:00",
                    "worker": "another worker",
                }
            ],
        )
        cancelled = factory.Trait(
            finished=True, status=Status.CANCELLED, cancel_requested_at=DatabaseNow()
        )
        keyed = factory.Trait(dedup_id=factory.Sequence("key-{}".format))
        scheduled = factory.Trait(run_at=DatabaseNow(timedelta(hours=1)))

    @classmethod
    def _create(cls, model_class, *args, using="default", **kwargs):
        jobs = model_class.objects.using(using)
        # Read back, so that expressions become times: refresh_from_db() would leave those
        # out that Django 6 defers where the database returns nothing from an insert.
        return jobs.get(pk=jobs.create(*args, **kwargs).pk)
