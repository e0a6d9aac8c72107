"""Dedup where a transaction reads from a snapshot: the right answer, or an error that says so.

A caller looks at the database, which fixes what it sees; then something happens to the id;
then the caller dispatches. Never is a dispatch lost to what the caller saw, never does one
hang, and never "does not exist".
"""

import pytest
from django.conf import settings
from django.db import OperationalError, connection

from django_leasequeue import Dedup
from django_leasequeue.exceptions import DispatchConflict
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from tests import readme
from tests.callers import caller
from tests.helpers import together
from tests.models import Effect
from tests.road import claim, row
from tests.tasks import add

pytestmark = pytest.mark.django_db(transaction=True)

DATABASE = settings.DATABASE
# What may be raised, by (level, other settings of the session): after another has added a
# job, and after the job has changed that the caller saw. "right": the right answer is given;
# KEPT_OUT: nothing happens beside the caller once it has looked, though on InnoDB the caller
# and who is kept out can deadlock.
KEPT_OUT = {"kept out"} if DATABASE == "sqlite" else {"kept out", "1213"}
RIGHT = {"right"}
LEVELS = {
    "postgres": {
        ("READ COMMITTED", None): (RIGHT, RIGHT),
        ("REPEATABLE READ", None): ({"DispatchConflict"}, {"40001"}),
        ("SERIALIZABLE", None): ({"DispatchConflict", "40001"}, {"40001"}),
    },
    "mysql": {
        ("READ COMMITTED", None): (RIGHT, RIGHT),
        ("REPEATABLE READ", None): (RIGHT, RIGHT),
        ("SERIALIZABLE", None): (KEPT_OUT, KEPT_OUT),
    },
    "mariadb": {
        ("READ COMMITTED", None): (RIGHT, RIGHT),
        ("REPEATABLE READ", "OFF"): (RIGHT, RIGHT),
        ("REPEATABLE READ", "ON"): ({"1020", "right"}, {"1020", "right"}),
        ("SERIALIZABLE", None): (KEPT_OUT, KEPT_OUT),
    },
    "sqlite": {
        ("DEFERRED", None): ({"database is locked"}, {"database is locked"}),
        ("IMMEDIATE", None): (KEPT_OUT, KEPT_OUT),
    },
}[DATABASE]


def one(dedup, *args):
    return Job.objects.dispatch(add, args or (1, 2), dedup=dedup)


def many(dedup, *args):
    spec = add.using(dedup=dedup).spec(*(args or (1, 2)))
    return Job.objects.dispatch_many([add.spec(0, 0), spec])[1]


both_ways = pytest.mark.parametrize("dispatch", [one, many], ids=["one", "many"])
levels = pytest.mark.parametrize(
    ("level", "snapshot"),
    LEVELS,
    ids=[" ".join(filter(None, one)) for one in LEVELS],
)


def at(level, snapshot):
    """A caller whose transactions are of this level."""
    session = {} if snapshot is None else {"innodb_snapshot_isolation": snapshot}
    return caller(isolation=level, **session)


def finish(job):
    Job.objects.settle([(job, Succeeded("3"))])


# --- What may happen to the id after the caller has looked


def added():
    """A job of the id that the caller can't see."""
    one("k")


def claimed():
    claim()


def finished():
    finish(claim()[0])


def taken_over():
    """The job that the caller sees has finished, and another has the id."""
    finished()
    assert one("k").added


def removed():
    Job.objects.all().delete()


# event -> whether there is a job of the id before, and what is right after it. The word of a
# replace is "replaced" if the holder is pending.
EVENTS = {
    added: (False, "skipped"),
    claimed: (True, "skipped"),
    finished: (True, "added"),
    taken_over: (True, "skipped"),
    removed: (True, "added"),
}
REFUSALS = (DispatchConflict, OperationalError)


@both_ways
@levels
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
@pytest.mark.parametrize("flag", [None, "replace", "rerun"])
def test_what_happens_after_the_callers_look(dispatch, level, snapshot, event, flag):
    """The right word and the right job, or an error after which all of it is run again."""
    before, right = EVENTS[event]
    allowed = LEVELS[level, snapshot][before]
    if before:
        one("k")
    asked = Dedup("k", **({flag: True} if flag else {}))
    with at(level, snapshot) as other:
        other.begin()
        assert other.do(Job.objects.filter(dedup_id="k").count) == before
        if allowed is KEPT_OUT:
            # Its look, on SQLite its beginning, has locked the row or where it would be.
            done = other.do(dispatch, asked, 3, 4)
            held = "replaced" if flag == "replace" else "skipped"
            assert done.outcome == (held if before else "added")
            other.rollback()
            return
        event()
        jobs = Job.objects.count()
        try:
            done = other.do(dispatch, asked, 3, 4)
        except REFUSALS as error:
            assert code_of(error) in allowed
            other.rollback()
            assert Job.objects.count() == jobs
            # Run again, it sees what there is.
            other.begin()
            done = other.do(dispatch, asked, 3, 4)
        else:
            assert "right" in allowed
        other.commit()
    holder = Job.objects.get(dedup_id="k")
    assert done.job.pk == holder.pk
    assert done.outcome == spelled(right, flag, holder)
    if done.added:
        assert row(holder)["args"] == [3, 4]
    if done.outcome == "rerun":
        assert row(holder)["rerun"]


