"""Prune: what the rules of retention keep, what goes, and in which steps."""

import pytest

from django_leasequeue import Dedup
from django_leasequeue.conf import conf
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.retention import Rule
from django_leasequeue.states import FINAL, Status
from django_leasequeue.transitions import prune as pruning
from django_leasequeue.transitions.settle import Verdict
from django_leasequeue.worker import runner
from tests import readme
from tests.claims import context_of
from tests.factories import JobFactory
from tests.processes import ROOT
from tests.road import claim, statements, table, toy
from tests.tasks import add
from tests.token_guard import guarded

DAY = 24 * 3600
# As the factories name it: a row of it is of a registered task.
ADD = "tests.tasks.add"
# One that no process knows.
GONE = "shop.tasks.removed_long_ago"


def finished(status="succeeded", *, ago=0, **fields):
    """A job that finished so many seconds ago."""
    return JobFactory(**{status: True}, finished_at=DatabaseNow(-ago), **fields)


def prune(settings=None, rules=None, **options):
    if settings is not None:
        settings.LEASEQUEUE = rules
    return dict(Job.objects.prune(**options))


# --- Ages


@pytest.mark.parametrize(
    "status, days", [("succeeded", 1), ("failed", 30), ("cancelled", 30)]
)
def test_the_default_ages(status, days):
    finished(status, ago=days * DAY + 60)
    young = finished(status, ago=days * DAY - 60)
    assert prune() == {status: 1}
    assert set(table()) == {young.pk}


def test_what_has_not_finished_is_never_removed(settings):
    """Whatever its age, even where nothing is kept."""
    old = {"created_at": DatabaseNow(-900 * DAY), "run_at": DatabaseNow(-900 * DAY)}
    JobFactory(**old)
    JobFactory(**old, leased=True)
    JobFactory(**old, expired=True)
    JobFactory(**old, leased=True, rerun=True)
    JobFactory(**old, scheduled=True)
    before = table()
    assert prune(settings, {"RETENTION": 0}) == {}
    assert table() == before


@pytest.mark.parametrize(
    "rules, left",
    [
        ({"RETENTION": None}, {"succeeded", "failed", "cancelled"}),
        ({"RETENTION": {"succeeded": None}}, {"succeeded"}),
        ({"RETENTION": {"failed": None, "cancelled": None}}, {"failed", "cancelled"}),
        ({"RETENTION": 0}, set()),
        ({"RETENTION": 300 * DAY}, set()),
        ({"RETENTION": 500 * DAY}, {"succeeded", "failed", "cancelled"}),
        ({"RETENTION": {"age": 500 * DAY}}, {"succeeded", "failed", "cancelled"}),
    ],
)
def test_rules_by_status(settings, rules, left):
    for status in ("succeeded", "failed", "cancelled"):
        finished(status, ago=400 * DAY)
    prune(settings, rules)
    assert {values["status"] for values in table().values()} == left


def test_the_task_comes_before_its_queue_and_that_before_the_project(settings):
    """Status by status: what the one does not say the next one does."""
    settings.LEASEQUEUE = {
        "RETENTION": {"succeeded": 3 * DAY},
        "QUEUES": {"mail": {"RETENTION": {"succeeded": 2 * DAY, "failed": 2 * DAY}}},
    }

    def mine():
        """A task."""

    ages = [DAY, 2 * DAY, 3 * DAY, 30 * DAY]
    with toy(mine, name="tests.mine", retention={"succeeded": DAY}):
        for task in ("tests.mine", ADD, GONE):
            for queue in ("mail", "other"):
                for status in ("succeeded", "failed"):
                    for age in ages:
                        finished(status, ago=age - 60, task=task, queue=queue)
        prune()
    kept = {}
    for values in table().values():
        lane = values["task"], values["queue"], values["status"]
        kept[lane] = kept.get(lane, 0) + 1
    assert kept == {
        ("tests.mine", "mail", "succeeded"): 1,
        ("tests.mine", "mail", "failed"): 2,
        ("tests.mine", "other", "succeeded"): 1,
        ("tests.mine", "other", "failed"): 4,
        (ADD, "mail", "succeeded"): 2,
        (ADD, "mail", "failed"): 2,
        (ADD, "other", "succeeded"): 3,
        (ADD, "other", "failed"): 4,
        # Nobody knows it any more: as its queue says, and the project.
        (GONE, "mail", "succeeded"): 2,
        (GONE, "mail", "failed"): 2,
        (GONE, "other", "succeeded"): 3,
        (GONE, "other", "failed"): 4,
    }


