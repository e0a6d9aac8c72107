"""One piece of advice."""

from typing import NamedTuple


class Advice(NamedTuple):
    """What is wrong with a database. `id`: the suffix of a check id, one per kind."""

    id: str
    message: str
    hint: str


def isolation_advice(alias: str, level: str) -> Advice:
    """Return the advice about transactions that don't see the newest committed rows."""
    return Advice(
        "W106",
        f"Transactions on database {alias!r} are {level}, so a dispatch inside one may not "
        "see who holds its dedup id, and is then refused with DispatchConflict.",
        f"Use READ COMMITTED: DATABASES[{alias!r}]['OPTIONS']['isolation_level'].",
    )
