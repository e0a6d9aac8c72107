"""What the verbs that change jobs have in common: which, whether really, what came of it."""

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from django.db.models import BigIntegerField

from django_leasequeue.management.console.choosing import (
    add_filters,
    add_ids,
    chosen,
    is_filtered,
    warn_of_misspelt,
    wrong,
)
from django_leasequeue.management.console.common import Console, add_common
from django_leasequeue.worker.log import counted

# Jobs that one call changes; it can be called again.
MOST = 10_000
# Jobs in one transaction, and ids that are named in one sentence.
_ROWS, _NAMED = 500, 20


WORDS = {
    "cancelled": "Cancelled",
    "requested": "Asked to stop, since they run",
    "retried": "To run again",
    "made_due": "Due now",
    "released": "Taken from their workers, to run again",
    "removed": "Deleted",
    "ended": "they had ended",
    "conflicts": "another job has their dedup id by now",
    "unfinished": "they wait or run",
    "unchanged": "they were due before",
    "not_waiting": "they run or have ended",
    "not_running": "they did not run",
    "running": "they run",
    "in_window": "their dedup windows last",
    "kept": "somebody has them locked, or rows of others keep them; try again",
    "locked": "somebody has them locked, or their dedup id; try again",
    "gone": "there are no such jobs, or none that the filters leave",
}


class Done(NamedTuple):
    """What came of it: ids by a key of WORDS; what was done, and what was not."""

    done: dict[str, set[int]]
    undone: dict[str, set[int]]


def add_act_arguments(parser: ArgumentParser) -> None:
    """Add the options of a verb that changes jobs."""
    add_ids(parser)
    add_filters(parser, limit=MOST)
    parser.add_argument("--yes", action="store_true", help="Don't ask.")
    add_common(parser)


def act(
    console: Console,
    verb: str,
    statuses: list[str],
    do: Callable[[list[int]], Done],
) -> str | None:
    """Choose the jobs, ask, do it, and tell. `statuses`: of what a filter alone is to choose."""
    found = _found(console, statuses)
    asked_for = set(console.given["ids"])
    missing = asked_for - found.keys() if asked_for else set()
    if found and not _is_confirmed(console, verb, found):
        return "Nothing was changed."
    done: dict[str, set[int]] = {}
    undone: dict[str, set[int]] = {}
    ids = sorted(found)
    for start in range(0, len(ids), _ROWS):
        part = do(ids[start : start + _ROWS])
        for whole, of_part in ((done, part.done), (undone, part.undone)):
            for word, some in of_part.items():
                whole.setdefault(word, set()).update(some)
    undone.setdefault("gone", set()).update(missing)
    return _tell(console, found, done, undone)


def _found(console: Console, statuses: list[str]) -> dict[int, str]:
    """Return the status of each job that is meant, by id."""
    given = console.given
    if not given["ids"] and not is_filtered(console):
        raise wrong(
            "Name jobs by their ids, or choose them by --queue, --task, --status, --group or "
            "--older-than."
        )
    jobs = chosen(console, None if given["ids"] else statuses)
    if given["ids"]:
        # No job has another, which some drivers can't even ask for.
        ids = [pk for pk in given["ids"] if 0 < pk <= BigIntegerField.MAX_BIGINT]
        jobs = jobs.filter(pk__in=ids)
    found = list(jobs.values_list("pk", "status")[: given["limit"] + 1])
    if len(found) > given["limit"]:
        found.pop()
        console.warnings.text(
            f"More match; these are the newest {given['limit']} (--limit). Call it again for "
            "the rest."
        )
    return dict(found)


def _is_confirmed(console: Console, verb: str, found: dict[int, str]) -> bool:
    if console.given["yes"]:
        return True
    if console.wants_json or not sys.stdin.isatty():
        raise wrong("There is nobody to ask: add --yes.")
    numbers = Counter(found.values())
    parts = ", ".join(
        f"{number} {status}" for status, number in sorted(numbers.items())
    )
    question = f"{verb} {counted(len(found), 'job')} ({parts})? [y/N] "
    try:
        return input(question).strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        console.screen.gap()
        return False


def _tell(console: Any, found: Any, done: Any, undone: Any) -> str | None:
    if console.wants_json:
        told = {**done, **undone}
        console.json({word: sorted(ids) for word, ids in told.items()})
    elif not console.is_quiet:
        for word, ids in done.items():
            if ids:
                console.screen.text(f"{WORDS[word]}: {counted(len(ids), 'job')}.")
        for word, ids in undone.items():
            if ids:
                console.screen.text(f"Not changed, {WORDS[word]}: {_named(ids)}.")
        if not found and not any(undone.values()):
            console.screen.text("No job matches; nothing was changed.")
            warn_of_misspelt(console)
    left = sum(map(len, undone.values()))
    return f"{counted(left, 'job was', 'jobs were')} not changed." if left else None


def _named(ids: Iterable[int]) -> str:
    some = sorted(ids)
    names = ", ".join(map(str, some[:_NAMED]))
    return f"{names} and {len(some) - _NAMED} more" if len(some) > _NAMED else names
