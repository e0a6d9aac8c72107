"""Failures of other queues that a dedup id must not repeat, each by its number in CASES."""

from datetime import timedelta

import pytest

from django_leasequeue import Dedup
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Failed, RetryLater, Succeeded
from tests.factories import JobFactory
from tests.road import claim, row, table
from tests.tasks import add

ERROR = {"exception_class": "builtins.ValueError", "message": "as asked"}


def dispatch(*args, dedup="k", **options):
    return Job.objects.dispatch(add, args or (1, 2), dedup=dedup, **options)


def settle(job, outcome):
    return Job.objects.settle([(job, outcome)])[0].verdict.value


def window_ends(job):
    Job.objects.filter(pk=job.pk).update(dedup_until=DatabaseNow(-1))


# --- 021: the key guards more than waiting jobs


def test_021_a_running_job_keeps_its_id():
    """A second dispatch is skipped, and a second worker finds nothing to run."""
    first = dispatch().job
    (running,) = claim()
    assert dispatch().outcome == "skipped"
    assert claim() == []
    assert [job.pk for job in Job.objects.running()] == [first.pk] == [running.id]


# --- 022: no gap between the states

STATES = {
    "delayed": ({"scheduled": True}, "skipped"),
    "ready": ({}, "skipped"),
    "blocked": ({"blocked": True}, "skipped"),
    "running": ({"leased": True}, "skipped"),
    "cancel asked for": (
        {"leased": True, "cancel_requested_at": DatabaseNow()},
        "skipped",
    ),
    "waiting for retry": ({"scheduled": True, "attempts": 1, "claims": 1}, "skipped"),
    "lease run out": ({"expired": True}, "skipped"),
    "done": ({"succeeded": True}, "added"),
    "failed": ({"failed": True}, "added"),
    "cancelled": ({"cancelled": True}, "added"),
}


@pytest.mark.parametrize("state", STATES)
def test_022_every_state_counts_as_one_or_the_other(state):
    """Skipped for each unfinished state, added for each finished one."""
    traits, word = STATES[state]
    JobFactory(queue="default", dedup_id="k", dedup_hold="finished", **traits)
    assert dispatch().outcome == word
    assert Job.objects.filter(dedup_id="k").count() == 1


# --- 023, 024: replace meets a run


@pytest.mark.parametrize("rerun", [False, True])
def test_023_replace_during_a_run_breeds_no_copies(rerun):
    """Five of them: all skipped, or with rerun one follower, after the first has ended."""
    dispatch("a", "b")
    (running,) = claim()
    for number in range(5):
        asked = Dedup("k", replace=True, rerun=rerun)
        done = dispatch(number, number, dedup=asked)
        assert (done.job.pk, done.outcome) == (
            running.id,
            "rerun" if rerun else "skipped",
        )
        assert claim() == []
    assert settle(running, Succeeded("3")) == "written"
    followers = claim()
    assert [job.args for job in followers] == (["[4,4]"] if rerun else [])
    assert Job.objects.count() == 1


def test_024_replace_leaves_the_arguments_of_a_run_alone():
    """The row shows what really runs, also in the error of its failure."""
    dispatch("payload", "A")
    (running,) = claim()
    assert dispatch("payload", "B", dedup=Dedup("k", replace=True)).outcome == "skipped"
    during = row(running)
    assert during["args"] == ["payload", "A"]
    assert during["next_args"] is None
    settle(running, Failed(ERROR))
    assert row(running)["args"] == ["payload", "A"]


# --- 026: the end of a window


def test_026_after_its_window_the_old_job_still_runs():
    """A second is added beside it, and both are run."""
    old = dispatch(dedup=Dedup("k", ttl=2), delay=10).job
    window_ends(old)
    before = row(old)
    new = dispatch(3, 4, dedup=Dedup("k", ttl=2))
    assert new.added
    assert row(old) == {**before, "dedup_id": None, "released_dedup_id": "k"}
    Job.objects.filter(pk=old.pk).update(run_at=DatabaseNow(-1))
    assert {job.id for job in claim()} == {old.pk, new.job.pk}


def test_026_replace_swaps_the_arguments_only():
    """Not the priority, the queue or the time, unless it is to postpone."""
    first = dispatch(delay=10).job
    before = row(first)
    done = dispatch(3, 4, dedup=Dedup("k", replace=True), priority=50, delay=99)
    assert (done.job.pk, done.outcome) == (first.pk, "replaced")
    after = row(first)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"args", "suppressed", "last_suppressed_at"}
    assert dispatch(dedup=Dedup("k", replace=True), queue="other").added


def test_026_replace_leaves_finished_jobs_alone():
    """A job that is kept as history, or whose window lasts on, keeps its arguments."""
    dispatch(dedup=Dedup("k", ttl=600))
    (running,) = claim()
    settle(running, Succeeded("3"))
    asked = Dedup("k", replace=True)
    assert dispatch(3, 4, dedup=asked).outcome == "skipped"
    assert row(running)["args"] == [1, 2]
    Job.objects.filter(pk=running.id).update(dedup_until=DatabaseNow(-1))
    assert dispatch(3, 4, dedup=asked).added
    assert row(running)["args"] == [1, 2]


