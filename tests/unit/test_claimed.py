"""Tokens of claims."""

import time
import uuid

from django_leasequeue.claimed import new_token


def test_a_token_is_nobody_elses():
    tokens = {new_token() for _ in range(10_000)}
    assert len(tokens) == 10_000
    assert {(token.version, token.variant) for token in tokens} == {(7, uuid.RFC_4122)}


def test_a_later_token_sorts_later(monkeypatch):
    """As a UUID and as each text of it that a database stores."""
    tokens = []
    for milliseconds in (1, 2, 255, 256, 1_790_000_000_000):
        monkeypatch.setattr(time, "time_ns", lambda at=milliseconds: at * 1_000_000)
        tokens.append(new_token())
    assert tokens == sorted(tokens)
    assert [token.hex for token in tokens] == sorted(token.hex for token in tokens)
