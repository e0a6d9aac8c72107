"""worker.pipes: messages between a supervisor and its children."""

import itertools
import os

import pytest

from django_leasequeue.worker import pipes
from django_leasequeue.worker.pipes import Receiver, Sender, in_chunks, in_lines


@pytest.fixture
def ends():
    """(Sender, Receiver) of one pipe; reading does not block."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    sender = Sender(writing)
    yield sender, Receiver(reading)
    sender.close()
    os.close(reading)


def test_messages_arrive_in_order(ends):
    sender, receiver = ends
    assert receiver.read() == []
    assert sender.send({"do": "stop", "why": "é"})
    assert sender.send({"do": "leave"})
    assert receiver.read() == [{"do": "stop", "why": "é"}, {"do": "leave"}]
    assert receiver.ended is False


def test_a_closed_pipe_ends_the_messages(ends):
    sender, receiver = ends
    sender.send({"do": "leave"})
    sender.close()
    assert list(receiver) == [{"do": "leave"}]
    assert receiver.ended is True
    assert sender.send({"do": "leave"}) is False


def test_a_line_cut_in_two_is_one_message(ends):
    _, receiver = ends
    reading, writing = os.pipe()
    try:
        receiver = Receiver(reading)
        os.write(writing, b'{"do":')
        assert receiver.read() == []
        os.write(writing, b'"leave"}\n')
        assert receiver.read() == [{"do": "leave"}]
    finally:
        os.close(reading)
        os.close(writing)


def test_a_full_pipe_keeps_nobody_waiting_and_loses_nothing(ends):
    sender, receiver = ends
    sent = 0
    while sender.send({"n": sent}):
        sent += 1
    assert sender.send({"n": sent + 1}, 0.01) is False
    seen = [message["n"] for message in receiver.read()]
    while seen[-1] < sent + 1:
        sender.send({"more": True}, 1)
        seen += [message["n"] for message in receiver.read() if "n" in message]
    assert seen == list(range(sent + 2))


def test_a_pipe_that_takes_lines_in_parts_gets_them_whole(ends, monkeypatch):
    """As on macOS, while there is no room for a whole line."""
    sender, receiver = ends
    real, turns = os.write, itertools.cycle([True, True, False])
    monkeypatch.setattr(pipes, "_LONGEST_BACKLOG", 3)

    def write(descriptor, data):
        if next(turns):
            return real(descriptor, data[:7])
        raise BlockingIOError

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        for n in range(10):
            assert sender.send({"do": "announce", "n": n}) is False
    assert sender.send({"do": "leave"}) is True
    seen = receiver.read()
    assert seen[0] == {"do": "announce", "n": 0}
    assert seen[-1] == {"do": "leave"}


def test_room_that_comes_in_time_is_used(ends):
    sender, receiver = ends
    while sender.send({"n": 1}):
        pass
    receiver.read()
    assert sender.send({"n": 2}, 60) is True


def test_the_backlog_is_bounded_and_drops_the_oldest(ends, monkeypatch):
    monkeypatch.setattr(pipes, "_LONGEST_BACKLOG", 3)
    reading, writing = os.pipe()
    sender, receiver = Sender(writing), Receiver(reading)
    while sender.send({"n": "first"}):
        pass
    for n in range(10):
        assert sender.send({"n": f"late{n}"}) is False
    receiver.read()
    assert sender.send({"n": "final"}) is True
    sender.close()
    seen = [message["n"] for message in receiver if message["n"] != "first"]
    assert seen == ["late8", "late9", "final"]
    os.close(reading)


def test_a_reader_that_is_gone_is_no_error(ends):
    reading, writing = os.pipe()
    sender = Sender(writing)
    os.close(reading)
    assert sender.send({"do": "leave"}, 1) is False
    assert sender.send({"do": "leave"}, 1) is False
    sender.close()
    sender.close()


def test_a_message_that_would_not_enter_whole_is_refused(ends):
    sender, _ = ends
    with pytest.raises(ValueError, match="does not fit"):
        sender.send({"why": "x" * pipes.LONGEST_LINE})


def test_long_lists_are_sent_in_pieces(ends):
    sender, _ = ends
    ids = [2**63 - n for n in range(1, 401)]
    pieces = list(in_chunks(ids))
    assert [job_id for piece in pieces for job_id in piece] == ids
    assert len(pieces) > 1
    term = (123456.789012, 1e5 / 7, 1e6 / 7)
    why = f"the row is in the name of {'w' * 255}"
    message = {"do": "claimed", "token": "f" * 32, "term": term, "why": why}
    for piece in pieces:
        assert sender.send(message | {"ids": piece})


def test_names_are_sent_in_pieces_whatever_they_are_made_of(ends):
    sender, _ = ends
    names = [letter * 255 for letter in ("a", "é", "𝄞")] * 20
    pieces = list(in_lines(names))
    assert [name for piece in pieces for name in piece] == names
    assert max(map(len, pieces)) > 1
    for piece in pieces:
        sender.send({"do": "tasks", "names": piece})
    assert list(in_lines([])) == []
