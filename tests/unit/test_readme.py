"""What README.md says is so: its versions, its links, its commands, its first screen."""

import os
import re
import subprocess
import sys
import tomllib

from example_project import __main__ as demo
from example_project import bootstrap
from tests import readme
from tests.__main__ import PAIRS
from tests.processes import ROOT

# Where each command is run, besides CI, which runs README's two as they stand.
COMMANDS = {
    "python manage.py runjobs": "crash/test_readme.py",
    "python3 -m example_project": "test_the_demo_command, crash/test_demo.py",
    "python3 -m tests": "test_the_test_command",
    "python -m pip install .": "test_packaging.py builds what pip installs",
    "python manage.py migrate": "crash/test_readme.py",
}


def test_versions_are_those_of_the_matrix():
    for python, django in PAIRS.items():
        assert re.search(rf"{django} on (Python )?{python}\b", readme.TEXT)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    assert f"Python {oldest} or newer" in readme.TEXT
    for extra in re.findall(r'"\.\[(\w+)\]"', readme.TEXT):
        assert extra in project["optional-dependencies"]


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", readme.TEXT):
        page, _, heading = target.partition("#")
        file = ROOT / (page or "README.md")
        assert file.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            assert heading in [title.lower().replace(" ", "-") for title in titles]


def test_every_page_is_linked():
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages <= set(re.findall(r"\]\(([^)#]+)", readme.TEXT))


def test_first_screen():
    order = ["```python", "dispatch ──▶", "| promised |", "manage.py runjobs"]
    places = [readme.TEXT.index(text) for text in [*order, "(example_project)"]]
    assert places == sorted(places)
    code = [line for line in readme.blocks("python")[0].splitlines() if line]
    assert len([line for line in code if not line.startswith("# ")]) <= 12
    assert len(readme.TEXT.splitlines()) < 300


def test_each_command_is_run_by_a_test():
    assert readme.commands() == list(COMMANDS)
    languages = re.findall(r"^```(\w+)$", readme.TEXT, re.M)
    assert set(languages) == {"python", "text", "console"}


def test_the_demo_command(monkeypatch):
    called = []
    monkeypatch.setattr(os, "execv", lambda *arguments: called.append(arguments))
    made = lambda *requirements: called.append(requirements) or "venv/python"  # noqa: E731
    monkeypatch.setattr(bootstrap, "virtual_environment", made)
    demo.main([])
    manage = str(ROOT / "example_project" / "manage.py")
    assert called == [
        ("demo", "--editable", str(ROOT)),
        ("venv/python", ["venv/python", manage, "demo"]),
    ]


def test_the_test_command():
    command = [sys.executable, "-m", "tests", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "every test on every database" in done.stdout
