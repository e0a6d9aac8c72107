"""The private servers of the tests."""

import pytest

from tests import servers
from tests.server_programs import Program


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('#!/bin/sh\n# --no-defaults must be first\nexec mysqld "$@"\n', True),
        ('#!/bin/sh\nexec mysqld --no-defaults "$@"\n', False),
        ("\x7fELF --no-defaults", True),
    ],
)
def test_no_defaults_is_said_once(tmp_path, text, first):
    """It may only be the first word, and MYSQLD may name a script that says it."""
    program = tmp_path / "mysqld"
    program.write_text(text)
    server = servers.MySQL(Program("mysql", program, "9.7"))
    try:
        assert ("--no-defaults" in server.place()) is first
    finally:
        server.stop()
