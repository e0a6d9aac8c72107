"""Dedup between rivals: callers, workers and batches that want one id at one time."""

import os
import threading
from contextlib import ExitStack

import pytest
from django.conf import settings
from django.db import connection, transaction

from django_leasequeue import Dedup, db, ownership
from django_leasequeue.db import DatabaseNow, locks
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.transitions.dispatch import insert
from django_leasequeue.transitions.dispatch import one as dispatching
from django_leasequeue.transitions.dispatch import owner as owners
from django_leasequeue.transitions.settle import Verdict
from tests.callers import caller
from tests.factories import JobFactory
from tests.helpers import DEADLINE, eventually, in_thread, paused, together
from tests.road import claim, claim_under_way, row
from tests.tasks import add

# Times as many rounds of each race; 1 is enough to see it, 10 is for changes of the locks.
TIMES = int(os.environ.get("LEASEQUEUE_TEST_ROUNDS", "1"))

with_row_locks = pytest.mark.skipif(
    settings.DATABASE == "sqlite", reason="no row locks: whoever writes is alone"
)


def dispatch(dedup, *args):
    return Job.objects.dispatch(add, args or (1, 2), dedup=dedup)


def owner(**columns):
    """A job that has an id, until it has finished unless `columns` say otherwise."""
    return JobFactory(queue="default", **{"dedup_hold": "finished", **columns})


def in_background(function):
    """Call it in a thread and return what it returned; fails if something holds it up."""
    with in_thread(function) as background:
        return background.result()


def finish(job):
    return Job.objects.settle([(job, Succeeded("3"))])[0].verdict


# --- One id, many callers


def test_014_one_job_of_one_id():
    """32 callers at once: one adds, and each other is told which job won."""
    rounds, callers = 20 * TIMES, 32
    gate = threading.Barrier(callers)

    def dispatch_in_each_round(_):
        done = []
        for number in range(rounds):
            gate.wait(2 * DEADLINE)
            done.append(dispatch(f"k{number}"))
        return done

    results = together(callers, dispatch_in_each_round, timeout=6 * DEADLINE)
    for number in range(rounds):
        of_round = [of_caller[number] for of_caller in results]
        winner = Job.objects.get(dedup_id=f"k{number}")
        assert [one.added for one in of_round].count(True) == 1
        assert {one.outcome for one in of_round} == {"added", "skipped"}
        assert {one.job.pk for one in of_round} == {winner.pk}
    assert Job.objects.count() == rounds


def test_014_one_job_of_an_id_that_is_taken_over():
    """The same where the id's former job has finished: its id moves once."""
    rounds, callers = 10 * TIMES, 16
    gate = threading.Barrier(callers)
    former = [owner(succeeded=True, dedup_id=f"k{n}") for n in range(rounds)]

    def dispatch_in_each_round(_):
        done = []
        for number in range(rounds):
            gate.wait(2 * DEADLINE)
            done.append(dispatch(f"k{number}"))
        return done

    results = together(callers, dispatch_in_each_round, timeout=6 * DEADLINE)
    for number in range(rounds):
        of_round = [of_caller[number] for of_caller in results]
        winner = Job.objects.get(dedup_id=f"k{number}")
        assert winner.pk != former[number].pk
        assert [one.added for one in of_round].count(True) == 1
        assert {one.job.pk for one in of_round} == {winner.pk}
        assert row(former[number].pk)["released_dedup_id"] == f"k{number}"
    assert Job.objects.count() == 2 * rounds


@with_row_locks
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("former", [False, True], ids=["new id", "taken over"])
def test_a_rival_that_has_not_committed_is_waited_for(ends, inside, former):
    """If it commits its job is the answer; if it rolls back the id is ours."""
    if former:
        owner(failed=True, dedup_id="k")
    with caller() as rival, caller() as other:
        rival.begin()
        theirs = rival.do(dispatch, "k").job
        if inside:
            other.begin()
        ours = other.start(dispatch, "k")
        if former and connection.vendor == "mysql":
            other.wait_until_sent("NOWAIT")
        else:
            other.wait_until_blocked()
        assert not ours.done()
        getattr(rival, ends)()
        done = ours.result(DEADLINE)
        if inside:
            other.commit()
    holder = Job.objects.get(dedup_id="k")
    assert done.job.pk == holder.pk
    if ends == "commit":
        assert done.outcome == "skipped"
        assert holder.pk == theirs.pk
    else:
        assert done.added
        assert Job.objects.filter(pk=theirs.pk).count() == 0
    assert Job.objects.count() == 1 + former


