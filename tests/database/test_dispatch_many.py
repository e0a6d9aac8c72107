"""dispatch_many: ids in order on every database, all or nothing, one job an id."""

import datetime as dt

import pytest
from django.db import DatabaseError, connection, transaction

from django_leasequeue import Dedup, JobSpec
from django_leasequeue.db import DatabaseNow
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.exceptions import DedupConflict
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.transitions.dispatch import insert
from tests.factories import JobFactory
from tests.helpers import failing
from tests.models import Effect
from tests.road import (
    claim,
    connection_lost,
    deadlock,
    ending_after,
    ids,
    row,
    statements,
    table,
    toy,
)
from tests.tasks import add, record_effect

MANY = 10_000


def many(specs, using="default"):
    return Job.objects.using(using).dispatch_many(specs)


@pytest.fixture
def small_chunks(monkeypatch):
    """Ten rows to a statement, so that a few dozen jobs need several."""
    monkeypatch.setattr(insert, "ROWS", 10)


def in_order(answers):
    """Whether each answer's job is the row of its own spec, add(number, 0)."""
    stored = dict(Job.objects.values_list("id", "args"))
    return [stored[answer.job.id] for answer in answers] == [
        [number, 0] for number in range(len(answers))
    ]


# --- Many rows


def test_109_ten_thousand():
    """One answer a spec, in order, each with the id of its own row; ids ascend."""
    with statements() as seen:
        answers = many(add.spec(number, 0) for number in range(MANY))
    # Small enough for every server, and not so small that it takes for ever.
    assert 10 <= len([sql for sql in seen if sql.startswith("INSERT INTO")]) <= 500
    assert len(answers) == Job.objects.count() == MANY
    assert all(answer.added for answer in answers)
    assert in_order(answers)
    found = ids(answer.job for answer in answers)
    assert found == sorted(found)


@pytest.mark.parametrize("step", [3, 10])
def test_ids_any_distance_apart(step, small_chunks):
    """Where the server leaves gaps between ids (a cluster's setting), none is guessed."""
    if connection.features.can_return_rows_from_bulk_insert:
        pytest.skip("the insert itself returns the ids")
    with connection.cursor() as cursor:
        cursor.execute(f"SET SESSION auto_increment_increment = {step}")
        try:
            answers = many(add.spec(number, 0) for number in range(25))
        finally:
            cursor.execute("SET SESSION auto_increment_increment = 1")
    assert in_order(answers)
    assert answers[1].job.id - answers[0].job.id == step


@pytest.mark.django_db(transaction=True)
def test_109_twenty_megabytes():
    """A hundred jobs of 200 KB: above what a server takes in one packet."""
    with toy(lambda text: None, name="taker") as taker:
        answers = many(
            taker.spec(f"{number:03}" + "x" * 200_000) for number in range(100)
        )
    stored = dict(Job.objects.values_list("id", "args"))
    for number, answer in enumerate(answers):
        [text] = stored[answer.job.id]
        assert text[:3] == f"{number:03}"
        assert len(text) == 200_003


def test_109_large_metas():
    """What is not arguments counts as well."""
    specs = [add.using(meta={"x": "y" * 900_000}).spec(1, 2) for _ in range(20)]
    with statements() as seen:
        many(specs)
    inserts = [sql for sql in seen if sql.startswith("INSERT INTO")]
    assert len(inserts) >= 5


def test_nothing():
    """No specs: no statement, no answers."""
    with statements() as seen:
        assert many([]) == many(iter(())) == []
    assert seen == []


