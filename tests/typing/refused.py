"""What a type checker refuses: each line would be accepted if its signature got lost."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from django_leasequeue import JobSpec, Task, task
from django_leasequeue.models import Job, Queue
from django_leasequeue.worker.context import JobContext


@task
def plain(order_id: int, text: str = "") -> float:
    return 1.0


@task(takes_context=True)
def contextual(context: JobContext, order_id: int) -> str:
    return ""


@task(max_attempts=2)
async def coroutine(order_id: int) -> str:
    return ""


def arguments(context: JobContext) -> None:
    plain("7")  # type: ignore[arg-type]
    plain()  # type: ignore[call-arg]
    plain.dispatch("7")  # type: ignore[arg-type]
    plain.dispatch(7, txt="")  # type: ignore[call-arg]
    plain.spec("7")  # type: ignore[arg-type]
    plain.using(delay=1).dispatch("7")  # type: ignore[arg-type]
    plain.using(delay=1).using(queue="x").spec()  # type: ignore[call-arg]
    coroutine.dispatch("7")  # type: ignore[arg-type]
    contextual(7)  # type: ignore[call-arg, arg-type]
    contextual.dispatch(context, 7)  # type: ignore[call-arg, arg-type]
    contextual.dispatch("7")  # type: ignore[arg-type]
    contextual.using(delay=1).dispatch("7")  # type: ignore[arg-type]


async def coroutines() -> None:
    await plain.adispatch("7")  # type: ignore[arg-type]
    await plain.using(delay=1).adispatch("7")  # type: ignore[arg-type]
    print((await coroutine(7)).missing)  # type: ignore[attr-defined]


def options() -> None:
    plain.using(dely=1)  # type: ignore[call-arg]
    plain.using(delay="1")  # type: ignore[arg-type]
    task(max_attemps=5)  # type: ignore[call-overload]
    task(timeout="1")  # type: ignore[call-overload]
    other: Task[[str], float] = plain  # type: ignore[assignment]
    print(other)


def verbs() -> None:
    Job.objects.dispatch(plain, 7)  # type: ignore[arg-type]
    Job.objects.dispatch(len, [7])  # type: ignore[arg-type]
    Job.objects.dispatch(plain, [7], dely=1)  # type: ignore[call-arg]
    Job.objects.dispatch_many([plain])  # type: ignore[list-item]
    JobSpec(plain, args=7)  # type: ignore[arg-type]
    print(plain.dispatch(7).job.missing)  # type: ignore[attr-defined]
    Queue.objects.pause(7)  # type: ignore[arg-type]
