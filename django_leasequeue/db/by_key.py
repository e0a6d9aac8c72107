"""A text of its own for each row of one update."""

import json
from typing import Any

from django.db import models

from django_leasequeue.db.given import Written

# Characters that go into one value. PostgreSQL takes 256 MiB, a character may be four bytes.
MOST_TEXT = 32 * 2**20


class TextByKey(models.Expression):
    """The text that belongs to the row's primary key; None for NULL.

    Only for rows that are found by these keys and no others. `texts`: by primary key, or a
    GivenTexts.
    """

    def __init__(self, texts: "dict[int, str | None] | GivenTexts") -> None:
        super().__init__(output_field=models.TextField())
        self._texts, self._key = texts, models.F("pk")

    def get_source_expressions(self) -> list[Any]:
        return [self._key]

    def set_source_expressions(self, exprs: Any) -> None:
        [self._key] = exprs

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        source: Any = self._key
        key, params = compiler.compile(source)
        if isinstance(self._texts, GivenTexts):
            return f"CASE {key} {self._texts.mark} END", [*params, self._texts]
        cases, texts = _cases(self._texts)
        return f"CASE {key} {cases} END", [*params, *texts]

    def as_postgresql(self, compiler: Any, connection: Any) -> Any:
        """The server takes half as long to find a key in an object, and the driver a quarter."""
        source: Any = self._key
        key, params = compiler.compile(source)
        if isinstance(self._texts, GivenTexts):
            return f"({self._texts.mark} ->> {key}::text)", [self._texts, *params]
        if sum(len(text or "") for text in self._texts.values()) > MOST_TEXT:
            return self.as_sql(compiler, connection)
        return f"(%s::jsonb ->> {key}::text)", [_object(self._texts), *params]


class GivenTexts(Written):
    """What a TextByKey gets once the statement is sent."""

    def written(self, value: Any, connection: Any) -> tuple[str, list[Any]]:
        if connection.vendor == "postgresql":
            return "%s::jsonb", [_object(value)]
        return _cases(value)


def _cases(texts: dict[int, str | None]) -> tuple[str, list[str]]:
    # The keys are integers of ours and stand in the text, since SQLite bounds the number
    # of parameters.
    given = [(key, text) for key, text in texts.items() if text is not None]
    cases = " ".join([f"WHEN {int(key)} THEN %s" for key, _ in given])
    return cases, [text for _, text in given]


def _object(texts: dict[int, str | None]) -> str:
    # Characters as they are: not every encoding of a database has one for each escape.
    return json.dumps(texts, ensure_ascii=False)