def test_a_task_under_a_former_name(settings):
    """A row that holds an alias is the task's all the same."""
    settings.LEASEQUEUE = {"RETENTION": 0}

    def mine():
        """A task."""

    with toy(mine, name="tests.mine", aliases=["tests.former"], retention=None):
        job = finished(task="tests.former", ago=DAY)
        assert prune() == {}
    assert set(table()) == {job.pk}
    assert prune() == {"succeeded": 1}


# --- Counts


def test_171_the_newest_are_kept_exactly(settings):
    """Case 171: so many of each task in a queue and of each status, whatever others do."""
    settings.LEASEQUEUE = {"RETENTION": {"succeeded": {"count": 3}, "failed": None}}
    expected = set()
    for task in (ADD, GONE):
        for queue in ("a", "b"):
            jobs = [
                finished(ago=100 - n, task=task, queue=queue, attempts=n)
                for n in range(7)
            ]
            expected.update(job.pk for job in jobs[-3:])
        expected.add(finished("failed", ago=DAY, task=task).pk)
    finished(task="tests.rare", ago=999 * DAY)
    expected.add(Job.objects.latest("pk").pk)
    assert prune() == {"succeeded": 16}
    assert set(table()) == expected
    assert prune() == {}


def test_171_of_jobs_that_finished_at_one_instant(settings):
    """The later row counts as the newer one, and no row more goes."""
    settings.LEASEQUEUE = {"RETENTION": {"count": 2}}
    moment = finished().finished_at
    Job.objects.all().delete()
    jobs = [JobFactory(succeeded=True, finished_at=moment) for _ in range(5)]
    assert prune() == {"succeeded": 3}
    assert set(table()) == {job.pk for job in jobs[-2:]}


@pytest.mark.parametrize("total, left", [(2, 2), (3, 3), (4, 3)])
def test_171_at_the_limit(settings, total, left):
    settings.LEASEQUEUE = {"RETENTION": {"count": 3}}
    for number in range(total):
        finished(ago=number)
    prune()
    assert len(table()) == left


def test_age_and_count(settings):
    """A job has to be within both."""
    settings.LEASEQUEUE = {"RETENTION": {"age": 100, "count": 4}}
    by_age = [finished(ago=ago) for ago in (10, 20, 150, 160)]
    # The newest is made last, so that a slow machine changes no order.
    by_count = [finished(ago=ago, queue="busy") for ago in (6, 5, 4, 3, 2, 1)][::-1]
    assert prune() == {"succeeded": 4}
    assert set(table()) == {job.pk for job in [*by_age[:2], *by_count[:4]]}


# --- Dedup ids


@pytest.mark.parametrize("rules", [{"RETENTION": 0}, {"RETENTION": {"count": 1}}])
def test_a_row_stays_while_its_window_lasts(settings, rules):
    settings.LEASEQUEUE = rules
    held = finished(ago=60, dedup_id="a", dedup_until=DatabaseNow(600))
    over = finished(ago=60, dedup_id="b", dedup_until=DatabaseNow(-1))
    given_away = finished(ago=60, released_dedup_id="a", dedup_until=DatabaseNow(600))
    finished(ago=60, dedup_id="c", dedup_hold="removed")
    newest = finished(ago=0, dedup_id="d", dedup_hold="finished")
    prune()
    left = {held.pk} | ({newest.pk} if "count" in str(rules) else set())
    assert set(table()) == left
    assert not {over.pk, given_away.pk} & left
    Job.objects.filter(pk=held.pk).update(dedup_until=DatabaseNow(-1))
    prune()
    assert held.pk not in table()


def test_an_id_that_is_held_until_the_row_is_removed_is_free_then():
    """The age of the retention is how long `until="removed"` holds an id."""
    door = add.using(dedup=Dedup("mine", until="removed"))
    first = door.dispatch(1, 2).job
    Job.objects.filter(pk=first.pk).update(
        status="succeeded", finished_at=DatabaseNow(-2 * DAY)
    )
    assert door.dispatch(1, 2).outcome == "skipped"
    assert prune() == {"succeeded": 1}
    assert door.dispatch(1, 2).outcome == "added"


# --- How


def test_dry_run_counts_and_removes_nothing(settings):
    settings.LEASEQUEUE = {"RETENTION": {"age": 100, "count": 2}}
    for ago in (1, 2, 3, 150):
        finished(ago=ago)
        finished("failed", ago=ago, queue="other")
    finished(ago=500, dedup_id="a", dedup_until=DatabaseNow(600))
    before = table()
    would = prune(dry_run=True)
    assert would == {"succeeded": 2, "failed": 2}
    assert table() == before
    assert prune() == would


