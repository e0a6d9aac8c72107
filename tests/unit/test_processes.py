"""How the tests look at the machine's processes."""

import os

from tests import processes


def test_a_process_that_ends_meanwhile_is_passed_over(monkeypatch):
    """The others are told of all the same."""
    own, real = f"/proc/{os.getpid()}/task", os.scandir

    def scandir(path):
        if os.fspath(path) == own:
            raise FileNotFoundError(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = {
        str(path.parent.parent) for path, _ in processes._statuses("*/task/*/stat")
    }
    assert found
    assert own not in found
