"""The table of Django's tests and those here that stand for them is true."""

import re

import pytest

from tests.django_suite import FILES, SUITE, Left
from tests.processes import ROOT

STANDING = sorted(
    {
        one
        for tests in SUITE.values()
        for one in tests.values()
        if not isinstance(one, Left)
    }
)


@pytest.mark.parametrize("one", STANDING)
def test_it_exists(one):
    file, _, name = one.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / FILES[file]).read_text(), re.M)


def test_none_is_forgotten():
    """Django 6.1 has so many."""
    numbers = {
        name: len(tests) for name, tests in SUITE.items() if "django-" not in name
    }
    assert numbers == {
        "test_tasks.py": 39,
        "test_immediate_backend.py": 20,
        "test_dummy_backend.py": 17,
        "test_custom_backend.py": 9,
    }