# --- A slow caller


@with_row_locks
def test_a_pending_holder_does_not_start_before_the_caller_commits():
    """The caller's rows are there when the job that it relies on runs."""
    job = dispatch("k").job
    with caller() as slow:
        slow.begin()
        assert slow.do(dispatch, "k").job.pk == job.pk
        assert in_background(claim) == []
        slow.commit()
    assert [one.id for one in claim()] == [job.pk]


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"ttl": 600, "extend": True},
        {"replace": True},
        {"replace": True, "ttl": 600, "extend": True, "postpone": True},
    ],
    ids=["plain", "extend", "replace", "all of them"],
)
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
@with_row_locks
def test_a_slow_caller_does_not_hold_up_the_run_that_it_skips(rules, many):
    """Renewals and the outcome get through at once, however long its transaction lasts."""
    first = dispatch(Dedup("k", ttl=600, until="finished")).job
    (job,) = claim()
    ends = row(first)["processing_until"]
    word = "extended" if "extend" in rules else "skipped"
    with caller() as slow:
        slow.begin()
        if many:
            spec = add.using(dedup=Dedup("k", **rules)).spec(3, 4)
            (done,) = slow.do(Job.objects.dispatch_many, [spec])
        else:
            done = slow.do(dispatch, Dedup("k", **rules), 3, 4)
        assert (done.job.pk, done.outcome) == (first.pk, word)
        renewal = in_background(lambda: Job.objects.renew(job.token))
        assert renewal.renewed == {job.id}
        assert row(first)["processing_until"] > ends
        assert in_background(lambda: finish(job)) is Verdict.WRITTEN
        slow.commit()
    after = row(first)
    assert after["status"] == "succeeded"
    assert (after["recoveries"], after["claims"], after["args"]) == (0, 1, [1, 2])
    # The count, and the new window, are written when the caller has committed.
    assert after["suppressed"] == 1


@with_row_locks
def test_a_rerun_by_a_caller_slower_than_the_lease_costs_the_run(settings):
    """The job is locked until the caller commits, so that its lease ends: one recovery."""
    settings.LEASEQUEUE = {"LEASE": 1, "SAFETY_BUFFER": 0.3}
    first = dispatch("k").job
    (job,) = claim()
    with caller() as slow:
        slow.begin()
        assert slow.do(dispatch, Dedup("k", rerun=True)).outcome == "rerun"
        past = Job.objects.filter(pk=first.pk, processing_until__lt=DatabaseNow())
        eventually(past.exists)
        assert finish(job) is Verdict.LOST
        assert claim() == []
        slow.commit()
    (again,) = claim()
    assert (again.id, row(first)["claims"]) == (first.pk, 2)


@with_row_locks
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_no_lock_stays_on_a_job_that_starts_meanwhile(many):
    """A worker claims the holder between the caller's look and its lock."""
    first = dispatch("k").job
    with caller() as slow, paused(ownership, "holds") as pause:
        slow.begin()
        if many:
            ours = slow.start(
                Job.objects.dispatch_many, [add.using(dedup="k").spec(1, 2)]
            )
        else:
            ours = slow.start(dispatch, "k")
        pause.wait()
        (job,) = claim()
        pause.resume()
        done = ours.result(DEADLINE)
        done = done[0] if many else done
        assert (done.job.pk, done.outcome) == (first.pk, "skipped")
        assert Job.objects.renew(job.token).renewed == {job.id}
        assert finish(job) is Verdict.WRITTEN
        slow.commit()


@with_row_locks
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_no_lock_stays_on_a_job_whose_claim_is_under_way(many, monkeypatch):
    """The caller waits for the claim's own transaction, and finds the job running."""
    monkeypatch.setattr(locks, "UNQUEUED", 60)
    first = dispatch("k").job
    with caller() as worker, caller() as slow, claim_under_way() as pause:
        claimed = worker.start(claim, 1)
        pause.wait()
        slow.begin()
        if many:
            spec = add.using(dedup="k").spec(1, 2)
            ours = slow.start(Job.objects.dispatch_many, [spec])
        else:
            ours = slow.start(dispatch, "k")
        slow.wait_until_sent("FOR UPDATE")
        pause.resume()
        (job,) = claimed.result(DEADLINE)
        done = ours.result(DEADLINE)
        done = done[0] if many else done
        assert (done.job.pk, done.outcome) == (first.pk, "skipped")
        assert Job.objects.renew(job.token).renewed == {job.id}
        assert finish(job) is Verdict.WRITTEN
        slow.commit()


