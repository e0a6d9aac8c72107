"""New rows: one, or many with their ids on every database."""

from uuid import uuid4

from django.db import transaction

from django_leasequeue import db
from django_leasequeue.specs import Prepared

# Rows and bytes of arguments for one INSERT. 4 MiB is a quarter of the smallest default
# max_allowed_packet in use (MariaDB's 16 MiB), and escaping at most doubles a text.
ROWS = 1000
BYTES = 4 * 1024 * 1024


def insert(rows, wanted: Prepared):
    """Insert one job and return it; what the database computed is read when asked for."""
    job = _build(rows, wanted)
    job.save(force_insert=True, using=rows.db)
    return _forget_expressions(job)


def insert_many(rows, wanted: list[Prepared]) -> list:
    """Insert jobs in order, in the transaction at hand, and return them with their ids."""
    jobs = [_build(rows, one) for one in wanted]
    for start, end in _chunks(wanted):
        _insert_chunk(rows, jobs[start:end])
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


def _chunks(wanted: list[Prepared]):
    start = size = 0
    for end, one in enumerate(wanted):
        if end > start and (end - start == ROWS or size + one.size > BYTES):
            yield start, end
            start, size = end, 0
        size += one.size
    yield start, len(wanted)


def _insert_chunk(rows, jobs: list) -> None:
    connection = transaction.get_connection(rows.db)
    if connection.features.can_return_rows_from_bulk_insert:
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
        rows.filter(pk__gte=db.first_inserted_id(connection), last_token=mark)
        .order_by("pk")
        .values_list("pk", flat=True)[: len(jobs)]
    )
    for job, pk in zip(jobs, ids, strict=True):
        job.pk = pk


def _forget_expressions(job):
    # A column left out of the instance is read from the database when it is first asked
    # for, so that a dispatch that nobody asks costs no second statement.
    for name in ("run_at", "created_at", "dedup_until"):
        if hasattr(job.__dict__.get(name), "resolve_expression"):
            del job.__dict__[name]
    return job
