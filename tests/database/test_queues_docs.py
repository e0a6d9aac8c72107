"""The Python and the commands of docs/queues.md do what the text beside them says."""

import shlex

import pytest
from django.core.management import call_command

from django_leasequeue.conf import PER_QUEUE, conf
from django_leasequeue.models import Queue
from django_leasequeue.selection import Selection
from tests import readme, tasks
from tests.processes import ROOT
from tests.road import toy

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = (ROOT / "docs/queues.md").read_text()
SETTINGS, PAUSE, RUN = readme.blocks("python", TEXT)


def test_settings(settings):
    exec(SETTINGS, found := {})
    settings.LEASEQUEUE = found["LEASEQUEUE"]
    assert conf.problems() == []
    assert conf.lease("video") == 3600
    assert conf.lease("mail") == 300
    sentence = TEXT.partition("can be set for one queue")[0].rpartition("\n\n")[2]
    assert {f"`{key}`" for key in PER_QUEUE} == {
        word.strip(",") for word in sentence.split() if word.startswith("`")
    }


def test_order():
    """Each row of the table is a selection that does so."""
    wanted = {
        '`--queues "*"` (the default)': [0, 0, 0],
        '`--queues "urgent,*"`': [0, 1, 1],
        '`--queues "*,slow"`': [0, 0, 1],
        "`--queues mail,reports`": [None, 0, None],
        "`--exclude video`": [0, 0, 0],
    }
    rows = [cells[0] for cells in readme.table("| takes", TEXT)]
    assert rows == list(wanted)
    for row, ranks in wanted.items():
        option, value = shlex.split(row.strip("`").partition("`")[0])
        selection = Selection.parse(**{option.removeprefix("--"): value})
        found = [selection.rank(queue) for queue in ("urgent", "mail", "slow")]
        assert found == ranks, row
    assert Selection.parse(exclude="video").rank("video") is None


def test_pause():
    exec(PAUSE, {})
    row = Queue.objects.get()
    assert (row.paused_by, row.resumed_by) == ("ann", "bob")
    assert not row.is_paused


def test_run_one_job(capsys):
    with toy(lambda year: None, name="report") as build_report:
        run = RUN.replace("run_job(job.pk)", "ended = run_job(job.pk)")
        exec(run, found := {"build_report": build_report})
    assert f'# "{found["ended"]}"' in RUN
    [line] = readme.blocks("console", TEXT)[1].splitlines()
    assert line == "$ python manage.py runjobs --job 41"
    job = tasks.add.dispatch(1, 2).job
    call_command("runjobs", f"--job={job.pk}")
    job.refresh_from_db()
    assert job.result == 3


def test_pause_by_command(capsys):
    for line in readme.blocks("console", TEXT)[0].splitlines():
        words = shlex.split(line)
        assert words[:3] == ["$", "python", "manage.py"]
        call_command(*words[3:])
    said = capsys.readouterr().out
    assert "Paused queue 'mail'." in said and "Resumed queue 'mail'." in said
    assert Queue.objects.get().reason == "The provider is down."
