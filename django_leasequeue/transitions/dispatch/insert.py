"""New rows: one, or many with their ids on every database."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from uuid import uuid4

from django.db import IntegrityError
from django.db.models import F, QuerySet

from django_leasequeue import db
from django_leasequeue.specs import Prepared
from django_leasequeue.states import AWAITS_GROUP

# Rows and bytes of arguments for one INSERT. 4 MiB is a quarter of the smallest default
# max_allowed_packet in use (MariaDB's 16 MiB), and escaping at most doubles a text.
ROWS = 1000
BYTES = 4 * 1024 * 1024

# Columns that are given as JSON text.
TEXTS = ("args", "kwargs")

NOW = db.DatabaseNow()
# Equal ones are one, so that it is seen at once that many jobs are due at one time.
_now = lru_cache(db.DatabaseNow)


def insert(rows: QuerySet[Any], wanted: Prepared, seconds: float | None = None) -> Any:
    """Insert one job and return it; what the database computed is read when asked for.

    `seconds`: how long it may wait for a rival of its dedup id, in autocommit mode.
    """
    columns = _columns(wanted)
    if seconds is not None:
        columns["created_at"] = db.BoundedNow(seconds)
    with _explained(rows):
        columns["id"] = db.insert_row(rows, columns, TEXTS)
    return _job(rows, wanted, columns)


def insert_many(
    rows: QuerySet[Any], wanted: list[Prepared], suppressed: list[int]
) -> list[Any]:
    """Insert jobs, in the transaction at hand, and return them with their ids.

    Ids ascend in the order of `wanted`, while dedup ids are taken in an order of their own,
    the same in every batch, so that two batches of the same ones never wait for each other
    in a ring. `suppressed`: how many dispatches each job has answered from the start.
    """
    keyed = [place for place, one in enumerate(wanted) if one.key is not None]
    ordered = sorted(keyed, key=lambda place: wanted[place].key or ())
    with _explained(rows):
        # On SQLite whoever writes is alone.
        if ordered == keyed or not db.has_row_locks(rows):
            return _insert_in_chunks(rows, wanted, suppressed)
        new = list(map(_columns, wanted, suppressed))
        if (ids := db.reserve_ids(rows, len(new))) is not None:
            for columns, pk in zip(new, ids, strict=True):
                columns["id"] = pk
            unkeyed = sorted(set(range(len(new))).difference(keyed))
            order = [*ordered, *unkeyed]
            _insert_in_order(
                rows,
                [wanted[place] for place in order],
                [new[place] for place in order],
            )
        else:
            _insert_then_hand_out(rows, wanted, new, [new[place] for place in ordered])
    return [_job(rows, *pair) for pair in zip(wanted, new, strict=True)]


def _insert_in_chunks(
    rows: QuerySet[Any], wanted: list[Prepared], suppressed: list[int]
) -> list[Any]:
    jobs = []
    for start, end in _chunks(wanted):
        some = wanted[start:end]
        new = list(map(_columns, some, suppressed[start:end]))
        _insert_chunk(rows, new)
        jobs += [_job(rows, *pair) for pair in zip(some, new, strict=True)]
    return jobs


def _columns(wanted: Prepared, suppressed: int = 0) -> dict[str, Any]:
    """Return the row of a job by column, without what is at its default."""
    values, texts, dedup = wanted.values, wanted.texts, wanted.dedup
    columns = {
        "task": values["task"],
        "queue": values["queue"],
        "args": texts["args"],
        "priority": values["priority"],
        "max_attempts": values["max_attempts"],
        "run_at": wanted.run_at or (_now(wanted.delay) if wanted.delay else NOW),
        "created_at": NOW,
    }
    if values["kwargs"]:
        columns["kwargs"] = texts["kwargs"]
    for name in ("meta", "group", "concurrency_key", "concurrency_limit"):
        if values[name]:
            columns[name] = values[name]
    if dedup is not None:
        columns["dedup_id"], columns["dedup_hold"] = dedup.id, dedup.hold
        if dedup.ttl is not None:
            columns["dedup_ttl"] = dedup.window
            columns["dedup_until"] = _now(dedup.window)
    if wanted.made_by is not None:
        columns |= wanted.made_by
    if wanted.after_group is not None:
        columns["blocked"] = AWAITS_GROUP
    if wanted.dispatched_by is not None:
        columns["dispatched_by"] = wanted.dispatched_by
    if suppressed:
        columns |= {"suppressed": suppressed, "last_suppressed_at": NOW}
    return columns


def _job(rows: QuerySet[Any], wanted: Prepared, columns: dict[str, Any]) -> Any:
    """Return the job of a row that was inserted.

    What the database computed is left out: read when it is first asked for, so that a
    dispatch that nobody asks costs no second statement.
    """
    return db.inserted(rows, columns | wanted.values)


def _insert_in_order(
    rows: QuerySet[Any], wanted: list[Prepared], new: list[dict[str, Any]]
) -> None:
    for start, end in _chunks(wanted):
        _insert_chunk(rows, new[start:end])


def _insert_then_hand_out(
    rows: QuerySet[Any],
    wanted: list[Prepared],
    new: list[dict[str, Any]],
    ordered: list[dict[str, Any]],
) -> None:
    """Insert jobs without their dedup ids, then give them those in the order of `ordered`."""
    for columns in ordered:
        columns |= {"dedup_id": None, "released_dedup_id": columns["dedup_id"]}
    _insert_in_order(rows, wanted, new)
    for start in range(0, len(ordered), ROWS):
        some = ordered[start : start + ROWS]
        db.update_in_order(
            rows,
            [columns["id"] for columns in some],
            ["queue", "released_dedup_id"],
            dedup_id=F("released_dedup_id"),
            released_dedup_id=None,
        )
    for columns in ordered:
        columns |= {"dedup_id": columns.pop("released_dedup_id")}


def _chunks(wanted: list[Prepared]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for end, one in enumerate(wanted):
        if end > start and (end - start == ROWS or size + one.size > BYTES):
            yield start, end
            start, size = end, 0
        size += one.size
    yield start, len(wanted)


def _insert_chunk(rows: QuerySet[Any], new: list[dict[str, Any]]) -> None:
    mark = None
    if not db.bulk_insert_returns_ids(rows):
        # They may be any distance apart (auto_increment_increment), so the rows carry a mark
        # by which they are read back. InnoDB numbers the rows of one INSERT ... VALUES in
        # their order, from the id that LAST_INSERT_ID() tells.
        mark = uuid4()
        for columns in new:
            columns["last_token"] = mark
    ids = db.insert_rows(rows, new, TEXTS)
    if ids is None:
        ids = list(
            rows.filter(pk__gte=db.first_inserted_id(rows), last_token=mark)
            .order_by("pk")
            .values_list("pk", flat=True)[: len(new)]
        )
    for columns, pk in zip(new, ids, strict=True):
        columns["id"] = pk


@contextmanager
def _explained(rows: QuerySet[Any]) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        if db.is_sequence_behind(error, rows.model):
            error.add_note(
                "The sequence that gives out job ids is behind the rows of the table, as "
                "after a restore. 'manage.py sqlsequencereset leasequeue' prints the SQL "
                "that puts it right."
            )
        raise