# --- 028: an old job goes back to pending where a newer one has its id


@pytest.mark.parametrize("end", ["retry", "lease ends", "worker dies", "given back"])
def test_028_an_old_job_comes_back_beside_its_newer_twin(end):
    """It runs on without the id; the twin, and all other jobs, are as they were."""
    old = dispatch(dedup=Dedup("k", ttl=600), max_attempts=3).job
    (running,) = claim()
    window_ends(old)
    new = dispatch(dedup=Dedup("k", ttl=600)).job
    others = JobFactory.create_batch(3, queue="default")
    twin = row(new)
    if end == "retry":
        assert settle(running, RetryLater(timedelta(0), ERROR)) == "written"
    elif end == "lease ends":
        Job.objects.filter(pk=old.pk).update(processing_until=DatabaseNow(-1))
    else:
        death = "killed by SIGKILL" if end == "worker dies" else None
        assert Job.objects.release(running.token, death=death) == {old.pk}
    assert row(new) == twin
    taken = claim()
    assert {job.id for job in taken} == {old.pk, new.pk, *(job.pk for job in others)}
    after = row(old)
    assert (after["dedup_id"], after["released_dedup_id"]) == (None, "k")
    assert {settle(job, Succeeded("3")) for job in taken} == {"written"}
    assert Job.objects.get(dedup_id="k").pk == new.pk


# --- 038: bulk


@pytest.mark.django_db(transaction=True)
def test_038_a_batch_minds_the_ids():
    """One answer for each, and one row for each id: against the table, and within the batch."""
    waiting = dispatch().job
    done = Job.objects.dispatch_many(
        add.using(dedup=key).spec(1, 2) for key in ["k", "k", "j"]
    )
    assert [one.outcome for one in done] == ["skipped", "skipped", "added"]
    assert [one.job.pk for one in done[:2]] == [waiting.pk] * 2
    assert row(waiting)["suppressed"] == 2
    done = Job.objects.dispatch_many(add.using(dedup="m").spec(n, 2) for n in (1, 2))
    assert [one.outcome for one in done] == ["added", "skipped"]
    assert done[0].job.pk == done[1].job.pk
    stored = row(done[0].job)
    assert (stored["args"], stored["suppressed"]) == ([1, 2], 1)
    assert Job.objects.count() == 3


# --- 043: odd windows


@pytest.mark.parametrize("ttl", [0, -1, 0.0, timedelta(0), float("nan"), float("inf")])
def test_043_a_window_that_is_none_is_refused(ttl):
    """An error where it is written, and no job."""
    with pytest.raises(ValueError, match="ttl must be"):
        dispatch(dedup=Dedup("k", ttl=ttl))
    assert table() == {}


@pytest.mark.parametrize(
    "ttl", [0.001, timedelta(milliseconds=1), 2.5, timedelta(days=36_525), 86_400]
)
def test_043_every_other_window_is_as_long_as_it_says(ttl):
    """A millisecond, half a second, a century."""
    stored = row(dispatch(dedup=Dedup("k", ttl=ttl)).job)
    length = ttl if isinstance(ttl, timedelta) else timedelta(seconds=ttl)
    assert stored["dedup_ttl"] == length
    assert stored["dedup_until"] - stored["created_at"] == length


def test_043_extend_keeps_the_length_that_the_window_has():
    """Whatever length the second dispatch names: the first one's rules stand."""
    first = dispatch(dedup=Dedup("k", ttl=600)).job
    done = dispatch(dedup=Dedup("k", ttl=5, extend=True))
    stored = row(first)
    assert done.outcome == "extended"
    assert stored["dedup_ttl"] == timedelta(seconds=600)
    moved = stored["dedup_until"] - stored["last_suppressed_at"]
    assert moved == timedelta(seconds=600)


def test_043_extend_of_a_job_without_a_window_changes_nothing():
    """And says so."""
    first = dispatch().job
    assert dispatch(dedup=Dedup("k", ttl=600, extend=True)).outcome == "skipped"
    assert row(first)["dedup_until"] is None


@pytest.mark.parametrize("flags", [{"extend": True}, {"postpone": True}])
def test_043_flags_without_what_they_need_are_refused(flags):
    """extend without a ttl, postpone without replace."""
    with pytest.raises(ValueError, match=r"needs a ttl|goes with replace"):
        Dedup("k", **flags)


def test_043_extend_during_a_run(django_capture_on_commit_callbacks):
    """The window moves, the run does not notice."""
    first = dispatch(dedup=Dedup("k", ttl=600)).job
    (running,) = claim()
    Job.objects.filter(pk=first.pk).update(dedup_until=DatabaseNow(60))
    before = row(first)
    with django_capture_on_commit_callbacks(execute=True):
        assert dispatch(dedup=Dedup("k", ttl=1, extend=True)).outcome == "extended"
    after = row(first)
    assert after["dedup_until"] > before["dedup_until"] + timedelta(seconds=500)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"dedup_until", "suppressed", "last_suppressed_at"}
    assert settle(running, Succeeded("3")) == "written"
    # The window holds the id beyond the end of the run.
    assert dispatch().outcome == "skipped"
