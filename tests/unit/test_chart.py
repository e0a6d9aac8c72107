"""The charts: bars to scale, what is not counted, numbers that no language changes."""

from datetime import UTC, datetime, timedelta

import pytest
from django.template.loader import render_to_string
from django.utils import translation

from django_leasequeue.admin.chart import HEIGHT, PANELS, Kind, chart, nice, short
from django_leasequeue.monitoring import Bar

START = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
HOUR = Kind("hour", "The last hour", lambda at: at.minute % 15 == 0)


def bars(*counts):
    """One bar a minute; None is not counted."""
    return [
        Bar(START + n * timedelta(minutes=1), count is not None, *(count or ()))
        for n, count in enumerate(counts)
    ]


@pytest.mark.parametrize(
    ("count", "most", "text"),
    [
        (0, 1, "1"),
        (1, 1, "1"),
        (7, 8, "8"),
        (9, 10, "10"),
        (999, 1000, "1k"),
        (24_500, 30_000, "30k"),
        (5_100_000, 6_000_000, "6M"),
    ],
)
def test_scale(count, most, text):
    assert nice(count) == most
    assert short(most) == text


def test_bars():
    """To scale, and one that is too low to be seen is drawn all the same."""
    found = chart(HOUR, bars((100, 0), (50, 1), (1, 0), (0, 0)))
    succeeded, failed = found["panels"]
    _, top, height = PANELS[0]
    assert succeeded["most"] == "100" and failed["most"] == "1"
    parts = succeeded["path"].split("z")
    assert [part.partition("v-")[2].partition("h")[0] for part in parts if part] == [
        f"{height:.1f}",
        f"{height / 2:.1f}",
        "1.5",
    ]
    assert parts[0].startswith("M") and f" {top + height}v" in parts[0]
    assert failed["path"].count("M") == 1


def test_gaps_and_words():
    found = chart(HOUR, bars(None, None, (1200, 3, 1), None))
    assert [(gap["x"], gap["width"]) for gap in found["gaps"]] == [
        ("42.0", "185.0"),
        ("319.5", "92.5"),
    ]
    assert found["summary"] == "1,200 succeeded, 3 failed, 1 cancelled."
    assert [row["numbers"] for row in found["rows"]] == [["1,200", "3", "1"]]
    texts = [column["text"].partition(": ")[2] for column in found["columns"]]
    assert texts == [
        "not counted",
        "not counted",
        "1,200 succeeded, 3 failed",
        "not counted",
    ]


def test_nothing_counted():
    found = chart(HOUR, bars(None, None))
    assert found["summary"].startswith("Nothing is counted yet")
    assert found["rows"] == []


def test_svg():
    """With a title and a description, and points in its numbers where commas are usual."""
    with translation.override("de"):
        context = {"chart": chart(HOUR, bars((1, 0), (3, 1), None))}
        html = render_to_string("admin/leasequeue/chart.html", context)
    assert 'role="img"' in html and "<title id=" in html and "<desc id=" in html
    svg = html.partition("<svg")[2].partition("</svg>")[0]
    assert f'viewBox="0 0 420 {HEIGHT}"' in svg
    assert (
        ' d="M45' in svg.replace("M54.3", "M45")
        and "," not in svg.partition("<path")[2][:60]
    )
    assert "style=" not in svg
