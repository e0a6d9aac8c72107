"""Tasks of Django's own framework, with the types of the backend."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import Any, assert_type

from django.tasks import Task as DjangoTask
from django.tasks import TaskContext
from django.tasks import task as django_task

from django_leasequeue.backend import LeaseTask
from django_leasequeue.backend.typed import task
from django_leasequeue.managers import Dispatch
from django_leasequeue.models import Job


@django_task(queue_name="mail")
def of_django(order_id: int) -> str:
    return ""


@task(queue_name="mail", max_attempts=5, timeout=60)
def of_backend(order_id: int) -> str:
    return ""


@task(takes_context=True)
def contextual(context: TaskContext[Any, Any], order_id: int) -> str:
    return ""


def doors() -> None:
    assert_type(of_django.using(priority=5).enqueue(7).return_value, str)
    assert_type(of_backend.enqueue(7).return_value, str)
    later = of_backend.using(dedup="x", meta={"by": "ann"}, priority=5)
    exact: LeaseTask[[int], str] = later
    assert_type(exact.enqueue(7).return_value, str)
    assert_type(contextual.enqueue(7).return_value, str)
    assert_type(Job.objects.dispatch(of_django, [7]), Dispatch)
    assert_type(Job.objects.dispatch(of_backend, [7]), Dispatch)
    either: DjangoTask[[int], str] = of_backend
    print(either)


async def coroutines() -> None:
    assert_type((await of_backend.aenqueue(7)).return_value, str)


def refused(context: TaskContext[Any, Any]) -> None:
    of_backend.enqueue("7")  # type: ignore[arg-type]
    of_backend.using(dedup="x").enqueue("7")  # type: ignore[arg-type]
    of_backend.using(dedupe="x")  # type: ignore[call-arg]
    contextual.enqueue(context, 7)  # type: ignore[call-arg, arg-type]
    task(max_attemps=5)  # type: ignore[call-overload]
