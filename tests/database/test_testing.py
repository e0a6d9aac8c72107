"""The test kit, within a TestCase's transaction, which is where most tests are."""

import contextlib
from datetime import timedelta
from itertools import pairwise

import pytest
from django.core import mail
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from django_leasequeue import Dedup, every, registry, task
from django_leasequeue.exceptions import JobFailed
from django_leasequeue.models import Job
from django_leasequeue.pytest_fixtures import (  # noqa: F401
    capture_jobs as capture_jobs_fixture,
)
from django_leasequeue.pytest_fixtures import jobs_clock  # noqa: F401
from django_leasequeue.pytest_fixtures import run_jobs as run_jobs_fixture  # noqa: F401
from django_leasequeue.signals import job_settled, job_started
from django_leasequeue.states import Status
from django_leasequeue.testing import (
    assert_dispatched,
    assert_idempotent,
    capture_jobs,
    moving_clock,
    run_jobs,
    simulate_crash,
    simulate_lost_lease,
)
from tests import testing_tasks as tasks
from tests.helpers import in_thread
from tests.models import Effect

# A transaction of the test's own, as TestCase makes it, unless the name says otherwise.


@pytest.fixture(autouse=True)
def known(settings):
    settings.LEASEQUEUE = tasks.SETTINGS
    tasks.CALLS.clear()


def words(ran):
    return [one.word for one in ran]


# --- run_jobs


def test_jobs_are_run_in_their_order():
    """By priority, plain and async, and what jobs dispatch besides."""
    tasks.note.dispatch("last")
    tasks.note_soon.using(priority=5).dispatch("first")
    tasks.dispatch_more.using(priority=3).dispatch(1)
    ran = run_jobs()
    assert tasks.CALLS == ["first", 1, "last", 0]
    assert words(ran) == ["succeeded"] * 4
    assert ran[0].job.result == "first"
    assert ran[0].job.attempts == 1
    assert run_jobs() == []


def test_outside_of_a_transaction_too(transactional_db):
    tasks.effect_with_success.dispatch("a")
    tasks.two_steps.dispatch("b")
    assert words(run_jobs()) == ["succeeded"] * 2
    assert Effect.objects.count() == 3


@pytest.mark.parametrize(
    "mess", [tasks.leave_a_mess, tasks.leave_a_bare_mess, tasks.leave_an_atomic_mess]
)
def test_103_the_callers_transaction_is_left_as_it_was(mess):
    """Case 103: though jobs are run inside it, and one of them breaks what it is in."""
    Effect.objects.create(name="before")
    own, savepoints = connection.connection, list(connection.savepoint_ids)
    with transaction.atomic():
        Effect.objects.create(name="inside")
        mess.dispatch("broken")
        tasks.note.dispatch("after it")
        assert words(run_jobs(raises=False)) == ["failed", "succeeded"]
        assert tasks.CALLS == ["broken", "after it"]
        assert connection.connection is own and not connection.needs_rollback
        transaction.set_rollback(True)
    assert connection.savepoint_ids == savepoints
    assert [effect.name for effect in Effect.objects.all()] == ["before"]
    assert not Job.objects.exists()


def test_a_callback_breaks_nothing_and_has_its_commit():
    """Outside of a TestCase its statements are each committed as they end."""

    def end_badly(ended):
        transaction.on_commit(lambda: tasks.CALLS.append("at its commit"))
        tasks.leave_a_mess.options.func("of the callback")

    def end_well(ended):
        transaction.on_commit(lambda: tasks.note.dispatch("at its commit"))

    def run(callback):
        with_name(lambda: None, name="kit.ends", on_success=callback).dispatch()
        return words(run_jobs())

    assert run(end_badly) == ["succeeded"]
    assert tasks.CALLS == ["of the callback"]
    assert not Effect.objects.exists()
    assert run(end_well) == ["succeeded"] * 2
    assert tasks.CALLS == ["of the callback", "at its commit"]


def break_and_handle():
    """Meet an error of the database, outside of an atomic block, and go on."""
    first = Effect.objects.create(name="of a hook")
    with contextlib.suppress(IntegrityError):
        Effect.objects.create(pk=first.pk, name="of a hook")


def test_what_was_given_to_on_commit_breaks_nothing():
    def at_its_commit(*_):
        transaction.on_commit(break_and_handle)

    for options in ({}, {"atomic": True, "timeout": 60}):
        with_name(at_its_commit, on_success=at_its_commit, **options).dispatch()
        assert words(run_jobs()) == ["succeeded"]
    assert not Effect.objects.exists()


@pytest.mark.parametrize("options", [{}, {"atomic": True, "timeout": 60}])
def test_a_receiver_of_the_start_breaks_nothing(options):
    def receive(**_):
        break_and_handle()

    made = with_name(lambda: Effect.objects.create(name="of the task").name, **options)
    made.dispatch()
    job_started.connect(receive)
    try:
        assert words(run_jobs()) == ["succeeded"]
    finally:
        job_started.disconnect(receive)
    assert [effect.name for effect in Effect.objects.all()] == ["of the task"]


