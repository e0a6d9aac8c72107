"""What the benchmark must know of a system: how it is set up, filled, and started."""

import importlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Protocol

PACKAGE = "benchmarks.peers.systems"
NAMES = (
    "raw_psycopg",
    "raw_orm",
    "leasequeue",
    "pgqueuer",
    "oban",
    "procrastinate",
    "django_tasks_db",
)


class Client(Protocol):
    """Puts jobs into the queue, from one process. Opened once, before anything is timed."""

    def setup(self) -> None:
        """Make the tables."""

    def open(self) -> None:
        """Connect."""

    def one(self, number: int) -> Any:
        """Put in one job by the main interface, and commit."""

    def many(self, numbers: Iterable[int]) -> Any:
        """Put in many, by the bulk interface where there is one."""


@dataclass(frozen=True)
class Start:
    """How worker processes are started: `python -m` the module, so many times."""

    module: list[str]
    count: int = 1
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class System:
    """One queue.

    `packages`: distributions whose versions are told. `settings`: of Django, if it needs
    others than this project's; None: it needs no Django. `configs`: by name, what starts so
    many worker processes; the first is how its documentation starts it. `pick_up`: the
    config whose latency counts. `scale`: of the number of jobs, for one so fast that a drain
    would be over too soon. `bulk`: whether there is a bulk interface.
    """

    packages: tuple[str, ...]
    tables: tuple[str, ...]
    unfinished: str
    client: Callable[[], Client]
    configs: dict[str, Callable[[int], Start]]
    pick_up: str
    settings: dict[str, Any] | None = None
    scale: int = 1
    bulk: bool = True

    def missing(self) -> list[str]:
        """Return the distributions that are not installed."""
        return [name for name in self.packages if version(name) is None]


def load(name: str) -> System:
    """Return the system of this name."""
    return importlib.import_module(f"{PACKAGE}.{name}").SYSTEM


def version(package: str) -> str | None:
    """Return the version of a distribution, None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def several(*module: str, **variables: str) -> Callable[[int], Start]:
    """Return what starts one process of a module for each that is wanted."""
    return lambda count: Start(list(module), count, variables)


def address() -> str:
    """Return the URL of the system's database, in the form that libpq takes."""
    entry = json.loads(os.environ["BENCHMARK_DATABASE"])
    place = f"{entry['USER']}@{entry['HOST']}:{entry['PORT']}"
    return f"postgresql://{place}/{entry['NAME']}"
