"""What a supervisor hands to a new child: all in one environment variable."""

import json
import os
import sys
from dataclasses import asdict, dataclass

VARIABLE = "LEASEQUEUE_CHILD"
MODULE = "django_leasequeue.worker.child"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildBootstrap:
    """A child's options; as file descriptors its ends of the two pipes and its board."""

    options: str
    reports: int
    control: int
    board: int
    # The parent's sys.path: a project may be importable only by what manage.py added.
    path: list[str]
    # PYTHONPATH as the project's own processes are to see it.
    python_path: str | None

    @classmethod
    def make(
        cls, options: str, reports: int, control: int, board: int
    ) -> "ChildBootstrap":
        """Return the bootstrap of a new child of this process."""
        path = [os.path.abspath(entry) for entry in sys.path]
        own = os.environ.get("PYTHONPATH")
        return cls(
            options=options,
            reports=reports,
            control=control,
            board=board,
            path=path,
            python_path=own,
        )

    def environment(self) -> dict[str, str]:
        """Return the child's environment: this one's, and the bootstrap."""
        return {
            **os.environ,
            VARIABLE: json.dumps(asdict(self)),
            # To find this package; apply() puts the project's own value back.
            "PYTHONPATH": os.pathsep.join(self.path),
        }

    @classmethod
    def take(cls) -> "ChildBootstrap":
        """Return the bootstrap of this process, and remove it from its environment."""
        return cls(**json.loads(os.environ.pop(VARIABLE)))

    def apply(self) -> None:
        """Make imports work as in the parent, here and in processes started from here."""
        sys.path[:] = self.path
        if self.python_path is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = self.python_path
        for descriptor in (self.reports, self.control, self.board):
            os.set_inheritable(descriptor, False)


def command(number: int) -> list[str]:
    """Return the command of a child: a module, since django-extensions has a runjobs too.

    `number` is only for whoever reads a list of processes.
    """
    flags = [f"-W{option}" for option in sys.warnoptions]
    for name, value in sys._xoptions.items():
        flags.append(f"-X{name}" if value is True else f"-X{name}={value}")
    return [sys.executable, *flags, "-m", MODULE, str(number)]
