"""Charts of what ended over time, worked out for an SVG: no script, no colours of its own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from django_leasequeue.monitoring import Bar

# In the SVG's own units, about a pixel each; it grows and shrinks with the page.
WIDTH, HEIGHT = 420, 190
LEFT, RIGHT = 42, 8
# The two panels, of what succeeded and of what failed: top and height.
PANELS = (("succeeded", 20, 86), ("failed", 126, 40))
# So high is what would else be too low to be seen.
LEAST = 1.5


@dataclass(frozen=True, slots=True)
class Kind:
    """A chart: its name in the page, its title, and which bars have their time below them."""

    name: str
    title: Any
    has_label: Callable[[datetime], bool]


def chart(kind: Kind, bars: list[Bar]) -> dict[str, Any]:
    """Return what the template draws: numbers as texts, so that no language changes them."""
    step = (WIDTH - LEFT - RIGHT) / len(bars)
    times = [_local(bar.start) for bar in bars]
    return {
        "name": kind.name,
        "title": kind.title,
        "summary": _summary(bars),
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "panels": [_panel(*panel, bars, step) for panel in PANELS],
        "labels": [
            {"x": _text(LEFT + n * step), "text": f"{at:%H:%M}"}
            for n, at in enumerate(times)
            if kind.has_label(at)
        ],
        "gaps": [
            {"x": _text(LEFT + first * step), "width": _text(count * step)}
            for first, count in _gaps(bars)
        ],
        "columns": [
            {
                "x": _text(LEFT + n * step),
                "width": _text(step),
                "text": f"{at:%H:%M}: {_told(bar)}",
            }
            for n, (at, bar) in enumerate(zip(times, bars, strict=True))
        ],
        "rows": [
            {
                "time": f"{at:%Y-%m-%d %H:%M}",
                "numbers": [
                    _number(n) for n in (bar.succeeded, bar.failed, bar.cancelled)
                ],
            }
            for at, bar in zip(reversed(times), reversed(bars), strict=True)
            if bar.counted
        ],
    }


def _panel(
    name: str, top: int, height: int, bars: list[Bar], step: float
) -> dict[str, Any]:
    most = nice(max(getattr(bar, name) for bar in bars))
    labels = {"succeeded": _("Succeeded"), "failed": _("Failed")}
    return {
        "name": name,
        "label": labels[name],
        "top": top,
        "height": height,
        "bottom": top + height,
        "most": short(most),
        "path": "".join(
            _bar(LEFT + n * step, step, top + height, height * count / most)
            for n, count in enumerate(getattr(bar, name) for bar in bars)
            if count
        ),
    }


def _bar(x: float, step: float, bottom: int, height: float) -> str:
    """Return a bar as a part of a path: from its foot up, over, down and back."""
    width = _text(step * 0.8)
    high = _text(max(LEAST, height))
    return f"M{_text(x + step * 0.1)} {bottom}v-{high}h{width}v{high}z"


def nice(count: int) -> int:
    """Return the least of 1, 2, 3, 4, 5, 6, 8, 10, 20, … that is no less."""
    power = 1
    while True:
        for digit in (1, 2, 3, 4, 5, 6, 8):
            if digit * power >= count:
                return digit * power
        power *= 10


def short(count: int) -> str:
    """Return a nice number in few characters."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count // size}{letter}"
    return str(count)


def _gaps(bars: list[Bar]) -> Iterator[tuple[int, int]]:
    """Yield where bars that nobody has counted begin, and how many they are."""
    first = None
    for n, bar in enumerate([*bars, None]):
        if bar is not None and not bar.counted:
            first = n if first is None else first
        elif first is not None:
            yield first, n - first
            first = None


def _summary(bars: list[Bar]) -> str:
    if not any(bar.counted for bar in bars):
        return _("Nothing is counted yet: a worker does it once a minute.")
    sums = {
        name: _number(sum(getattr(bar, name) for bar in bars))
        for name in ("succeeded", "failed", "cancelled")
    }
    return (
        _("%(succeeded)s succeeded, %(failed)s failed, %(cancelled)s cancelled.") % sums
    )


def _told(bar: Bar) -> str:
    if not bar.counted:
        return _("not counted")
    words = {"succeeded": _number(bar.succeeded), "failed": _number(bar.failed)}
    return _("%(succeeded)s succeeded, %(failed)s failed") % words


def _local(instant: datetime) -> datetime:
    return timezone.localtime(instant)


def _number(count: int) -> str:
    return number_format(count, force_grouping=True)


def _text(number: float) -> str:
    return f"{number:.1f}"
