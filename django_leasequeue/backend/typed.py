"""`task`: Django's own decorator, with the options of this backend for type checkers.

    from django_leasequeue.backend.typed import task

At run time it is `django.tasks.task`. The stubs of that one know neither these options nor
what the tasks of a backend add to `using()`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Concatenate, Literal, ParamSpec, TypeVar, Unpack, overload

    from django.tasks import Task

    from django_leasequeue.dedup import Dedup
    from django_leasequeue.keywords import DjangoKeywords
    from django_leasequeue.task_options import TaskOptions

    P = ParamSpec("P")
    R = TypeVar("R")

    class LeaseTask(Task[P, R]):
        """A task of a LeaseQueueBackend: see backend.task."""

        @property
        def options(self) -> TaskOptions:
            """What makes it a task for `Job.objects.dispatch` as well."""
            ...

        def using(
            self,
            *,
            priority: int | None = None,
            queue_name: str | None = None,
            run_after: datetime | None = None,
            backend: str | None = None,
            dedup: str | Dedup | Callable[..., str | Dedup | None] | None = None,
            group: str | None = None,
            after_group: str | None = None,
            max_attempts: int | None = None,
            meta: Mapping[str, Any] | None = None,
        ) -> "LeaseTask[P, R]":
            """See django.tasks.Task.using(). Options that are None stay as they are."""
            ...

    @overload
    def task(function: Callable[P, R], /) -> LeaseTask[P, R]: ...
    @overload
    def task(
        *, takes_context: Literal[True], **options: Unpack[DjangoKeywords]
    ) -> Callable[[Callable[Concatenate[Any, P], R]], LeaseTask[P, R]]: ...
    @overload
    def task(
        *, takes_context: Literal[False] = False, **options: Unpack[DjangoKeywords]
    ) -> Callable[[Callable[P, R]], LeaseTask[P, R]]: ...
    def task(function: Any = None, /, **options: Any) -> Any:
        """See django.tasks.task."""
else:
    from django.tasks import task

    from django_leasequeue.backend.task import LeaseTask

__all__ = ["LeaseTask", "task"]
