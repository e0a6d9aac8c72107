"""worker.memory: which children have grown too large."""

import os
from types import SimpleNamespace

from django_leasequeue import clock
from django_leasequeue.worker import process_state
from django_leasequeue.worker.memory import MemoryWatch

MIB = 1024 * 1024


def child(pid, *, has_finished=True):
    return "slot", SimpleNamespace(pid=pid, has_finished=has_finished)


def test_those_that_have_run_a_job(monkeypatch):
    sizes = {1: 101, 2: 89, 3: 500}
    monkeypatch.setattr(process_state, "resident", lambda pid: sizes[pid] * MIB)
    watch = MemoryWatch(100)
    assert watch.due_at <= clock.now()
    small, large, fresh = child(2), child(1), child(3, has_finished=False)
    assert list(watch.too_large([small, large, fresh])) == [large]
    assert watch.due_at > clock.now()


def test_from_which_part_of_the_limit_on_differs(monkeypatch):
    """Children that grow alike are replaced one after the other; each at one size."""
    monkeypatch.setattr(process_state, "resident", lambda pid: 95 * MIB)
    children = [child(pid) for pid in range(1000, 1100)]
    found = [len(list(MemoryWatch(100).too_large(children))) for _ in range(2)]
    assert found[0] == found[1]
    assert 20 < found[0] < 80


def test_without_a_limit_it_never_looks():
    assert MemoryWatch(None).due_at == float("inf")
    assert list(MemoryWatch(None).too_large([child(os.getpid())])) == []


def test_what_the_system_tells():
    assert process_state.tells_memory()
    assert 5 * MIB < process_state.resident(os.getpid()) < 8000 * MIB
    assert process_state.resident(2**30) == 0