@with_row_locks
@pytest.mark.parametrize(
    "work",
    [
        lambda: dispatch("new"),
        lambda: dispatch("pending"),
        lambda: dispatch(Dedup("pending", replace=True), 3, 4),
        lambda: dispatch("finished"),
        lambda: dispatch(Dedup("running", rerun=True)),
        lambda: dispatch("running"),
        lambda: Job.objects.dispatch_many(
            add.using(dedup=Dedup(k, rerun=True)).spec(1, 2)
            for k in ["new", "pending", "finished", "running", "another"]
        ),
        lambda: Job.objects.filter(dedup_id="pending").cancel(),
    ],
    ids=[
        "added",
        "skipped",
        "replaced",
        "taken over",
        "rerun",
        "left alone",
        "many",
        "cancel",
    ],
)
def test_a_slow_caller_does_not_hold_up_other_outcomes(work):
    """Whatever it has done, everybody else's jobs are claimed, renewed and settled."""
    owner(succeeded=True, dedup_id="finished")
    dispatch("running")
    (running,) = claim()
    for number in range(20):
        dispatch(f"other-{number}")
    others = claim(10)
    dispatch("pending")
    with caller() as slow:
        slow.begin()
        slow.do(work)

        def everybody_else():
            more = claim(5)
            assert len(more) == 5
            assert Job.objects.renew(others[0].token).renewed == {j.id for j in others}
            # One group with the job that the caller may have locked.
            pairs = [(one, Succeeded("3")) for one in [running, *others, *more]]
            return [one.verdict for one in Job.objects.settle(pairs)][1:]

        assert set(in_background(everybody_else)) == {Verdict.WRITTEN}
        slow.commit()
    statuses = Job.objects.filter(dedup_id__startswith="other")
    assert statuses.filter(status="succeeded").count() == 15


@with_row_locks
def test_a_skip_waits_for_nobody():
    """A holder that somebody keeps locked answers all the same; only the count is left out."""
    first = dispatch("k").job
    # A wait would last longer than the test does.
    session = {"innodb_lock_wait_timeout": 300} if connection.vendor == "mysql" else {}
    with caller() as slow, caller(**session) as other:
        slow.begin()
        slow.do(dispatch, "k")
        batch = [add.using(dedup="k").spec(1, 2)]
        for one in [
            other.do(dispatch, "k"),
            other.do(Job.objects.dispatch_many, batch)[0],
        ]:
            assert (one.job.pk, one.outcome) == (first.pk, "skipped")
        slow.commit()
    assert row(first)["suppressed"] == 1
    dispatch("k")
    assert row(first)["suppressed"] == 2


# --- The owner changes between look and lock


ASKED = [
    Dedup("k", rerun=True),
    Dedup("k", rerun=True, replace=True),
    Dedup("k", ttl=600, extend=True),
]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("asked", ASKED, ids=["rerun", "rerun, replace", "extend"])
def test_a_run_that_ends_between_look_and_change_loses_no_dispatch(asked, inside):
    """The holder finishes after it was seen running: then a new job is made, not a promise."""
    if inside and not connection.features.has_select_for_update:
        pytest.skip("the caller keeps everybody out")
    former = dispatch(Dedup("k", ttl=600, until="finished")).job
    Job.objects.update(dedup_until=DatabaseNow(-1))
    (job,) = claim()
    with caller() as other, paused(owners, "check_task") as pause:
        if inside:
            other.begin()
        ours = other.start(dispatch, asked, 3, 4)
        pause.wait()
        assert finish(job) is Verdict.WRITTEN
        pause.resume()
        done = ours.result(DEADLINE)
        if inside:
            other.commit()
    if inside and not asked.rerun:
        # It is true when it is said: the window is written when the caller commits.
        assert done.job.pk == former.pk
        return
    assert done.added
    assert row(former)["released_dedup_id"] == "k"
    assert row(done.job)["args"] == [3, 4]
    assert [one.id for one in claim()] == [done.job.pk]


