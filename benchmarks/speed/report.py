"""The figures as a table for people and as JSON for programs."""

import json
import os
import platform
import statistics
from typing import Any

import django

from benchmarks.speed.backlog import FEW
from benchmarks.speed.measures import Measured


def table(results: dict[str, list[Measured]]) -> str:
    """Return the medians as a markdown table, beside the floor of the same kind.

    What part of the floor it is: the median over the turns, each against its own floor.
    """
    lines = ["| measure | median | lowest to highest | of the floor | more |"]
    lines.append("|---|---|---|---|---|")
    medians = {
        name: statistics.median(one.value for one in runs)
        for name, runs in results.items()
    }
    for name, runs in results.items():
        values = [one.value for one in runs]
        unit = runs[0].unit
        ratio = ""
        if unit == "jobs/s" and (floor := results.get(_floor(name))):
            turns = zip(runs, floor, strict=True)
            ratio = (
                f"{statistics.median(one.value / its.value for one, its in turns):.2f}"
            )
        more = ", ".join(
            f"{_short(statistics.median(one.more[word] for one in runs))} {word}"
            for word in runs[0].more
        )
        spread = f"{min(values):,.0f} to {max(values):,.0f}"
        lines.append(
            f"| {name} | {medians[name]:,.{1 if unit == 'ms' else 0}f} {unit} "
            f"| {spread} | {ratio} | {more} |"
        )
    return "\n".join(lines)


def as_json(database: str, results: dict[str, list[Measured]]) -> str:
    """Return every single figure, with what it was measured on."""
    return json.dumps(
        {"machine": machine(database), "results": _plain(results)}, indent=1
    )


def machine(database: str) -> dict[str, Any]:
    """Return what a figure depends on beside the code."""
    return {
        "database": database,
        "django": django.get_version(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def _short(value: float) -> str:
    whole = value >= 100 or value.is_integer()
    return f"{value:,.{0 if whole else 1 if value >= 10 else 2}f}"


def _floor(name: str) -> str:
    if name.startswith("first"):
        return f"first jobs, {FEW}"
    if name.startswith("drain"):
        return "drain, bare ORM"
    many = name.startswith(("dispatch many", "insert many"))
    return f"insert {'many' if many else 'one'}, bare ORM"


def _plain(results: dict[str, list[Measured]]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [{one.unit: one.value, **one.more} for one in runs]
        for name, runs in results.items()
    }