def test_what_a_task_does_at_its_commit_is_done_once():
    """Though the test captures what was given to on_commit, too."""
    with capture_jobs() as jobs:
        tasks.dispatch_at_commit.dispatch("x")
        assert words(run_jobs()) == ["succeeded"] * 2
        transaction.on_commit(lambda: tasks.note.dispatch("of the test"))
    assert [job.args for job in jobs] == [["x"], ["x"], ["of the test"]]
    assert words(run_jobs()) == ["succeeded"]


@pytest.mark.django_db(databases=["default", "other"])
def test_an_atomic_task_may_break_the_transaction_of_another_database():
    def write_elsewhere():
        first = Effect.objects.using("other").create(name="x")
        Effect.objects.using("other").create(pk=first.pk, name="x")

    with_name(write_elsewhere, atomic=True, timeout=60).dispatch()
    assert words(run_jobs(raises=False)) == ["failed"]
    assert not Effect.objects.using("other").exists()


@pytest.mark.django_db(databases=["default", "other"])
def test_a_transaction_that_the_test_broke_itself_stays_so():
    transaction.set_rollback(True, using="other")
    tasks.note.dispatch("x")
    assert words(run_jobs()) == ["succeeded"]
    assert transaction.get_rollback(using="other")


def test_arguments_and_results_go_through_json():
    with pytest.raises(TypeError):
        tasks.note.dispatch(timezone.now())
    tasks.note.dispatch(["a", {"b": 1}])
    [ran] = run_jobs()
    assert ran.job.result == [["a", {"b": 1}], "x"]


def test_failures_are_raised_with_their_traceback():
    tasks.fail.dispatch("as asked")
    tasks.note.dispatch("after it")
    with pytest.raises(JobFailed, match="as asked") as caught:
        run_jobs()
    assert "in fail" in caught.value.__notes__[0]
    assert tasks.CALLS == ["after it"]
    tasks.fail.dispatch("again")
    assert words(run_jobs(raises=False)) == ["failed"]


def test_queues():
    tasks.note.using(queue="mail").dispatch("mail")
    tasks.note.using(queue="other").dispatch("other")
    run_jobs(queues="mail")
    run_jobs(exclude="other")
    assert tasks.CALLS == ["mail"]


@pytest.mark.parametrize("limit", [5, 0])
def test_jobs_without_end(limit):
    tasks.dispatch_more.dispatch(9)
    with pytest.raises(AssertionError, match=f"After {limit} runs .*dispatch_more"):
        run_jobs(limit=limit)


def test_callbacks_and_signals():
    told = []

    def receive(claimed, outcome, **kwargs):
        told.append(claimed.id)

    job_settled.connect(receive)
    try:
        job = tasks.note.dispatch("x").job
        run_jobs()
    finally:
        job_settled.disconnect(receive)
    assert told == [job.pk]


@pytest.mark.parametrize("atomic", [False, True])
def test_what_a_task_does_at_its_commit(atomic):
    """A TestCase never commits; a rollback of the task's own undoes what was in it."""
    task = with_name(
        tasks.dispatch_at_commit.options.func,
        atomic=atomic,
        timeout=60,
        name="kit.late",
    )
    task.dispatch("x")
    assert words(run_jobs()) == ["succeeded"] * 2
    assert tasks.CALLS == ["x"]


def test_an_atomic_task_that_fails_leaves_nothing():
    def fail_after_all():
        tasks.make_effect("x")
        raise ValueError

    with_name(fail_after_all, atomic=True, timeout=60).dispatch()
    assert words(run_jobs(raises=False)) == ["failed"]
    assert not Effect.objects.exists()


# --- The clock


def test_retries_and_delays_in_their_time():
    tasks.third_time.dispatch("again")
    tasks.note.using(delay=900).dispatch("between")
    tasks.note.using(delay=timedelta(days=1)).dispatch("never")
    assert words(run_jobs()) == ["to be retried"]
    ran = run_jobs(through=timedelta(hours=1))
    assert tasks.CALLS == ["again", "again", "between", "again"]
    assert words(ran) == ["to be retried", "succeeded", "succeeded"]
    started = ran[0].job.started_at
    assert timedelta(0) <= ran[0].job.last_attempted_at - started
    assert ran[-1].job.finished_at - started >= timedelta(seconds=1200)
    # By then the clock is what it was.
    assert tasks.note.dispatch("now").job.created_at < ran[-1].job.finished_at


