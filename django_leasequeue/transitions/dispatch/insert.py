"""New rows: one, or many with their ids on every database."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from django.db import IntegrityError
from django.db.models import F

from django_leasequeue import db
from django_leasequeue.specs import Prepared

# Rows and bytes of arguments for one INSERT. 4 MiB is a quarter of the smallest default
# max_allowed_packet in use (MariaDB's 16 MiB), and escaping at most doubles a text.
ROWS = 1000
BYTES = 4 * 1024 * 1024


def insert(rows, wanted: Prepared, seconds: float | None = None):
    """Insert one job and return it; what the database computed is read when asked for.

    `seconds`: how long it may wait for a rival of its dedup id, in autocommit mode.
    """
    job = _build(rows, wanted)
    if seconds is not None:
        job.created_at = db.BoundedNow(seconds)
    with _explained(rows):
        job.save(force_insert=True, using=rows.db)
    return _forget_expressions(job)


def insert_many(rows, wanted: list[Prepared], suppressed: list[int]) -> list:
    """Insert jobs, in the transaction at hand, and return them with their ids.

    Ids ascend in the order of `wanted`, while dedup ids are taken in an order of their own,
    the same in every batch, so that two batches of the same ones never wait for each other
    in a ring. `suppressed`: how many dispatches each job has answered from the start.
    """
    jobs = [_build(rows, one) for one in wanted]
    for job, times in zip(jobs, suppressed, strict=True):
        if times:
            job.suppressed, job.last_suppressed_at = times, db.DatabaseNow()
    keyed = [place for place, one in enumerate(wanted) if one.key is not None]
    ordered = sorted(keyed, key=lambda place: wanted[place].key or ())
    with _explained(rows):
        # On SQLite whoever writes is alone.
        if ordered == keyed or not db.has_row_locks(rows):
            _insert_in_order(rows, wanted, jobs)
        elif (ids := db.reserve_ids(rows, len(jobs))) is not None:
            for job, pk in zip(jobs, ids, strict=True):
                job.pk = pk
            unkeyed = sorted(set(range(len(jobs))).difference(keyed))
            order = [*ordered, *unkeyed]
            _insert_in_order(
                rows,
                [wanted[place] for place in order],
                [jobs[place] for place in order],
            )
        else:
            _insert_then_hand_out(
                rows, wanted, jobs, [jobs[place] for place in ordered]
            )
    return [_forget_expressions(job) for job in jobs]


def _build(rows, wanted: Prepared):
    values = dict(wanted.values)
    if wanted.dedup is not None:
        window = wanted.dedup.window
        values |= {
            "dedup_id": wanted.dedup.id,
            "dedup_ttl": window,
            "dedup_until": window and db.DatabaseNow(window),
            "dedup_hold": wanted.dedup.hold,
        }
    run_at = wanted.run_at or db.DatabaseNow(wanted.delay)
    return rows.model(**values, run_at=run_at, created_at=db.DatabaseNow())


def _insert_in_order(rows, wanted: list[Prepared], jobs: list) -> None:
    for start, end in _chunks(wanted):
        _insert_chunk(rows, jobs[start:end])


def _insert_then_hand_out(rows, wanted: list[Prepared], jobs: list, ordered: list):
    """Insert jobs without their dedup ids, then give them those in the order of `ordered`."""
    for job in ordered:
        job.dedup_id, job.released_dedup_id = None, job.dedup_id
    _insert_in_order(rows, wanted, jobs)
    for start in range(0, len(ordered), ROWS):
        some = ordered[start : start + ROWS]
        db.update_in_order(
            rows,
            [job.pk for job in some],
            ["queue", "released_dedup_id"],
            dedup_id=F("released_dedup_id"),
            released_dedup_id=None,
        )
    for job in ordered:
        job.dedup_id, job.released_dedup_id = job.released_dedup_id, None


def _chunks(wanted: list[Prepared]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for end, one in enumerate(wanted):
        if end > start and (end - start == ROWS or size + one.size > BYTES):
            yield start, end
            start, size = end, 0
        size += one.size
    yield start, len(wanted)


def _insert_chunk(rows, jobs: list) -> None:
    if db.bulk_insert_returns_ids(rows):
        rows.bulk_create(jobs)
        return
    # MySQL returns no ids, and they may be any distance apart (auto_increment_increment), so
    # the rows carry a mark by which they are read back. InnoDB numbers the rows of one
    # INSERT ... VALUES in their order, from the id that LAST_INSERT_ID() tells.
    mark = uuid4()
    for job in jobs:
        job.last_token = mark
    rows.bulk_create(jobs)
    ids = list(
        rows.filter(pk__gte=db.first_inserted_id(rows), last_token=mark)
        .order_by("pk")
        .values_list("pk", flat=True)[: len(jobs)]
    )
    for job, pk in zip(jobs, ids, strict=True):
        job.pk = pk


@contextmanager
def _explained(rows) -> Iterator[None]:
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


def _forget_expressions(job):
    # A column left out of the instance is read from the database when it is first asked
    # for, so that a dispatch that nobody asks costs no second statement.
    for name in ("run_at", "created_at", "dedup_until", "last_suppressed_at"):
        if hasattr(job.__dict__.get(name), "resolve_expression"):
            del job.__dict__[name]
    return job
