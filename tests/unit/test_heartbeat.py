"""worker.heartbeat: what a worker is called."""

import os
import socket

from django_leasequeue.worker.heartbeat import worker_name


def test_046_two_starts_never_share_a_name():
    names = {worker_name() for _ in range(1000)}
    assert len(names) == 1000


def test_it_tells_people_where_the_worker_is():
    host, pid, _ = worker_name().rsplit(":", 2)
    assert (host, int(pid)) == (socket.gethostname(), os.getpid())


def test_it_fits_its_column(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 255)
    assert len(worker_name()) <= 255


def test_it_is_plain_ascii(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "büro")
    assert worker_name().startswith("b?ro:")
