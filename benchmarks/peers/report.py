"""One table of all systems: medians, the best configuration beside the documented one."""

import statistics
from collections import defaultdict
from typing import Any

from benchmarks.peers.system import load, version

HEAD = (
    "system | dispatch one | dispatch many | drain as documented | drain best | of the floor "
    "| 2 processes best | pick-up median / p99 ms | statements, WAL B a job (best drain)"
)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table, and the versions below it."""
    found: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["system"]][row["measure"], row["config"]].append(row["figures"])
    count = HEAD.count("|") + 1
    lines = [f"| {HEAD} |", "|---" * count + "|"]
    floor = _best(next(iter(found.values())), "drain 1")[1]
    for name, measured in found.items():
        lines.append(f"| {' | '.join(_cells(name, measured, floor))} |")
    packages = sorted({one for name in found for one in load(name).packages})
    told = ", ".join(f"{package} {version(package)}" for package in packages)
    return "\n".join([*lines, "", f"Versions: {told}."])


def _cells(name: str, measured: dict, floor: float) -> list[str]:
    system = load(name)
    documented = next(iter(system.configs))
    first = _median(measured, ("drain 1", documented), "jobs/s")
    best, rate = _best(measured, "drain 1")
    best_2, rate_2 = _best(measured, "drain 2")
    pick_up = ("pick-up", system.pick_up)
    return [
        name,
        _rate(_median(measured, ("one", ""), "jobs/s")),
        _rate(_median(measured, ("many", ""), "jobs/s")) if system.bulk else "-",
        f"{_rate(first)} ({documented})" if first else "-",
        f"{_rate(rate)} ({best})" if rate else "-",
        f"{rate / floor:.2f}" if rate and floor else "-",
        f"{_rate(rate_2)} ({best_2})" if rate_2 else "-",
        " / ".join(
            f"{_median(measured, pick_up, unit):.1f}" for unit in ("ms", "p99 ms")
        )
        if pick_up in measured
        else "-",
        f"{_median(measured, ('drain 1', best), 'statements'):.2f}, "
        f"{_median(measured, ('drain 1', best), 'WAL B'):,.0f}",
    ]


def _best(measured: dict, measure: str) -> tuple[str, float]:
    rates = {
        config: _median(measured, (kind, config), "jobs/s")
        for kind, config in measured
        if kind == measure
    }
    best = max(rates, key=lambda config: rates[config], default="")
    return best, rates.get(best, 0.0)


def _median(measured: dict, key: tuple[str, str], unit: str) -> float:
    values = [figures[unit] for figures in measured.get(key, ())]
    return statistics.median(values) if values else 0.0


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value else "-"
