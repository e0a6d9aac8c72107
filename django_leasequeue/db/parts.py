"""One statement for many ranges of an index: the first rows of each, or what is made of them."""

from collections.abc import Sequence
from typing import Any

from django.db import connections
from django.db.models import QuerySet

# Parts of one statement: SQLite takes no more than 500.
PARTS = 200


def by_part(
    rows: QuerySet[Any],
    index: str,
    wheres: Sequence[dict[str, Any]],
    limit: int,
    selected: str,
    order: Sequence[str] = (),
) -> list[tuple[int, ...]]:
    """Select numbers from the first rows of each of `wheres`, conditions as for filter().

    `index`: a partial index of the model that the conditions' columns lead, and whose own
    condition is added to them. `limit`: rows of each. `selected`: what is selected of the keys
    of a part, with `{number}` for its place. The first by `order`, columns that come next in
    the index; without, any. One statement, for PARTS of `wheres` at the most.
    """
    connection = connections[rows.db]
    quote = connection.ops.quote_name
    table = quote(rows.model._meta.db_table)
    [found] = [one for one in rows.model._meta.indexes if one.name == index]
    forced = {
        "mysql": f"{table} FORCE INDEX ({index})",
        "sqlite": f"{table} INDEXED BY {index}",
    }.get(connection.vendor, table)
    if forced == table:
        # The full order makes the index the only cheap way; MariaDB would sort.
        order = order or found.fields
    # In letters: SQLite uses a partial index only where the condition is not a parameter.
    literal = [
        _literal_condition(name, value, quote) for name, value in found.where.items()
    ]
    parts: list[str] = []
    params: list[Any] = []
    for number, where in enumerate(wheres):
        one = rows.filter(**where).extra(where=literal).order_by(*order)
        one = one.values_list("pk")[:limit]
        sql, values = one.query.get_compiler(using=rows.db).as_sql()
        sql = sql.replace(f" FROM {table} ", f" FROM {forced} ", 1)
        parts.append(
            f"SELECT {selected.format(number=number)} FROM ({sql}) part{number}"
        )
        params.extend(values)
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), params)
        return cursor.fetchall()


def _literal_condition(name: str, value: Any, quote: Any) -> str:
    name, _, lookup = name.partition("__")
    column = quote(name)  # "group" is a word of SQL, too
    if lookup == "isnull":
        return f"{column} IS {'' if value else 'NOT '}NULL"
    return f"{column} = {value!r}"