def test_111_the_same_as_one_by_one(settings):
    """Every column is what a single dispatch would have stored."""
    settings.LEASEQUEUE = {"QUEUES": {"mail": {"MAX_ATTEMPTS": 7}}}
    at = dt.datetime(2031, 1, 2, 3, 4, 5, 678, tzinfo=dt.UTC)
    with (
        toy(lambda a, b=None: None, name="plain") as plain,
        toy(
            lambda a, b=None: None,
            name="full",
            queue="mail",
            priority=5,
            max_attempts=3,
            max_recoveries=9,
            dedup=lambda a, b=None: f"order:{a}",
        ) as full,
    ):
        specs = [
            plain.spec(1),
            plain.using(queue="mail", meta={"m": [1]}, group="g", priority=-9).spec(
                1, b=2
            ),
            plain.using(run_at=at, max_attempts=2).spec(1),
            full.spec(1),
            full.using(dedup=Dedup("k", ttl=60, until="removed"), delay=60).spec(2),
            JobSpec("full", [3], dedup="j", queue="slow"),
        ]
        bulk = [row(answer.job) for answer in many(specs)]
        Job.objects.all().delete()
        singles = []
        for spec in specs:
            options = {
                name: getattr(spec, name)
                for name in JobSpec._fields
                if name not in ("task", "args", "kwargs")
            }
            answer = Job.objects.dispatch(spec.task, spec.args, spec.kwargs, **options)
            singles.append(row(answer.job))
    for left, right in zip(bulk, singles, strict=True):
        # last_token holds the mark by which MySQL's rows are read back.
        for name in ("id", "last_token"):
            left.pop(name), right.pop(name)
        # Times from now on are compared by their distance from the row's own start.
        for values in (left, right):
            start = values.pop("created_at")
            for name in ("run_at", "dedup_until"):
                if values[name] is not None and values[name] != at:
                    values[name] -= start
        assert left == right


def test_the_jobs_that_are_returned():
    """They read like their rows, times included."""
    specs = [
        add.using(dedup=Dedup(f"k{n}", ttl=60), delay=n).spec(n, 0) for n in (2, 1, 3)
    ]
    for answer in many([*specs, specs[0]]):
        for name, value in row(answer.job).items():
            if name != "last_token":
                assert getattr(answer.job, name) == value, name


# --- All or nothing


BAD = [
    (add.spec(1, {2}), TypeError),
    (add.spec(1), TypeError),
    (add.using(dedup="").spec(1, 2), ValueError),
    (add.using(run_at=dt.datetime(2026, 1, 2)).spec(1, 2), ValueError),  # noqa: DTZ001
    (add.using(delay=-1).spec(1, 2), ValueError),
    (JobSpec("tests.tasks.gone"), LookupError),
    (add, TypeError),
]


@pytest.mark.parametrize("spec, kind", BAD)
@pytest.mark.parametrize("inside", [False, True])
def test_110_one_bad_spec(spec, kind, inside):
    """It is told which, before anything is written, in a transaction or not."""
    specs = [add.using(dedup=f"k{number}").spec(number, 0) for number in range(60)]
    specs[57] = spec
    with statements() as seen, pytest.raises(kind) as caught:
        if inside:
            with transaction.atomic():
                many(specs)
        else:
            many(specs)
    assert any("spec 57" in note for note in caught.value.__notes__)
    assert not [sql for sql in seen if "leasequeue_job" in sql]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("keyed", [False, True])
def test_all_or_nothing(keyed, small_chunks):
    """The process may end before any statement; no part of the batch is stored."""
    specs = [
        add.using(dedup=f"k{number}" if keyed else None).spec(number, 0)
        for number in range(35)
    ]
    for passed in range(100):
        try:
            with ending_after(passed):
                answers = many(specs)
            break
        except DatabaseError:
            assert not Job.objects.exists()
    assert passed >= 3
    assert in_order(answers)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("keyed", [False, True])
def test_passing_trouble_is_rerun(keyed, small_chunks):
    """After a deadlock or two the whole batch is run again, and stored once."""
    specs = [
        add.using(dedup=f"k{number}" if keyed else None).spec(number, 0)
        for number in range(15)
    ]
    with failing(deadlock(), times=2, match="INSERT INTO") as refused:
        answers = many(specs)
    assert len(refused) == 2
    assert Job.objects.count() == 15
    assert in_order(answers)


@pytest.mark.django_db(transaction=True)
def test_a_lost_connection_is_never_rerun():
    """The batch may have been stored; a second one would run everything twice."""
    lost = failing(connection_lost(), times=10**6, match="INSERT INTO")
    with lost as refused, pytest.raises(DatabaseError):
        many([add.spec(1, 2)])
    assert len(refused) == 1


@pytest.mark.django_db(transaction=True)
def test_105_in_the_callers_transaction():
    """It commits and rolls back with it."""
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        many([add.spec(1, 2), add.using(dedup="k").spec(1, 2)])
        raise ZeroDivisionError
    assert table() == {}
    with transaction.atomic():
        many([add.spec(1, 2), add.using(dedup="k").spec(1, 2)])
    assert len(table()) == 2


# --- Ids that are held


def outcomes(answers):
    return [answer.outcome.value for answer in answers]


def keyed(*words, **options):
    return [
        add.using(dedup=word, **options).spec(number, 0)
        for number, word in enumerate(words)
    ]