def test_one_queue_alone():
    for queue in ("a", "b", "c"):
        finished(ago=2 * DAY, queue=queue)
    assert prune(queue="b") == {"succeeded": 1}
    assert {values["queue"] for values in table().values()} == {"a", "c"}
    assert prune(queue="none such") == {}


def test_166_it_goes_in_steps_and_stops_when_told(monkeypatch):
    """Case 166: what a step has removed is removed, whatever becomes of the next."""
    monkeypatch.setattr(pruning, "ROWS", 3)
    for _ in range(10):
        finished(ago=2 * DAY)
    seen = []

    def after_step():
        seen.append(len(table()))
        return len(seen) < 2

    assert prune(after_step=after_step) == {"succeeded": 6}
    assert seen == [7, 4]
    assert prune() == {"succeeded": 4}


def test_rows_that_stay_are_passed_once(monkeypatch):
    """A window that lasts neither ends a walk nor makes it go round."""
    monkeypatch.setattr(pruning, "ROWS", 2)
    moment = finished(ago=3 * DAY).finished_at
    for number in range(9):
        stays = number % 3 != 0
        JobFactory(
            succeeded=True,
            finished_at=moment,
            dedup_id=str(number),
            dedup_until=DatabaseNow(600 if stays else -1),
        )
    steps = []
    assert prune(after_step=lambda: steps.append(1) or True) == {"succeeded": 4}
    assert len(steps) == 6
    assert len(table()) == 6


def test_the_clock_is_the_databases(settings, monkeypatch):
    """No statement has a time of this host in it, however wrong its clock is."""
    settings.LEASEQUEUE = {"RETENTION": 100}
    monkeypatch.setattr("django_leasequeue.clock.now", lambda: 0.0)
    finished(ago=10)
    finished(ago=101)
    assert prune() == {"succeeded": 1}


def test_every_delete_asks_again_whether_the_job_has_ended():
    """Beside the lock on the row, which one day somebody may find too dear."""
    finished(ago=2 * DAY)
    with guarded(), statements() as seen:
        assert prune() == {"succeeded": 1}
    # Then its steps and what it waited for.
    delete, *others = [sql for sql in seen if sql.startswith("DELETE")]
    assert len(others) == 2
    assert "status" in delete and "dedup_until" in delete


def test_nothing_to_do_costs_a_few_looks():
    """Two reads for each status, queue and task, and no lock and no transaction."""
    for queue in ("a", "b"):
        for _ in range(5):
            finished(queue=queue)
    with statements() as seen:
        assert prune() == {}
    assert len(seen) <= 12, seen
    assert all(sql.startswith("SELECT") and "FOR UPDATE" not in sql for sql in seen)


def test_the_docs_are_right(settings):
    """The settings of docs/retention.md do what the lines beside them say."""
    text = (ROOT / "docs/retention.md").read_text()
    [code] = readme.blocks("python", text)
    exec(code, found := {})
    settings.LEASEQUEUE = found["LEASEQUEUE"]
    assert conf.problems() == []
    assert conf.retention("audit") == dict.fromkeys(FINAL, Rule())
    assert conf.retention("mail") == {
        "succeeded": Rule(3600),
        "failed": Rule(90 * DAY, 1000),
        "cancelled": Rule(0),
    }


def test_only_on_the_whole_queue():
    """As the other verbs: a filter would be ignored."""
    with pytest.raises(TypeError, match="whole table"):
        Job.objects.filter(queue="a").prune()
    assert Job.objects.prune.alters_data


def test_064_a_job_that_was_lost_too_often_is_kept_as_any_failure(settings):
    """With the reason, though nothing else is kept."""
    settings.LEASEQUEUE = {
        "MAX_RECOVERIES": 1,
        "RETENTION": {"succeeded": 0, "cancelled": 0},
    }
    job = add.dispatch(1, 2).job
    for _ in range(2):
        (held,) = claim()
        Job.objects.release(held.token, death="killed by SIGKILL", alone=True)
    (held,) = claim()
    outcome = runner.run(held, context_of(held))
    assert Job.objects.settle([(held, outcome)])[0].verdict is Verdict.WRITTEN
    Job.objects.prune()
    kept = table()[job.pk]
    assert kept["status"] == Status.FAILED
    assert [error["message"] for error in kept["errors"][:2]] == [
        "The worker was lost: killed by SIGKILL."
    ] * 2
    assert "WorkersLost" in kept["errors"][-1]["exception_class"]