def spelled(right, flag, holder):
    if right == "skipped" and flag == "replace" and holder.status == "pending":
        return "replaced"
    if right == "skipped" and flag == "rerun" and holder.status == "running":
        return "rerun"
    return right


def code_of(error):
    """The error as docs/dedup.md names it."""
    if isinstance(error, DispatchConflict):
        return "DispatchConflict"
    if DATABASE == "postgres":
        return error.__cause__.sqlstate
    return str(error.args[0])


def test_the_docs_have_these_levels():
    """docs/dedup.md, cell by cell, for this database."""
    shown = {}
    for database, level, added, changed in readme.table("database", readme.DEDUP):
        if database.lower().removesuffix("ql") == DATABASE.removesuffix("ql"):
            level, _, snapshot = level.partition(", innodb_snapshot_isolation ")
            cells = [set(cell.split(", ")) for cell in (added, changed)]
            shown[level, snapshot or None] = tuple(cells)
    assert shown == LEVELS


@pytest.mark.skipif(DATABASE not in ("mysql", "sqlite", "mariadb"), reason="see above")
@levels
def test_who_is_kept_out(level, snapshot):
    """A rival of a caller that has looked waits for its end, or the server chooses a victim."""
    if LEVELS[level, snapshot][0] is not KEPT_OUT:
        pytest.skip("nobody is")
    with at(level, snapshot) as other, caller() as rival:
        other.begin()
        assert not other.do(Job.objects.filter(dedup_id="k").count)
        theirs = rival.start(one, "k")
        rival.wait_until_sent("INSERT")
        try:
            ours = other.do(one, "k")
        except OperationalError as error:
            assert code_of(error) in LEVELS[level, snapshot][0]
            other.rollback()
            assert theirs.result(60).added
            return
        other.commit()
        assert theirs.result(60).job.pk == ours.job.pk
    assert Job.objects.count() == 1


@pytest.mark.skipif(DATABASE != "postgres", reason="elsewhere the holder is found")
@both_ways
def test_a_hidden_holder_leaves_the_transaction_usable(dispatch):
    """DispatchConflict says what to do, and the caller may go on without the job."""
    with caller(isolation="REPEATABLE READ") as other:
        other.begin()
        other.do(Job.objects.count)
        one("k")
        with pytest.raises(DispatchConflict, match="snapshot can't see") as caught:
            other.do(dispatch, "k")
        assert "Run the whole transaction again" in str(caught.value)
        other.do(Effect.objects.create, name="after")
        other.commit()
    assert Effect.objects.count() == 1
    assert Job.objects.count() == 1


@pytest.mark.skipif(DATABASE not in ("mysql", "mariadb"), reason="InnoDB's own")
@both_ways
def test_a_level_for_one_transaction_alone(dispatch):
    """The session does not tell of it; a holder that it hides is found all the same."""
    with caller() as other:
        other.do(
            lambda: connection.cursor().execute(
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
            )
        )
        other.begin()
        other.do(
            lambda: connection.cursor().execute(
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
            )
        )
        assert not other.do(Job.objects.exists)
        winner = one("k").job
        done = other.do(dispatch, "k")
        assert (done.job.pk, done.outcome) == (winner.pk, "skipped")
        other.commit()


@levels
def test_outside_a_transaction_the_level_makes_no_difference(level, snapshot):
    """One job per id, no error, whatever the session's level is."""
    rounds, callers = 10, 4

    def dispatch_in_each_round(_):
        done = []
        with at(level, snapshot) as me:
            for number in range(rounds):
                done.append(me.do(one, f"k{number}"))
                done.append(me.do(many, Dedup(f"k{number}", replace=True)))
        return done

    results = together(callers, dispatch_in_each_round)
    for number in range(2 * rounds):
        of_round = [of_caller[number] for of_caller in results]
        holder = Job.objects.get(dedup_id=f"k{number // 2}")
        assert {one.job.pk for one in of_round} == {holder.pk}
    assert sum(one.added for of_caller in results for one in of_caller) == rounds


@pytest.mark.skipif(DATABASE != "sqlite", reason="SQLite's own")
@both_ways
def test_a_deferred_transaction_that_begins_with_a_dispatch(dispatch):
    """It takes the write lock before it looks, so that nobody comes between."""
    with caller(isolation="DEFERRED") as other:
        other.begin()
        assert other.do(dispatch, "k").added
        other.commit()
        other.begin()
        assert not other.do(dispatch, "k").added
        other.commit()
