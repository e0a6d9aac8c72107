"""Jobs of Django's own tasks in real worker processes."""

import pytest

pytest.importorskip("django.tasks", reason="came with Django 6.0")

from tests import django_tasks as tasks
from tests import tasks as own


def test_a_task_that_kills_its_process_once(worker_process, settings, tmp_path):
    """Beside tasks of both decorators; the result tells of both workers."""
    settings.LEASEQUEUE = tasks.SETTINGS
    killed = tasks.die_once.enqueue(str(tmp_path / "died"))
    others = [tasks.answer_soon.enqueue(), tasks.own_id.enqueue()]
    job = own.add.dispatch(1, 2).job
    worker = worker_process("--drain", settings=tasks.SETTINGS)
    assert worker.wait() == 0
    for result in [killed, *others]:
        result.refresh()
    assert [result.status for result in [killed, *others]] == ["SUCCESSFUL"] * 3
    assert [result.return_value for result in others] == [42, others[1].id]
    assert (killed.return_value, killed.attempts) == (1, 2)
    assert len(set(killed.worker_ids)) == 2
    assert "SIGKILL" in killed.errors[0].traceback
    job.refresh_from_db()
    assert job.result == 3
