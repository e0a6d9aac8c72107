"""worker.board: what a child ran last can be read by another process."""

import os
import uuid

import pytest

from django_leasequeue.worker.board import Board

TOKENS = [uuid.uuid4() for _ in range(3)]


@pytest.fixture(params=[True, False], ids=["memfd", "file"])
def board(request, monkeypatch):
    """A board of two places as both sides have it."""
    if not request.param:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    ours, descriptor = Board.make(2)
    theirs = Board(descriptor, 2)
    os.close(descriptor)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_the_last_job_of_each_place_stands_on_it(board):
    ours, theirs = board
    theirs.write(0, TOKENS[0], 2**63 - 1)
    theirs.write(1, TOKENS[1], 7)
    assert {(TOKENS[0], 2**63 - 1), (TOKENS[1], 7)} == ours.read()
    theirs.write(0, TOKENS[2], 8)
    assert {(TOKENS[2], 8), (TOKENS[1], 7)} == ours.read()


def test_a_place_that_was_never_used_tells_of_no_job(board):
    ours, theirs = board
    theirs.write(1, TOKENS[0], 7)
    assert (TOKENS[0], 7) in ours.read()
    assert {token for token, _ in ours.read()} - {TOKENS[0]} == {uuid.UUID(int=0)}
