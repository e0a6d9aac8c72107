"""The value of a key: the queue's own, else the project's, else the default."""

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.dispatch import receiver

from django_leasequeue.conf.keys import SETTINGS
from django_leasequeue.conf.kinds import Problem, WrongSetting


def given() -> dict[str, Any]:
    """Return LEASEQUEUE as the project wrote it, {} without one."""
    return as_dict("LEASEQUEUE", getattr(settings, "LEASEQUEUE", {}))


def given_queues() -> dict[Any, Any]:
    """Return LEASEQUEUE["QUEUES"] as the project wrote it, {} without it."""
    return as_dict("LEASEQUEUE['QUEUES']", given().get("QUEUES", {}))


@lru_cache
def of_project(key: str) -> Any:
    """Return the value of a key outside QUEUES; raise WrongSetting if unusable."""
    setting, values = SETTINGS[key], given()
    if key not in values:
        return setting.default
    return setting.read(f"LEASEQUEUE[{key!r}]", values[key])


@lru_cache(
    maxsize=1024
)  # read several times for each job; a project may make up queues
def of_queue(key: str, queue: str | None) -> Any:
    """Return the value of a key for a queue; raise WrongSetting if unusable.

    `queue` None stands for a queue that QUEUES does not name.
    """
    where = f"LEASEQUEUE['QUEUES'][{queue!r}]"
    own = as_dict(where, given_queues().get(queue, {}))
    if key not in own:
        return of_project(key)
    return SETTINGS[key].read(f"{where}[{key!r}]", own[key])


@receiver(setting_changed)
def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "LEASEQUEUE":
        of_project.cache_clear()
        of_queue.cache_clear()


def pair_problem(queue: str | None) -> Problem | None:
    """Return what is wrong between a queue's LEASE and its SAFETY_BUFFER."""
    lease, buffer = of_queue("LEASE", queue), of_queue("SAFETY_BUFFER", queue)
    if buffer <= lease / 3:
        return None
    whose = "" if queue is None else f" of queue {queue!r}"
    return Problem(
        "E005",
        f"SAFETY_BUFFER{whose} is {buffer:g} seconds, above a third of LEASE "
        f"({lease:g}), so a single missed renewal would lose the job.",
        f"Set SAFETY_BUFFER to at most {lease / 3:g}, "
        f"or LEASE to at least {buffer * 3:g}.",
    )


def as_dict(where: str, value: object) -> dict[str, Any]:
    """Return the value; raise WrongSetting if it is no dict."""
    if isinstance(value, dict):
        return value
    kind = type(value).__name__
    raise WrongSetting(Problem("E001", f"{where} must be a dict, not {kind}."))