@pytest.mark.parametrize(
    "asked",
    [Dedup("k", replace=True), Dedup("k", replace=True, rerun=True)],
    ids=["replace", "replace, rerun"],
)
def test_a_run_that_starts_between_look_and_change_keeps_its_arguments(asked):
    """Seen pending, running by the time of the change: what runs is what the row says."""
    former = dispatch("k").job
    with caller() as other, paused(owners, "check_task") as pause:
        ours = other.start(dispatch, asked, 3, 4)
        pause.wait()
        (job,) = claim()
        pause.resume()
        done = ours.result(DEADLINE)
    after = row(former)
    assert (job.args, after["args"]) == ("[1,2]", [1, 2])
    assert done.job.pk == former.pk
    assert done.outcome == ("rerun" if asked.rerun else "skipped")
    assert after["next_args"] == ([3, 4] if asked.rerun else None)


def test_an_id_that_moves_between_look_and_take_over():
    """Two see a finished owner; the second finds that the first has taken the id."""
    former = owner(succeeded=True, dedup_id="k")
    with caller() as other, paused(ownership, "holds", after=True) as pause:
        ours = other.start(dispatch, "k")
        pause.wait()
        winner = dispatch("k")
        pause.resume()
        done = ours.result(DEADLINE)
    assert winner.added
    assert (done.job.pk, done.outcome) == (winner.job.pk, "skipped")
    assert row(former)["released_dedup_id"] == "k"
    assert Job.objects.count() == 2


def test_an_owner_that_is_removed_between_look_and_take_over():
    """Its row is gone: the id is free, and nothing says that it does not exist."""
    former = owner(succeeded=True, dedup_id="k")
    with caller() as other, paused(ownership, "holds", after=True) as pause:
        ours = other.start(dispatch, "k")
        pause.wait()
        Job.objects.filter(pk=former.pk).delete()
        pause.resume()
        done = ours.result(DEADLINE)
    assert done.added
    assert [job.pk for job in Job.objects.all()] == [done.job.pk]


@pytest.mark.skipif(connection.vendor != "mysql", reason="InnoDB's own")
@pytest.mark.parametrize("broken", [False, True], ids=["by key", "by dedup index"])
def test_why_owners_are_locked_by_primary_key(broken, monkeypatch):
    """Who removes a job has locked its row, and then needs its entry in the dedup index."""
    if broken:

        def through_the_index(rows, wanted, deadline, hidden):
            found = owners.find(rows, wanted, locking=True)
            return dispatching._decide_locked(rows, wanted, found)

        monkeypatch.setattr(dispatching, "_pass_inside", through_the_index)
    job = owner(succeeded=True, dedup_id="k")
    errors = []
    with caller() as pruner, caller() as other:
        pruner.begin()
        pruner.do(Job.objects.select_for_update().get, pk=job.pk)
        other.begin()
        done = other.start(dispatch, "k")
        if broken:
            other.wait_until_blocked()
        else:
            other.wait_until_sent("NOWAIT")
        removal = pruner.start(Job.objects.filter(pk=job.pk)._raw_delete, "default")
        errors.append(removal.exception(DEADLINE))
        pruner.rollback()
        errors.append(done.exception(DEADLINE))
    deadlocks = [error for error in errors if "Deadlock" in str(error)]
    assert len(deadlocks) == broken
    assert broken or errors == [None, None]


# --- Rerun


def test_no_dispatch_is_lost_between_runs():
    """Whoever asks is followed by a run that starts after it asked, whatever the worker does."""
    callers, each = 6, 25 * TIMES
    asked = []
    seen = []
    done = threading.Event()
    spec = Dedup("k", rerun=True)

    def work():
        while not done.is_set() or Job.objects.exclude(status="succeeded").exists():
            for job in claim():
                seen.append(len(asked))
                # Busy while a dispatch has the row.
                assert eventually(lambda job=job: finish(job) is Verdict.WRITTEN)

    def ask(_):
        words = set()
        for _ in range(each):
            asked.append(None)
            words.add(dispatch(spec).outcome)
        return words

    with in_thread(work) as worker:
        words = set().union(*together(callers, ask, timeout=6 * DEADLINE))
        done.set()
        worker.result(DEADLINE)
    assert words <= {"added", "rerun", "skipped"}
    assert seen[-1] == len(asked) == callers * each
    runs = sum(job.claims for job in Job.objects.all())
    assert runs == len(seen)
    assert Job.objects.filter(dedup_id="k").count() == 1


# --- Batches