def test_a_clock_for_a_whole_block():
    with moving_clock() as clock:
        tasks.snooze_once.dispatch("x")
        assert words(run_jobs()) == ["snoozed"]
        clock.move(3000)
        assert run_jobs() == []
        clock.move(timedelta(seconds=601))
        assert words(run_jobs(through=60)) == ["succeeded"]
        assert clock.ahead == timedelta(seconds=3661)
        with moving_clock() as same:
            assert same is clock

        def elsewhere():
            with moving_clock() as another:
                return another

        with in_thread(elsewhere) as thread:
            assert thread.result() is not clock


def test_windows_of_dedup_ids(jobs_clock):  # noqa: F811
    once = tasks.note.using(dedup=Dedup("x", ttl=60))
    assert [once.dispatch("a").outcome for _ in range(2)] == ["added", "skipped"]
    jobs_clock.move(61)
    assert once.dispatch("a").outcome == "added"


def test_schedules():
    """Only if asked for: the tests of other things need none."""

    def tick():
        tasks.CALLS.append("tick")

    with_name(tick, schedule=every(minutes=10))
    run_jobs(through=timedelta(hours=1))
    assert tasks.CALLS == []
    with moving_clock() as clock:
        run_jobs(schedules=True)
        ran = run_jobs(schedules=True, through=timedelta(minutes=35))
        assert tasks.CALLS == ["tick"] * 3
        ticks = [one.job.tick for one in ran]
        assert {b - a for a, b in pairwise(ticks)} == {timedelta(minutes=10)}
        clock.move(timedelta(minutes=9))
        assert len(run_jobs(schedules=True)) == 1


def test_jobs_after_a_group():
    tasks.note.using(after_group="g").dispatch("after")
    tasks.note.using(group="g", priority=-5).dispatch("in it")
    run_jobs()
    assert tasks.CALLS == ["in it", "after"]


# --- What was dispatched


def test_capture_jobs():
    """Those of the block, by commits that a TestCase never makes, too."""
    tasks.note.dispatch("before")
    with capture_jobs() as jobs:
        tasks.note.dispatch("in it")
        transaction.on_commit(lambda: tasks.note.dispatch("at its commit"))
    tasks.note.dispatch("after")
    assert [job.args for job in jobs] == [["in it"], ["at its commit"]]
    with capture_jobs(on_commit=False) as jobs:
        transaction.on_commit(lambda: tasks.note.dispatch("never"))
    assert jobs == []


def test_assert_dispatched():
    with capture_jobs() as jobs:
        first = tasks.note.using(queue="mail", dedup="n:1").dispatch("a").job
        tasks.note.dispatch("b", other="y")
    assert assert_dispatched(tasks.note, ["a"]).pk == first.pk
    assert assert_dispatched(tasks.note, kwargs={"word": "a", "other": "x"}) == first
    assert_dispatched(tasks.note.name, ["b", "y"], times=1, jobs=jobs)
    assert_dispatched(tasks.note, times=2)
    assert_dispatched(tasks.note, queue="mail", dedup_id="n:1")
    assert assert_dispatched(tasks.note, ["c"], times=0) is None
    assert_dispatched(tasks.fail, times=0)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"args": ["c"]}, r"not dispatched with args=\['c'\]"),
        ({"times": 2}, "not dispatched 2 times but 1"),
        ({"queue": "mail"}, "queue='mail'"),
        ({"jobs": []}, "there are:\nnone"),
    ],
    ids=str,
)
def test_what_was_not_dispatched(given, why):
    """The message lists what was."""
    job = tasks.note.dispatch("a").job
    with pytest.raises(AssertionError, match=why) as caught:
        assert_dispatched(tasks.note, **given)
    assert ("jobs" in given) or f"job {job.pk}: args=['a']" in str(caught.value)


def test_arguments_that_could_never_be():
    tasks.note.dispatch("a")
    with pytest.raises(TypeError, match="fit"):
        assert_dispatched(tasks.note, ["a", "b", "c"])
    with pytest.raises(TypeError, match=r"'queu'\. Did you mean 'queue'"):
        assert_dispatched(tasks.note, times=0, queu="mail")


def test_queues_as_a_list_and_misspelt():
    tasks.note.using(queue="mail").dispatch("a")
    with pytest.raises(ValueError, match=r"the queue 'mial'\. Misspelt"):
        run_jobs(queues="mial")
    assert [one.word for one in run_jobs(queues=["mial", "mail"])] == ["succeeded"]


# --- Faults


@pytest.mark.parametrize(
    ("after", "made"),
    [
        ("start", ["x-1", "x-2"]),
        ("first", ["x-1", "x-2"]),
        ("second", ["x-1", "x-2"]),
        ("run", ["x-1", "x-2"]),
    ],
)
@pytest.mark.parametrize("steps", [tasks.two_steps, tasks.two_steps_soon])
def test_a_crash_between_steps(steps, after, made):
    """Each step is done once; the run that is cut short counts as no attempt."""
    job = steps.dispatch("x").job
    with simulate_crash(after=after) as crash:
        ran = run_jobs()
    assert words(ran) == ["crashed", "succeeded"]
    assert crash.happened == 1
    assert list(Effect.objects.order_by("pk").values_list("name", flat=True)) == made
    job.refresh_from_db()
    assert (job.attempts, job.claims) == (1, 2)
    assert "as the test asked" in job.errors[0]["message"]


