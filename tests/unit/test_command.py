"""The options of `python3 -m tests`."""

import pytest

from tests.__main__ import DATABASES, parse


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
