"""The effective value of a key: the queue's own, else the project's, else the default."""

from typing import Any

from django.conf import settings

from django_leasequeue.conf.keys import SETTINGS
from django_leasequeue.conf.kinds import Problem, WrongSetting


def given() -> dict:
    """Return LEASEQUEUE as the project wrote it, {} without one."""
    return as_dict("LEASEQUEUE", getattr(settings, "LEASEQUEUE", {}))


def of_project(key: str) -> Any:
    """Return the value of a key outside QUEUES; raise WrongSetting if it can't be used."""
    setting, values = SETTINGS[key], given()
    if key not in values:
        return setting.default
    return setting.read(f"LEASEQUEUE[{key!r}]", values[key])


def of_queue(key: str, queue: str | None) -> Any:
    """Return the value of a key for a queue; None stands for one without its own values.

    Raise WrongSetting if it can't be used.
    """
    queues = as_dict("LEASEQUEUE['QUEUES']", given().get("QUEUES", {}))
    where = f"LEASEQUEUE['QUEUES'][{queue!r}]"
    own = as_dict(where, queues.get(queue, {}))
    if key not in own:
        return of_project(key)
    return SETTINGS[key].read(f"{where}[{key!r}]", own[key])


def pair_problem(queue: str | None) -> Problem | None:
    """Return what is wrong between a queue's LEASE and its SAFETY_BUFFER."""
    lease, buffer = of_queue("LEASE", queue), of_queue("SAFETY_BUFFER", queue)
    if buffer <= lease / 3:
        return None
    whose = "" if queue is None else f" of queue {queue!r}"
    return Problem(
        "E005",
        f"SAFETY_BUFFER{whose} is {buffer:g} seconds, above a third of LEASE ({lease:g}), "
        "so a single missed renewal would lose the job.",
        f"Set SAFETY_BUFFER to at most {lease / 3:g}, or LEASE to at least {buffer * 3:g}.",
    )


def as_dict(where: str, value: object) -> dict:
    """Return the value; raise WrongSetting if it is no dict."""
    if isinstance(value, dict):
        return value
    kind = type(value).__name__
    raise WrongSetting(Problem("E001", f"{where} must be a dict, not {kind}."))
