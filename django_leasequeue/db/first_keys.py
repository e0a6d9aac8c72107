"""Keys of rows by the thousand, read from an index and from nothing else."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import connections
from django.db.models import QuerySet

from django_leasequeue.db.instants import stored_time
from django_leasequeue.db.parts import PARTS, by_part

# Times that a range of keys is narrowed down, each by one statement.
_ROUNDS = 4
_NUMBERED = "{number}, part{number}.*"


def first_keys(
    rows: QuerySet[Any],
    index: str,
    wheres: Sequence[dict[str, Any]],
    limit: int,
    order: Sequence[str] = (),
) -> list[list[int]]:
    """Return the keys of up to `limit` rows for each of `wheres`, conditions as for filter().

    Through `index`: a partial index of the model that the conditions' columns lead, and whose
    own condition is added to them. The first by `order`, columns that come next in it.
    Without, by any. One statement for every 200 of `wheres`.
    """
    found: list[list[int]] = [[] for _ in wheres]
    for start in range(0, len(wheres), PARTS):
        some = wheres[start : start + PARTS]
        for number, key in by_part(rows, index, some, limit, _NUMBERED, order):
            found[start + number].append(key)
    return found


def key_ranges(
    rows: QuerySet[Any], column: str, instants: Sequence[datetime]
) -> list[tuple[int, int]]:
    """Return (low, high) for each instant: keys of rows before it are below `high`, and of
    all others not below `low`.

    Of a column that rises with the key, so that it needs no index: the table is asked at some
    points, then at some between two of these. Five statements, whatever it holds. Between
    `low` and `high` there is mostly no key, never many.
    """
    connection = connections[rows.db]
    quote, meta = connection.ops.quote_name, rows.model._meta
    key, table = quote(meta.pk.column), quote(meta.db_table)
    stamp = quote(meta.get_field(column).column)
    ends = f"(SELECT MIN({key}) FROM {table}), (SELECT MAX({key}) FROM {table})"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {ends}")
        first, last = cursor.fetchone()
        if first is None:
            return [(0, 0) for _ in instants]
        found = [(first, last + 1) for _ in instants]
        wanted = int((last + 1 - first) ** (1 / _ROUNDS)) + 2
        count = min(wanted, PARTS // len(instants))
        for _ in range(_ROUNDS):
            parts: list[str] = []
            params: list[Any] = []
            for number, (low, high) in enumerate(found):
                at = stored_time(instants[number], connection)
                for point in {low + (high - low) * n // count for n in range(count)}:
                    parts.append(
                        f"SELECT * FROM (SELECT {number} AS part, {point} AS point, "
                        f"{key} AS pk, {stamp} < %s AS is_before "
                        f"FROM {table} WHERE {key} >= {point} "
                        f"ORDER BY {key} LIMIT 1) part{len(parts)}"
                    )
                    params.append(at)
            cursor.execute(" UNION ALL ".join(parts), params)
            for number, point, pk, is_before in sorted(cursor.fetchall()):
                low, high = found[number]
                if is_before:
                    low = max(low, pk + 1)
                else:
                    high = min(high, point)
                found[number] = (low, max(low, high))
    return found
