"""The backend itself: enqueue is a dispatch, a result is a job."""

import re
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.core.checks import CheckMessage
from django.db import router
from django.tasks import Task, task_backends
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.exceptions import (
    InvalidTask,
    InvalidTaskBackend,
    TaskResultDoesNotExist,
)
from django.tasks.signals import task_enqueued

from django_leasequeue import registry
from django_leasequeue.backend import problems, results
from django_leasequeue.backend.door import DjangoDoor, as_far, plain
from django_leasequeue.backend.task import FOR_ALL, LeaseTask, difference, options_of
from django_leasequeue.exceptions import UndiscoverableTask, UnknownTask
from django_leasequeue.payloads import dump
from django_leasequeue.task_options import TaskOptions

if TYPE_CHECKING:
    from django_leasequeue.managers import JobQuerySet

_ID = re.compile("[1-9][0-9]{0,18}", re.ASCII)
_LARGEST_ID = 2**63 - 1


class LeaseQueueBackend(BaseTaskBackend):
    """Stores what is enqueued as jobs. OPTIONS: see docs/backend.md."""

    task_class = LeaseTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        given: Any = self.options if type(self.options) is dict else {}
        #: The alias of the jobs' database; None: as routed.
        self.database: str | None = given.get("database")
        #: Options of its tasks that these don't give themselves.
        self.defaults = {name: given[name] for name in FOR_ALL & given.keys()}
        self.params = params

    def validate_task(self, task: "Task[..., Any]") -> None:
        """See BaseTaskBackend. A task that is valid is known to the workers from then on.

        Raises InvalidTask also for options that can't be, and for those of runs that differ
        from what the function has.
        """
        super().validate_task(task)
        self.register(task)

    def register(self, task: "Task[..., Any]") -> None:
        """Make the task's function known by its module path, unless it is already."""
        known = _known(task)
        if known is not None:
            of_django = getattr(known.door, "task", task)
            if name := difference(task, of_django):
                raise InvalidTask(
                    f"{task.module_path} is a task already, with another {name}. A job's row "
                    "names its function, so there is one such option for each."
                )
            return
        try:
            door = DjangoDoor(type(self), task)
            registry.register(options_of(task, self.defaults, door))
        except (TypeError, ValueError) as error:
            raise InvalidTask(str(error)) from error

    def enqueue(
        self, task: "Task[..., Any]", args: Iterable[Any], kwargs: dict[str, Any]
    ) -> results.JobResult:
        """Store a job, in the caller's transaction, and return its result.

        If another job has the task's dedup id, that one's. Raises InvalidTask, and what
        `Job.objects.dispatch` raises for arguments and dedup ids.
        """
        self.validate_task(task)
        values, kwargs = _plain_arguments(task, list(args), kwargs)
        wanted: dict[str, Any] = {
            name: getattr(task, name, None) for name in ("group", "after_group", "meta")
        }
        attempts = getattr(task, "max_attempts", None)
        if attempts is None:
            attempts = self.defaults.get("max_attempts")
        dedup: Any = getattr(task, "dedup", None)
        if callable(dedup):
            chosen: Any = dedup(*values, **kwargs)
            dedup = chosen
        try:
            job, outcome = self._jobs().dispatch(
                task.module_path,
                values,
                kwargs,
                queue=task.queue_name,
                priority=task.priority,
                run_at=task.run_after,
                max_attempts=attempts,
                dedup=dedup,
                **wanted,
            )
        except UndiscoverableTask as error:
            raise InvalidTask(str(error)) from error
        if outcome != "added":
            return results.of_row(job, self.alias)
        result = results.of_new(job, task, self.alias)
        task_enqueued.send(type(self), task_result=result)
        return result

    async def aenqueue(
        self, task: "Task[..., Any]", args: Iterable[Any], kwargs: dict[str, Any]
    ) -> results.JobResult:
        """See enqueue()."""
        return await sync_to_async(self._enqueue_and_read)(task, args, kwargs)

    def _enqueue_and_read(self, *given: Any) -> results.JobResult:
        result = self.enqueue(*given)
        # No coroutine could ask for it later.
        result.enqueued_at  # noqa: B018
        return result

    def get_result(self, result_id: str) -> results.JobResult:
        """Return the result of the job of this id, by whatever door it came.

        Raises TaskResultDoesNotExist for what is no job's id, and for a job whose task is not
        known in this process.
        """
        jobs = self._jobs()
        key = _key(result_id)
        if key is None:
            raise TaskResultDoesNotExist(result_id)
        try:
            return results.of_row(jobs.get(pk=key), self.alias)
        except jobs.model.DoesNotExist:
            raise TaskResultDoesNotExist(result_id) from None
        except UnknownTask as error:
            raise TaskResultDoesNotExist(f"{result_id}: {error}") from error

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """What is wrong with this backend in TASKS."""
        return list(problems.of_backend(self))

    def _jobs(self) -> "JobQuerySet":
        """Return the jobs where they are written: a replica may be late."""
        # A task may be made, and so this module imported, before the models can be.
        from django_leasequeue.models import Job

        return Job.objects.using(self.database or router.db_for_write(Job))


def adopt(module: ModuleType) -> None:
    """Make the tasks of a module known that are another backend's, for using(backend=...).

    Their jobs come from other processes, so a worker would not know them else.
    """
    # By its type: a lazy object would be made to tell its class.
    found = [one for one in vars(module).values() if issubclass(type(one), Task)]
    unknown = [task for task in found if _known(task) is None]
    if not unknown:
        return
    backend = _first_of_ours()
    if backend is None:
        return
    for task in unknown:
        backend.register(task)


def _known(task: "Task[..., Any]") -> TaskOptions | None:
    try:
        known = registry.get(task.module_path)
    except UnknownTask:
        return None
    # Not that of a module before its reload.
    return known if known.func is task.func else None


def _key(result_id: Any) -> int | None:
    """Return the primary key that the id of a result stands for, if it can be one."""
    if not isinstance(result_id, str) or not _ID.fullmatch(result_id):
        return None
    key = int(result_id)
    return key if key <= _LARGEST_ID else None


def _first_of_ours() -> LeaseQueueBackend | None:
    for alias in task_backends:
        try:
            backend = task_backends[alias]
        except InvalidTaskBackend:
            continue  # told by whoever uses it
        if isinstance(backend, LeaseQueueBackend):
            return backend
    return None


def _plain_arguments(
    task: "Task[..., Any]", args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return what is stored. Raises as Django does, of what, where and with what to do."""
    try:
        return plain(args), plain(kwargs)
    except (TypeError, ValueError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        names = registry.get(task.module_path).positional
        for what, values in (("args", args), ("kwargs", kwargs)):
            try:
                dump(as_far(values), what=what, max_bytes=sys.maxsize, names=names)
            except (TypeError, ValueError) as told:
                raise kind(f"{task.module_path}: {told}") from None
        raise
