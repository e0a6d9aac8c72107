"""The options of `python3 -m tests`."""

from collections import Counter

import pytest

from tests import matrix
from tests.__main__ import DATABASES, Session, parse
from tests.processes import ROOT


def test_a_database_that_does_not_exist_is_told_with_those_that_do(capsys):
    with pytest.raises(SystemExit):
        parse(["--db", "sqlite,typo"])
    message = capsys.readouterr().err
    assert f"no such database: typo; there are {', '.join(DATABASES)}" in message


@pytest.mark.parametrize(
    ("words", "measured"),
    [
        ([], True),
        (["--db", "sqlite", "--", "-x", "-q"], True),
        (["--", __file__], False),
        (["--", f"{__file__}::test_it", "-x"], False),
        (["--", "-k", "order"], False),
        (["--no-coverage"], False),
    ],
)
def test_coverage_is_measured_of_whole_runs_only(words, measured):
    assert parse(words).no_coverage is not measured


def run_by(parts):
    """Return how often each file of tests is run by these parts: path -> number."""
    counts = Counter()
    for words in parts.values():
        ignored = [word.removeprefix("--ignore=") for word in words if word[0] == "-"]
        for word in words:
            path = ROOT / word
            files = path.rglob("test_*.py") if path.is_dir() else [path]
            names = [str(file.relative_to(ROOT)) for file in files if word[0] != "-"]
            counts.update(name for name in names if not name.startswith(tuple(ignored)))
    return counts


@pytest.mark.parametrize("database", DATABASES)
def test_the_newest_pair_runs_every_file_once_on_each_database(database):
    left_out = {
        "sqlite": [],
        "postgres": ["tests/unit", "tests/browser"],
        "mysql": matrix.ALIKE,
        "mariadb": [*matrix.ALIKE, *matrix.ALIKE_MARIADB],
    }
    for kind in ("mysql", "mariadb"):
        left_out[kind] += left_out["postgres"]
    files = {str(file.relative_to(ROOT)) for file in ROOT.glob("tests/*/test_*.py")}
    wanted = {file for file in files if not file.startswith(tuple(left_out[database]))}
    assert run_by(matrix.parts(database, is_newest=True)) == Counter(wanted)


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("place", [(True, False), (False, True), (False, False)])
def test_what_a_part_names_exists_and_parts_have_their_order(database, place):
    parts = matrix.parts(database, *place)
    assert set(run_by(parts).values()) == {1}
    for part, words in parts.items():
        assert part in matrix.PARTS
        for word in words:
            assert (ROOT / word.removeprefix("--ignore=")).exists()


def test_the_checks_have_a_minute_of_chaos_on_each_database():
    session = Session(parse(["--checks"]))
    session.program_of = {"3.11": "old", "3.13": "new"}
    session.plan({})
    chaos = [run.command for run in session.runs if run.name.startswith("chaos")]
    assert chaos == [
        ["new", "-m", "benchmarks.chaos", "--seconds", "60", "--db", database]
        for database in DATABASES
    ]
