"""The private servers of the tests."""

import socket
from types import SimpleNamespace

import pytest

from tests import servers
from tests.helpers import in_thread
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


@pytest.mark.parametrize(
    ("pid", "status", "ready"),
    [
        (2, "ready   ", True),
        (2, "standby ", True),
        (2, "starting", False),
        # What a server that was killed has left behind.
        (1, "ready   ", False),
    ],
)
def test_a_postgres_is_ready_once_it_says_so_itself(tmp_path, pid, status, ready):
    server = servers.Postgres(Program("postgres", tmp_path / "postgres", "15"))
    try:
        server.data.mkdir()
        lines = [pid, server.data, 0, 5432, "", "127.0.0.1", "", status]
        (server.data / "postmaster.pid").write_text("\n".join(map(str, lines)))
        server.process = SimpleNamespace(pid=2, poll=lambda: 0)
        assert server.is_ready() is ready
    finally:
        server.stop()


@pytest.mark.parametrize("written", [None, "", "2\n"])
def test_a_postgres_that_has_not_said_so_is_not_ready(tmp_path, written):
    server = servers.Postgres(Program("postgres", tmp_path / "postgres", "15"))
    try:
        server.data.mkdir()
        if written is not None:
            (server.data / "postmaster.pid").write_text(written)
        server.process = SimpleNamespace(pid=2, poll=lambda: 0)
        assert server.is_ready() is False
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("pid", "ready"),
    [
        ("2\n", True),
        # Of before a crash, or not written yet: it is another's port.
        ("1\n", False),
        (None, False),
    ],
)
def test_a_mysql_is_ready_once_its_own_port_answers(tmp_path, pid, ready):
    server = servers.MySQL(Program("mysql", tmp_path / "mysqld", "9.7"))
    try:
        if pid is not None:
            server.pid_file.write_text(pid)
        server.process = SimpleNamespace(pid=2, poll=lambda: 0)
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            in_thread(lambda: greet(listener)),
        ):
            server.port = listener.getsockname()[1]
            assert server.is_ready() is ready
            # Whoever was not asked is not left to wait.
            socket.create_connection(("127.0.0.1", server.port)).close()
    finally:
        server.stop()


def greet(listener):
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"\x01\0\0\0\x0a")


def test_no_port_is_given_twice(monkeypatch):
    """Though the first is not in use yet."""
    monkeypatch.setattr(servers.random, "sample", lambda ports, number: ports)
    assert servers.free_port() != servers.free_port()
