"""A task keeps its signature at every door."""

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from django_leasequeue import Concurrency, Dedup, JobSpec, Task, cron, every, task
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.hooks import EndedRun
from django_leasequeue.managers import Dispatch
from django_leasequeue.models import Job, Queue, Schedule, Worker
from django_leasequeue.states import Status
from django_leasequeue.tasks import ContextTask
from django_leasequeue.worker.context import JobContext


def tell(ended: EndedRun) -> None: ...


@task
def bare(order_id: int, text: str = "") -> float:
    return 1.0


@task(
    queue="mail",
    priority=-10,
    max_attempts=4,
    timeout=timedelta(minutes=1),
    on_timeout="fail",
    retry_on=(OSError,),
    discard_on=[ValueError],
    dedup=lambda order_id: f"order:{order_id}",
    concurrency=Concurrency("order:{order_id}", limit=3),
    schedule=[cron("0 4 * * *", args=[1]), every(hours=2, args=[2], name="often")],
    on_failure=tell,
    aliases="old.name",
)
def optioned(order_id: int) -> str:
    return ""


@task(max_attempts=2)
async def coroutine(order_id: int) -> str:
    return ""


@task(takes_context=True, timeout=30)
def contextual(context: JobContext, order_id: int, *, fast: bool = False) -> str:
    assert_type(context.step("charge", len, "text"), int)
    context.progress(1, 2, "half")
    return ""


@task(takes_context=True)
async def contextual_coroutine(context: JobContext, order_id: int) -> int:
    assert_type(await context.astep("charge", abs, 1.5), float)
    return 1


@task(takes_context=True)
def named(context: JobContext, order_id: int) -> str:
    return ""


def tasks() -> None:
    assert_type(bare(7, text="x"), float)
    assert_type(optioned(7), str)
    called: Coroutine[Any, Any, str] = coroutine(7)
    annotated: Task[[int], str] = optioned
    assert_type(annotated(1), str)
    assert_type(optioned.name, str)
    print(called)


def contexts(context: JobContext) -> None:
    assert_type(contextual(context, 7, fast=True), str)
    called: Coroutine[Any, Any, int] = contextual_coroutine(context, 7)
    assert_type(contextual.dispatch(7, fast=True), Dispatch)
    assert_type(contextual.using(delay=5).dispatch(7), Dispatch)
    assert_type(contextual.spec(7), JobSpec)
    any_task: Task[..., Any] = contextual
    exact: ContextTask[JobContext, [int], str] = named
    print(any_task, exact, called)


def dispatches() -> None:
    assert_type(bare.dispatch(7, "x"), Dispatch)
    assert_type(bare.dispatch(order_id=7), Dispatch)
    assert_type(coroutine.dispatch(7), Dispatch)
    later = bare.using(delay=60, dedup=Dedup("x", ttl=5), meta={"by": 1}, database="a")
    assert_type(later.dispatch(7), Dispatch)
    assert_type(later.using(priority=3, group="g").dispatch(7, text=""), Dispatch)
    assert_type(bare.spec(7), JobSpec)
    assert_type(bare.using(queue="slow").spec(7), JobSpec)
    job, outcome = bare.dispatch(7)
    assert_type(job, Job)
    assert_type(outcome, DispatchOutcome)
    assert_type(bare.dispatch(7).added, bool)


async def coroutines() -> None:
    assert_type(await coroutine(7), str)
    assert_type(await bare.adispatch(7), Dispatch)
    assert_type(await bare.using(delay=1).adispatch(7), Dispatch)
    assert_type(await Job.objects.adispatch(bare, [7], delay=5), Dispatch)
    assert_type(await Job.objects.adispatch_many([bare.spec(7)]), list[Dispatch])
    job, _ = await bare.adispatch(7)
    assert_type(await job.acancel(), bool)


def verbs() -> None:
    moment = datetime(2050, 1, 1, tzinfo=UTC)
    assert_type(Job.objects.dispatch(bare, [7], {"text": ""}, run_at=moment), Dispatch)
    assert_type(Job.objects.using("other").dispatch("shop.tasks.bare", (7,)), Dispatch)
    specs = [bare.spec(7), JobSpec("shop.tasks.bare", args=[7], dedup="x")]
    assert_type(Job.objects.dispatch_many(specs), list[Dispatch])
    assert_type(Job.objects.filter(group="g").cancel().cancelled, set[int])
    assert_type(Job.objects.filter(status="failed").retry().retried, set[int])
    assert_type(Job.objects.group("g").counts(), dict[Status, int])
    assert_type(Job.objects.of_task(bare).pending().wait(5), dict[Status, int])
    job = Job.objects.get(pk=1)
    assert_type(job, Job)
    assert_type(job.cancel(), bool)
    assert_type([cause.sentence for cause in job.why()], list[str])
    assert_type(Queue.objects.pause("mail", by="ann"), bool)
    assert_type(Schedule.objects.filter(task="x").pause(by="ann"), int)
    assert_type(Schedule.objects.all().run_now(), list[Dispatch])
    assert_type(Worker.objects.live().count(), int)
