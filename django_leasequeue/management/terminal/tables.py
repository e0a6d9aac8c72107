"""A screen to write tables and texts on, whether it is a terminal or not."""

import io
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from django.core.management.base import OutputWrapper
from rich.console import Console
from rich.table import Table
from rich.text import Text

from django_leasequeue.management.terminal.safe import safe

# Columns where there is no terminal to ask: nothing is cut or wrapped for a file or a pipe.
_WIDE = 10_000
# Characters that a folded column has at least.
_NARROWEST = 8
# How a status looks.
_STYLES = {
    "pending": "yellow",
    "running": "blue",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "dim",
}


class Screen:
    """Where a command writes. Everything on it is made safe; see `safe`.

    `out`: the command's stdout. `color`: None for as the stream suits.
    """

    def __init__(self, out: OutputWrapper, color: bool | None = None) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._color = self._is_terminal if color is None else color
        self._encoding = getattr(out, "encoding", None) or "utf-8"

    def table(
        self,
        titles: Sequence[str],
        rows: Iterable[Sequence[Any]],
        fold: Collection[str],
    ) -> None:
        """Write a table; None is a dash, and what is a status has its colour.

        `fold`: titles of columns that go over several lines where there is little room.
        """
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in titles:
            shown = Text(safe(title, self._encoding))
            width = _NARROWEST if title in fold else None
            table.add_column(
                shown, overflow="fold", no_wrap=width is None, min_width=width
            )
        for row in rows:
            table.add_row(*map(self._cell, row))
        self._write(table)

    def facts(self, facts: Iterable[tuple[str, Any]]) -> None:
        """Write names and what they are, one pair a line."""
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in facts:
            table.add_row(
                Text(safe(name, self._encoding)), self._cell(value, lines=True)
            )
        self._write(table)

    def gap(self) -> None:
        """Write an empty line."""
        self._out.write("")

    def text(self, text: str, *, lines: bool = False) -> None:
        """Write a text. `lines`: whether its line breaks are kept."""
        self._out.write(safe(text, self._encoding, lines=lines))

    def _cell(self, value: Any, *, lines: bool = False) -> Text:
        if value is None:
            return Text("-", style="dim")
        shown = safe(value, self._encoding, lines=lines)
        # Text, since a str would be read for markup.
        return Text(shown, style=_STYLES.get(shown, ""))

    def _write(self, table: Table) -> None:
        drawn = io.StringIO()
        console = Console(
            file=drawn,
            force_terminal=self._color,
            no_color=not self._color,
            width=None if self._is_terminal else _WIDE,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )
        console.print(table)
        text = "\n".join(line.rstrip() for line in drawn.getvalue().splitlines())
        self._out.write(text)
