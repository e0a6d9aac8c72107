"""Whether the queue is as it should be: what `checkjobs` and the health view ask."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_leasequeue import db, transitions
from django_leasequeue.models import Schedule
from django_leasequeue.monitoring.figures import Figures, figures
from django_leasequeue.times import span

# Overdue schedules that are told, the latest.
MOST_LATE = 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What is still healthy; None asks not.

    `max_age`: seconds for which a ready job may have waited. `max_late`: seconds for which
    the tick of a schedule may be overdue, not asked with `queues`. `max_failures`: jobs that may
    have failed for good in the last `window` seconds. `max_silent`: workers that may have
    vanished without a word in the last day. `queues`: of these alone; () is all. `host`: of
    this host a worker must be alive. `need_workers`: whether each queue with ready jobs
    must have a live worker that takes it.
    """

    max_age: float | None = 300.0
    max_late: float | None = 300.0
    max_failures: int | None = None
    window: float = 3600.0
    max_silent: int | None = None
    queues: tuple[str, ...] = ()
    host: str | None = None
    need_workers: bool = True


@dataclass(frozen=True, slots=True)
class Problem:
    """What is not.

    `kind`: "age", "schedule", "failures", "silent", "host", "workers" or "read_only".
    """

    kind: str
    sentence: str
    data: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Health:
    """The answer, with the figures that it is made of."""

    figures: Figures
    problems: list[Problem] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "status": "ok" if self.is_well else "failing",
            "problems": [problem.as_dict() for problem in self.problems],
        }


def health(using: str, limits: Limits) -> Health:
    """Ask the database and judge by the limits."""
    return judged(figures(using, limits.window), limits)


def judged(found: Figures, limits: Limits) -> Health:
    """Judge figures by the limits; one statement more asks for late schedules."""
    checks = (_read_only, _ages, _unattended, _late, _failing, _silent, _host)
    return Health(found, [one for check in checks for one in check(found, limits)])


def _read_only(found: Figures, limits: Limits) -> Iterator[Problem]:
    if not found.takes_writes:
        yield Problem(
            "read_only",
            _("The database %(database)r takes no writes, so no job can be claimed.")
            % {"database": found.database},
            {"database": found.database},
        )


def _chosen(found: Figures, limits: Limits) -> Any:
    return [
        queue
        for queue in found.queues
        if not limits.queues or queue.name in limits.queues
    ]


def _ages(found: Figures, limits: Limits) -> Iterator[Problem]:
    for queue in _chosen(found, limits):
        age = queue.oldest_ready
        if limits.max_age is not None and age is not None and age > limits.max_age:
            yield Problem(
                "age",
                _(
                    "Queue %(queue)r: the oldest ready job has waited for %(age)s, "
                    "more than %(limit)s."
                )
                % {
                    "queue": queue.name,
                    "age": span(age),
                    "limit": span(limits.max_age),
                },
                {"queue": queue.name, "age": age, "limit": limits.max_age},
            )


def _unattended(found: Figures, limits: Limits) -> Iterator[Problem]:
    for queue in _chosen(found, limits):
        if limits.need_workers and queue.ready and not queue.workers:
            yield Problem(
                "workers",
                _("Queue %(queue)r has ready jobs, and no live worker takes it.")
                % {"queue": queue.name},
                {"queue": queue.name},
            )


def _late(found: Figures, limits: Limits) -> Iterator[Problem]:
    """Schedules whose tick nobody has dealt with. One statement, by the index of the ticks."""
    if limits.max_late is None or limits.queues:
        return
    rows = Schedule.objects.using(found.database)
    overdue = rows.filter(next_tick__lt=db.DatabaseNow(-limits.max_late))
    columns = ("name", "problem", "next_tick", "read_at")
    late = transitions.schedule.read(overdue.order_by("next_tick"))
    for name, problem, tick, now in late.values_list(*columns)[:MOST_LATE]:
        seconds = (now - tick).total_seconds()
        words = {
            "schedule": name,
            "span": span(seconds),
            "limit": span(limits.max_late),
        }
        sentence = _(
            "Schedule %(schedule)r: its tick is overdue for %(span)s, more than %(limit)s"
        )
        why = f": {problem}" if problem else "."
        yield Problem(
            "schedule",
            sentence % words + why,
            {"schedule": name, "late": seconds, "limit": limits.max_late},
        )


def _failing(found: Figures, limits: Limits) -> Iterator[Problem]:
    count = sum(
        one.count
        for one in found.failures
        if not limits.queues or one.queue in limits.queues
    )
    if limits.max_failures is not None and count > limits.max_failures:
        yield Problem(
            "failures",
            ngettext(
                "%(count)d job failed within %(span)s, more than %(limit)d.",
                "%(count)d jobs failed within %(span)s, more than %(limit)d.",
                count,
            )
            % {
                "count": count,
                "span": span(limits.window),
                "limit": limits.max_failures,
            },
            {"count": count, "limit": limits.max_failures, "window": limits.window},
        )


def _silent(found: Figures, limits: Limits) -> Iterator[Problem]:
    silent = [worker.name for worker in found.workers if not worker.is_live]
    if limits.max_silent is not None and len(silent) > limits.max_silent:
        yield Problem(
            "silent",
            ngettext(
                "%(count)d worker vanished without a word, more than %(limit)d: %(names)s.",
                "%(count)d workers vanished without a word, more than %(limit)d: %(names)s.",
                len(silent),
            )
            % {
                "count": len(silent),
                "limit": limits.max_silent,
                "names": ", ".join(silent[:5]),
            },
            {"workers": silent[:50], "limit": limits.max_silent},
        )


def _host(found: Figures, limits: Limits) -> Iterator[Problem]:
    if limits.host is None:
        return
    if not any(one.host == limits.host and one.is_live for one in found.workers):
        yield Problem(
            "host",
            _("No worker of host %(host)r was seen in the last minute.")
            % {"host": limits.host},
            {"host": limits.host},
        )