@with_row_locks
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in transactions"])
@pytest.mark.parametrize("kind", ["new", "finished", "pending", "mixed"])
def test_two_batches_over_the_same_ids_in_opposite_orders(kind, inside):
    """They wait for each other, but never in a ring: no error, one job per id, ids in order."""
    rounds, size = 5 * TIMES, 100
    gate = threading.Barrier(2)
    troubles = []

    def in_rounds(direction):
        done = []
        with ExitStack() as stack:
            stack.enter_context(connection.execute_wrapper(noting(troubles)))
            for number in range(rounds):
                ids = [f"{number}-{k}" for k in range(size)][::direction]
                specs = [
                    add.using(dedup=Dedup(k, replace=True)).spec(direction, k)
                    for k in ids
                ]
                gate.wait(2 * DEADLINE)
                with transaction.atomic() if inside else ExitStack():
                    done.append(Job.objects.dispatch_many(specs))
        return done

    former = {"finished": {"succeeded": True}, "pending": {}}
    kinds = ["new", "finished", "pending"] if kind == "mixed" else [kind]
    Job.objects.bulk_create(
        JobFactory.build(
            queue="default",
            dedup_id=f"{number}-{k}",
            dedup_hold="finished",
            **former[kinds[k % len(kinds)]],
        )
        for number in range(rounds)
        for k in range(size)
        if kinds[k % len(kinds)] in former
    )

    forward, backward = together(
        2, lambda n: in_rounds([1, -1][n]), timeout=6 * DEADLINE
    )
    assert troubles == []
    for one, other in zip(forward, backward, strict=True):
        assert [d.job.pk for d in one] == [d.job.pk for d in reversed(other)]
        for batch in (one, other):
            added = [d.job.pk for d in batch if d.added]
            assert added == sorted(added)
        both = [
            {a.outcome, b.outcome} for a, b in zip(one, reversed(other), strict=True)
        ]
        assert all(words <= {"added", "replaced"} for words in both)
        assert all(words != {"added"} for words in both)
    held = Job.objects.filter(dedup_id__isnull=False)
    assert held.count() == rounds * size


@with_row_locks
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize(
    "state", [{"succeeded": True}, {}], ids=["finished", "pending"]
)
def test_a_batch_waits_for_nobody_elses_rows(state, inside):
    """In a table of few rows, where to read them all would seem cheap."""
    keys = [f"k{number}" for number in range(20)]
    for key in keys:
        owner(dedup_id=key, **state)
    other = owner(dedup_id="other")
    with caller() as slow, caller() as me:
        slow.begin()
        slow.do(Job.objects.select_for_update().get, pk=other.pk)
        if inside:
            me.begin()
        asked = [Dedup(key, replace=True) for key in keys]
        specs = [add.using(dedup=one).spec(3, 4) for one in asked]
        done = me.do(Job.objects.dispatch_many, specs)
        if inside:
            me.commit()
    assert {one.outcome for one in done} == {"added" if state else "replaced"}


@with_row_locks
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in transactions"])
def test_a_second_batch_waits_where_the_first_has_begun(inside, monkeypatch):
    """Half of one batch's ids are taken when the other, in opposite order, begins."""
    monkeypatch.setattr(insert, "ROWS", 50)
    innodb = connection.vendor == "mysql"
    half = (db, "update_in_order") if innodb else (insert, "_insert_chunk")
    specs = [add.using(dedup=f"k{k}").spec(1, k) for k in range(100)]
    with caller() as one, caller() as other, paused(*half, after=True) as pause:
        for who in [one, other] if inside else []:
            who.begin()
        first = one.start(Job.objects.dispatch_many, specs)
        pause.wait()
        second = other.start(Job.objects.dispatch_many, specs[::-1])
        other.wait_until_blocked()
        pause.resume()
        added = first.result(DEADLINE)
        if inside:
            one.commit()
        skipped = second.result(DEADLINE)
        if inside:
            other.commit()
    assert {done.outcome for done in added} == {"added"}
    assert {done.outcome for done in skipped} == {"skipped"}
    assert [done.job.pk for done in added] == [done.job.pk for done in skipped[::-1]]


def noting(troubles):
    """An execute wrapper that keeps the deadlocks that the server reports."""

    def wrapper(execute, sql, params, many, context):
        try:
            return execute(sql, params, many, context)
        except Exception as error:
            if "deadlock" in str(error).lower():
                troubles.append((sql[:60], str(error)))
            raise

    return wrapper
