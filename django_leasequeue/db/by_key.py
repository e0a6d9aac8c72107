"""A text of its own for each row of one update."""

from django.db import models


class TextByKey(models.Expression):
    """The text that belongs to the row's primary key; None for NULL.

    Only for rows that are found by these keys and no others. `texts`: by primary key.
    """

    def __init__(self, texts: dict[int, str | None]) -> None:
        super().__init__(output_field=models.TextField())
        self._texts, self._key = texts, models.F("pk")

    def get_source_expressions(self):
        return [self._key]

    def set_source_expressions(self, exprs):
        [self._key] = exprs

    def as_sql(self, compiler, connection):
        # The keys are integers of ours and stand in the text, since SQLite bounds the number
        # of parameters.
        given = [(key, text) for key, text in self._texts.items() if text is not None]
        cases = " ".join(f"WHEN {int(key)} THEN %s" for key, _ in given)
        key, params = compiler.compile(self._key)
        return f"CASE {key} {cases} END", [*params, *(text for _, text in given)]