def test_an_atomic_task_that_crashes_has_done_nothing():
    tasks.effect_with_success.dispatch("x")
    with simulate_crash():
        ran = run_jobs()
    assert words(ran) == ["crashed", "succeeded"]
    assert Effect.objects.count() == 1


def test_too_many_crashes(settings):
    settings.LEASEQUEUE = {**tasks.SETTINGS, "MAX_RECOVERIES": 2}
    tasks.note.dispatch("x")
    with simulate_crash(times=3):
        ran = run_jobs(raises=False)
    assert words(ran) == ["crashed"] * 3 + ["failed"]
    assert ran[-1].job.errors[-1]["exception_class"].endswith("WorkersLost")


def test_a_crash_of_one_task_alone():
    tasks.note.dispatch("x")
    tasks.note_soon.dispatch("y")
    with simulate_crash(task=tasks.note_soon):
        ran = run_jobs()
    assert [one.task for one in ran if one.word == "crashed"] == [tasks.note_soon.name]


@pytest.mark.parametrize("simulate", [simulate_crash, simulate_lost_lease])
def test_what_never_happens_is_told(simulate):
    tasks.note.dispatch("x")
    why = "no run .* They came by 'start', 'run'"
    with pytest.raises(AssertionError, match=why), simulate(after="no such step"):
        run_jobs()
    tasks.note.dispatch("y")
    assert words(run_jobs()) == ["succeeded"]


@pytest.mark.parametrize("after", ["start", "run"])
def test_a_lost_lease(after):
    """The run knows, its outcome is refused by the database, and the job runs again."""
    job = tasks.checked.dispatch("x").job
    with simulate_lost_lease(after=after):
        ran = run_jobs()
    assert words(ran) == ["lost", "succeeded"]
    assert [("x", after == "start"), ("x", False)] == tasks.CALLS
    assert Effect.objects.count() == (1 if after == "start" else 2)
    job.refresh_from_db()
    assert (job.status, job.attempts, job.recoveries) == (Status.SUCCEEDED, 1, 1)


def test_a_lease_that_is_lost_at_a_step():
    tasks.two_steps.dispatch("x")
    with simulate_lost_lease(after="first"):
        ran = run_jobs()
    assert words(ran) == ["lost", "succeeded"]
    assert Effect.objects.count() == 2


# --- assert_idempotent


@pytest.mark.parametrize(
    "task",
    [tasks.effect_once, tasks.effect_with_success, tasks.two_steps, tasks.note],
    ids=str,
)
def test_idempotent_tasks(task):
    """By looking first, by being atomic, by steps, by doing nothing."""
    job = assert_idempotent(task, ["x"])
    assert (job.status, job.claims) == (Status.SUCCEEDED, 2)


def test_a_task_that_does_harm():
    with pytest.raises(AssertionError, match=r"tests\.Effect \d+ is new"):
        assert_idempotent(tasks.effect_each_time, ["x"])
    assert_idempotent(tasks.effect_each_time, ["x"], ignore=["tests.Effect"])


def test_changes_and_mails_are_seen():
    Effect.objects.create(name="x", pid=1)

    @with_name
    def count_up():
        effect = Effect.objects.get()
        effect.pid += 1
        effect.save()

    @with_name
    def send():
        mail.outbox.append("a mail")

    with pytest.raises(AssertionError, match="pid was 2, is 3"):
        assert_idempotent(count_up)
    assert_idempotent(count_up, ignore=["tests.Effect.pid"])
    with pytest.raises(AssertionError, match="mail 1 is new"):
        assert_idempotent(send)


def with_name(function, **options):
    function.__module__ = "tests.testing_tasks"
    return task(**{"name": f"kit.{function.__name__}", **options})(function)


@pytest.fixture(autouse=True)
def own_tasks(monkeypatch):
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))


def test_a_task_that_fails_is_told():
    with pytest.raises(JobFailed):
        assert_idempotent(tasks.fail, ["x"])
    with pytest.raises(AssertionError, match="to be retried"):
        assert_idempotent(tasks.retry, ["x"])


# --- Fixtures


def test_the_fixtures(run_jobs_fixture, capture_jobs_fixture):  # noqa: F811
    with capture_jobs_fixture() as jobs:
        tasks.note.dispatch("x")
    assert words(run_jobs_fixture()) == ["succeeded"]
    assert len(jobs) == Job.objects.count() == 1
