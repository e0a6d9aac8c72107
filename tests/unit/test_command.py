"""The options of `python3 -m tests`."""

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


@pytest.mark.parametrize("database", DATABASES)
def test_the_newest_pair_runs_every_folder_on_every_database(database):
    parts = matrix.parts(database, is_newest=True)
    assert [word for words in parts.values() for word in words] == [
        "tests/crash",
        "tests",
        "--ignore=tests/concurrency",
        "--ignore=tests/crash",
        *(["--ignore=tests/unit"] if database != "sqlite" else []),
        "tests/concurrency",
    ]


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("place", [(True, False), (False, True), (False, False)])
def test_what_a_part_names_exists_and_parts_have_their_order(database, place):
    for part, words in matrix.parts(database, *place).items():
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