def test_038_held_and_repeated_ids():
    """One row an id: the first of the batch wins, a holder before them all."""
    holder = Job.objects.dispatch(add, [1, 2], dedup="k").job
    answers = many(keyed("k", "k", "j"))
    assert outcomes(answers) == ["skipped", "skipped", "added"]
    assert answers[0].job.id == answers[1].job.id == holder.id
    assert row(holder)["suppressed"] == 2
    answers = many(keyed("m", "m"))
    assert outcomes(answers) == ["added", "skipped"]
    assert answers[0].job.id == answers[1].job.id
    assert row(answers[0].job)["suppressed"] == 1
    assert sorted(Job.objects.values_list("dedup_id", flat=True)) == ["j", "k", "m"]


def test_038_queues_apart():
    """The same id in two queues is two ids."""
    answers = many(
        [*keyed("k", queue="a"), *keyed("k", queue="b"), *keyed("k", queue="a")]
    )
    assert outcomes(answers) == ["added", "added", "skipped"]


def test_ids_out_of_order(small_chunks):
    """Whatever order the ids have, answers and job ids keep that of the specs."""
    words = [f"k{(number * 17) % 61:04}" for number in range(61)]
    answers = many(keyed(*words))
    assert in_order(answers)
    found = ids(answer.job for answer in answers)
    assert found == sorted(found)
    for answer, word in zip(answers, words, strict=True):
        assert row(answer.job)["dedup_id"] == answer.job.dedup_id == word


def test_032_ended_owners():
    """Their ids are taken over, all in the one batch."""
    former = many(keyed("a", "b", "c"))
    held = claim()
    Job.objects.settle([(job, Succeeded()) for job in held[:2]])
    answers = many(keyed("c", "b", "a", "d"))
    assert outcomes(answers) == ["skipped", "added", "added", "added"]
    assert answers[0].job.id == former[2].job.id
    assert row(former[0].job)["released_dedup_id"] == "a"


@pytest.mark.parametrize("state", ["pending", "leased", "succeeded"])
def test_036_another_task_with_the_same_id(state):
    """It is refused before anything is written."""
    traits = {} if state == "pending" else {state: True}
    JobFactory(queue="default", dedup_id="k", dedup_hold="removed", **traits)
    before = table()
    specs = [*keyed("j", "i"), record_effect.using(dedup="k").spec("x")]
    with pytest.raises(DedupConflict) as caught:
        many(specs)
    assert caught.value.owner_task == "tests.tasks.add"
    assert table() == before


def test_036_two_tasks_with_one_id_in_a_batch():
    """Neither is stored: which of them is meant is for the caller to say."""
    with pytest.raises(DedupConflict):
        many([*keyed("k"), record_effect.using(dedup="k").spec("x")])
    assert table() == {}


def test_windows():
    """A batch extends and replaces as single dispatches do."""
    first = Job.objects.dispatch(add, [1, 2], dedup=Dedup("k", ttl=60), delay=60).job
    Job.objects.filter(pk=first.id).update(dedup_until=DatabaseNow(50))
    before = row(first)
    asked = Dedup("k", ttl=60, extend=True)
    swap = Dedup("j", replace=True)
    Job.objects.dispatch(add, [1, 2], dedup="j")
    answers = many(
        [add.using(dedup=asked).spec(8, 9), add.using(dedup=swap).spec(8, 9)]
    )
    assert [answer.outcome for answer in answers] == [
        *(DispatchOutcome.EXTENDED, DispatchOutcome.REPLACED),
    ]
    assert row(first)["dedup_until"] > before["dedup_until"]
    assert row(first)["args"] == [1, 2]
    assert row(answers[1].job)["args"] == [8, 9]


@pytest.mark.django_db(transaction=True)
def test_018_a_batch_of_duplicates_does_not_poison_the_block():
    """The caller's transaction goes on and commits."""
    with transaction.atomic():
        many(keyed("k", "j"))
        answers = many(keyed("j", "k", "k"))
        Effect.objects.create(name="after")
    assert outcomes(answers) == ["skipped"] * 3
    assert len(table()) == 2
    assert Effect.objects.count() == 1


@pytest.mark.django_db(databases=["default", "other"])
def test_other_database():
    """`using(alias)` stores all of it there."""
    many(keyed("k"))
    answers = many(keyed("k", "j"), using="other")
    assert outcomes(answers) == ["added", "added"]
    assert len(table()) == 1
    assert set(table(using="other")) == set(ids(answer.job for answer in answers))
