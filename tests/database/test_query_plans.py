"""Query plans: every statement of a busy day goes through its index and touches few rows.

The statements are caught on their way to the database, so that they are those that are
really sent. A table of tens of thousands of rows is made once for the module.
"""

import uuid

import pytest
from django.conf import settings
from django.db import connections

from django_leasequeue import Concurrency, db, results, slots
from django_leasequeue.dedup import Dedup
from django_leasequeue.models import Job, Queue, Slots, Worker
from django_leasequeue.monitoring import figures, overview, stale
from django_leasequeue.monitoring import queues as queue_figures
from django_leasequeue.outcomes import Failed, Succeeded
from django_leasequeue.transitions import prune as pruning
from django_leasequeue.transitions.groups import Seen
from django_leasequeue.why import ahead
from tests.admin.looking import make_worker
from tests.backlog import analyze, multiply
from tests.factories import JobFactory
from tests.plans import PRIMARY, watched
from tests.road import claim
from tests.scratch import scratch_database
from tests.tasks import add

pytestmark = pytest.mark.django_db(databases=["default", "other"])

QUEUES = [f"q{number}" for number in range(8)]
# Of each queue with two priorities, and two queues with one more lane.
LANES = 2 * len(QUEUES) + 2
LIMIT = 5
# What a statement may look at: a few index entries and rows for each lane and each job. The
# table has some 28,000 rows; jobs that are to run alone have lanes of their own.
FEW = 600
# SQLite has counted nothing in most projects, since nobody tells it to.
COUNTED = [True, False] if settings.DATABASE == "sqlite" else [True]


@pytest.fixture(scope="module", autouse=True, params=COUNTED, ids=str)
def backlog(request, django_db_setup, django_db_blocker):
    """Make `other` a busy day's table: rows in every state, and two kinds in the way."""
    with django_db_blocker.unblock(), scratch_database("other") as alias:
        for queue in QUEUES:
            for count, traits in [
                (1000, {"succeeded": True}),
                (200, {"failed": True, "keyed": True}),
                (100, {"cancelled": True}),
                (150, {}),
                (100, {"keyed": True, "priority": 5}),
                (8, {"leased": True}),
                (4, {"expired": True}),
            ]:
                multiply(
                    JobFactory(using=alias, queue=queue, **traits), count, using=alias
                )
        # Before all others of its queue, were it due; and before all, were it asked for.
        delayed = JobFactory(using=alias, queue="q0", priority=50, scheduled=True)
        foreign = JobFactory(using=alias, queue="nobody's", priority=100)
        multiply(delayed, 9000, using=alias)
        multiply(foreign, 5000, using=alias)
        # Waiting for a slot, and those of their key that have had one.
        full = {"concurrency_key": "full", "concurrency_limit": 1, "queue": "q2"}
        for count, traits in [(3000, {"blocked": 1}), (1000, {"succeeded": True})]:
            multiply(JobFactory(using=alias, **full, **traits), count, using=alias)
        Slots.objects.using(alias).create(key="full", used_at=db.DatabaseNow())
        if request.param:
            analyze(alias)
        yield


def held(token, using, count=LIMIT):
    return [
        JobFactory(using=using, queue="q1", leased=True, processing_token=token)
        for _ in range(count)
    ]


def claimed(using):
    """Return LIMIT jobs as a claim returns them."""
    if using == "default":
        JobFactory.create_batch(LIMIT, queue="q1", using=using)
    jobs = claim(LIMIT, "q1", using=using, expired=False)
    assert len(jobs) == LIMIT
    return jobs


def assert_cheap(seen, using="other"):
    """Nothing is read from end to end. A table of a few rows may be."""
    for statement in seen:
        assert using == "default" or not statement.scans, statement
        assert statement.touched <= FEW, statement


def assert_written_by_key(seen):
    """On InnoDB the way to a row decides in which order its locks are taken."""
    ways = set().union(*(statement.indexes for statement in seen if statement.locks))
    assert ways or connections["other"].vendor == "postgresql", seen
    if connections["other"].vendor == "mysql":
        assert ways == {PRIMARY}, seen


# --- Claim


@pytest.mark.parametrize(
    "queues, exclude, first",
    [
        ("q1", "", ["q1"]),
        ("q0", "", ["q0"]),
        ("q3,q1,q0", "", ["q3"]),
        ("q3,*", "nobody's", ["q3"]),
        ("*", "nobody's", QUEUES),
        ("*", "", ["nobody's"]),
    ],
)
def test_158_claim(queues, exclude, first):
    """Each form of a claim reads its lane from the head: no sort, no scan, no backlog.

    Cases 157 and 158: finished rows, delayed jobs of higher priority and ready ones in a
    queue that nobody takes cost nothing.
    """
    with watched("other") as seen:
        jobs = claim(LIMIT, queues, exclude, using="other", expired=False)
    assert len(jobs) == LIMIT
    assert {job.queue for job in jobs} <= set(first)
    assert_cheap(seen)
    for statement in seen:
        if statement.picks:
            assert not statement.sorts, statement
            ways = {"leasequeue_claim", "leasequeue_keyed", PRIMARY}
            assert statement.indexes <= ways, statement
            assert "leasequeue_claim" in statement.indexes, statement
    writes = [statement for statement in seen if statement.sql.startswith("UPDATE")]
    assert all(PRIMARY in statement.indexes for statement in writes), seen


@pytest.mark.parametrize(
    "queues, exclude, first",
    [("nobody's,q1", "", "q1"), ("*", "", "q0"), ("*", "q0", "q1")],
)
def test_158_claim_beside_a_paused_backlog(queues, exclude, first):
    """Thousands of due jobs in a paused queue cost a claim a look at their lane."""
    Queue.objects.using("other").pause("nobody's")
    try:
        with watched("other") as seen:
            jobs = claim(LIMIT, queues, exclude, using="other", expired=False)
    finally:
        Queue.objects.using("other").resume("nobody's")
    assert {job.queue for job in jobs} == {first}
    assert_cheap(seen)


def test_claim_that_finds_nothing():
    """A worker whose queue is empty asks for lanes and lost leases, and no more."""
    with watched("other") as seen:
        assert claim(LIMIT, "empty", using="other") == []
    assert_cheap(seen)
    assert not any(statement.locks for statement in seen), seen


def test_lanes_cost_what_they_are():
    """Finding the lanes takes a few looks a lane, however many jobs wait in each."""
    with watched("other") as seen:
        lanes = db.lanes(Job._meta.db_table, "other")
    [statement] = seen
    assert len(lanes) == LANES
    assert statement.indexes - {"leasequeue_keyed"} == {"leasequeue_claim"}, statement
    assert statement.touched <= 20 * LANES, statement


@pytest.mark.parametrize("queues", [["q3"], ["q1", "empty", "q0"]])
def test_lanes_of_other_queues_cost_nothing(queues):
    """A worker of some queues looks at these alone, however many others there are."""
    with watched("other") as seen:
        every = db.lanes(Job._meta.db_table, "other")
        lanes = db.lanes(Job._meta.db_table, "other", queues)
    of_all, statement = seen
    assert {lane.queue for lane in lanes} == set(queues) - {"empty"}
    assert statement.indexes - {"leasequeue_keyed"} == {"leasequeue_claim"}, statement
    share = (len(lanes) + len(queues)) / len(every)
    assert statement.touched <= 2 * share * of_all.touched, statement


@pytest.mark.parametrize("queues, exclude", [("*", ""), ("q1,q2", ""), ("*", "q0,q1")])
def test_claim_of_lost_jobs(queues, exclude):
    """Leases that are past are found through their own index, oldest first."""
    with watched("other") as seen:
        jobs = claim(LIMIT, queues, exclude, using="other", alone=True)
    assert [job.recoveries for job in jobs] == [1] * LIMIT
    looks = [
        s for s in seen if s.picks and 'processing_until" <=' in s.sql.replace("`", '"')
    ]
    assert looks
    for statement in looks:
        assert statement.indexes == {"leasequeue_lease"}, statement
        assert not statement.sorts, statement
    assert_cheap(seen)


# --- Concurrency keys


@pytest.mark.parametrize("using", ["default", "other"])
def test_claim_of_jobs_with_keys(using):
    """Slots and those who hold them are found by key, whoever else waits for theirs."""
    first = {"using": using, "queue": "limited", "concurrency_limit": 1}
    JobFactory.create_batch(3, concurrency_key="full", **first)
    JobFactory.create_batch(3, concurrency_key="other", **first)
    JobFactory(using=using, queue="limited")
    claim(LIMIT, "limited", using=using, expired=False)
    Job.objects.using(using).pending().filter(queue="limited").update(blocked=0)
    with watched(using) as seen:
        assert claim(LIMIT, "limited", using=using, expired=False) == []
    assert_cheap(seen, using)
    assert_written_by_key([one for one in seen if one.sql.startswith("UPDATE")])
    Job.objects.using(using).filter(queue="limited").delete()


@pytest.mark.parametrize("counts", [{"full": 1}, {"full": 3}], ids=str)
def test_the_next_ones_of_a_key_are_found_in_order(counts):
    """However many wait, and however many have ended."""
    Slots.objects.using("other").get_or_create(
        key="idle", defaults={"used_at": db.DatabaseNow()}
    )
    jobs = Job.objects.using("other")
    with watched("other") as seen:
        slots.freed(jobs.all(), {**counts, "idle": 1})
    assert jobs.filter(blocked=0, concurrency_key="full").pending().count() == sum(
        counts.values()
    )
    jobs.pending().filter(concurrency_key="full").update(blocked=1)
    assert_cheap(seen)
    for statement in seen:
        assert not statement.sorts, statement
        if statement.indexes - {PRIMARY}:
            assert statement.indexes == {"leasequeue_awaits_slot"}, statement


def test_a_look_for_who_was_forgotten():
    jobs = Job.objects.using("other")
    with watched("other") as seen:
        assert jobs.call_forgotten() == ("", True)
    jobs.pending().filter(concurrency_key="full").update(blocked=1)
    Slots.objects.using("other").update(called_at=None)
    assert_cheap(seen)


def test_superseding():
    """What waits with the key is found through its index, among all that has ended."""
    door = add.using(concurrency=Concurrency("doc", supersedes=True), database="other")
    old, _ = door.dispatch(1, 2)
    with watched("other") as seen:
        door.dispatch(1, 2)
    old.refresh_from_db()
    assert old.status == "cancelled"
    assert_cheap(seen)
    assert_written_by_key(seen)
    assert any(one.indexes == {"leasequeue_keyed"} for one in seen), seen


# --- What a worker writes


@pytest.mark.parametrize("using", ["default", "other"])
def test_renew(using):
    """A token finds its jobs through its index; they are locked and written by key.

    In a table of a few rows, too, where any other way looks as cheap to the database.
    """
    token = uuid.uuid4()
    held(token, using)
    with watched(using) as seen:
        assert len(Job.objects.using(using).renew(token).renewed) == LIMIT
    assert_written_by_key(seen)
    assert_cheap(seen, using)
    if using == "other":
        assert seen[0].indexes == {"leasequeue_token"}


@pytest.mark.parametrize("death", [None, "killed by SIGKILL"])
@pytest.mark.parametrize("using", ["default", "other"])
def test_release(using, death):
    token = uuid.uuid4()
    held(token, using)
    with watched(using) as seen:
        assert len(Job.objects.using(using).release(token, death=death)) == LIMIT
    assert_written_by_key(seen)
    assert_cheap(seen, using)
    if using == "other":
        assert seen[0].indexes == {"leasequeue_token"}


@pytest.mark.parametrize("using", ["default", "other"])
def test_settle(using):
    """Outcomes are locked and written by primary key, one alone or several alike."""
    jobs = claimed(using)
    error = {"exception_class": "builtins.ValueError"}
    outcomes = [Succeeded("null")] * (LIMIT - 1) + [Failed(error)]
    with watched(using) as seen:
        done = Job.objects.using(using).settle(list(zip(jobs, outcomes, strict=True)))
    assert {settled.verdict.value for settled in done} == {"written"}
    assert_written_by_key(seen)
    assert_cheap(seen, using)


@pytest.mark.parametrize("using", ["default", "other"])
def test_settle_of_a_lost_job(using):
    """Being told why costs no more than a look at the row."""
    jobs = claimed(using)
    Job.objects.using(using).filter(pk=jobs[0].id).update(processing_token=uuid.uuid4())
    with watched(using) as seen:
        done = Job.objects.using(using).settle([(job, Succeeded("1")) for job in jobs])
    assert [settled.verdict.value for settled in done] == ["lost"] + ["written"] * 4
    assert_written_by_key(seen)
    assert_cheap(seen, using)


@pytest.mark.parametrize("using", ["default", "other"])
def test_claim_writes_by_key(using):
    """What a claim has locked in order it changes by key."""
    if using == "default":
        JobFactory.create_batch(LIMIT, queue="q1")
    with watched(using) as seen:
        assert len(claim(LIMIT, "q1", using=using, expired=False)) == LIMIT
    writes = [statement for statement in seen if statement.sql.startswith("UPDATE")]
    if connections[using].features.has_select_for_update:
        assert_written_by_key(writes)


@pytest.mark.parametrize("using", ["default", "other"])
def test_cancel(using):
    jobs = [JobFactory(using=using, queue="q1") for _ in range(LIMIT)]
    jobs += [JobFactory(using=using, queue="q1", leased=True) for _ in range(LIMIT)]
    with watched(using) as seen:
        done = Job.objects.using(using).filter(pk__in=[job.pk for job in jobs]).cancel()
    assert len(done.cancelled) == LIMIT
    assert_written_by_key(seen)
    assert_cheap(seen, using)


# --- Prune


def test_170_prune_looks_for_its_rows(settings, monkeypatch):
    """Case 170: lanes and what is to go in them are found through one index, in order.

    Whatever else is finished, and though all of a lane finished at one instant.
    """
    settings.LEASEQUEUE = {
        "RETENTION": None,
        "QUEUES": {"q1": {"RETENTION": {"count": 5}}, "q2": {"RETENTION": 0}},
    }
    monkeypatch.setattr(pruning, "ROWS", 20)
    steps = []
    with watched("other") as seen:
        removed = Job.objects.using("other").prune(
            queue="q1", after_step=lambda: steps.append(1) or len(steps) < 10
        )
    assert removed.total() > 100
    assert_pruned_cheaply(seen)
    with watched("other") as seen:
        Job.objects.using("other").prune(after_step=lambda: False)
    assert_pruned_cheaply(seen)


def test_170_prune_that_finds_nothing(settings):
    """What is kept for now is not read, however much it is."""
    with watched("other") as seen:
        assert Job.objects.using("other").prune() == {}
    # Two looks a lane, one for what may go in it, and one a status.
    assert len(seen) <= 3 * 3 * len(QUEUES) + 3
    assert not any(statement.locks for statement in seen), seen
    assert_pruned_cheaply(seen)


def assert_pruned_cheaply(seen):
    assert_cheap(seen)
    for statement in seen:
        if "SESSION" in statement.sql:
            continue
        if " IN (" in statement.sql or not statement.sql.startswith("SELECT"):
            assert PRIMARY in statement.indexes, statement
        elif connections["other"].vendor != "postgresql":
            # PostgreSQL may go any way where it knows that there are but a few.
            assert statement.indexes == {"leasequeue_finished"}, statement
            assert not statement.sorts, statement


# --- Checks


def test_stale_jobs(monkeypatch):
    """Some of each queue are read, few of all, and those that wait for a slot among them."""
    monkeypatch.setattr(stale, "MOST_NAMED", 150)
    monkeypatch.setattr(stale, "MOST_JOBS", 100)
    gone = JobFactory(using="other", queue="own", task="gone.task")
    alone = JobFactory(using="other", queue="own", task="tests.tasks.add", args=[1])
    with watched("other") as seen:
        assert stale.unknown_tasks("other") == [("gone.task", 1, gone.pk)]
        [misfit] = stale.misfits("other")
    assert (misfit.first, misfit.number) == (alone.pk, 1)
    # What begins at the head of a whole partial index is called a scan on SQLite.
    head = {"leasequeue_awaits_slot"}
    assert_cheap([one for one in seen if one.indexes != head or one.touched > FEW])


# --- Dispatch


def test_dispatch_looks_up_its_id():
    """The holder of a dedup id is found through the unique index, and written by key."""
    holder = JobFactory(
        using="other", queue="q1", dedup_id="mine", dedup_hold="finished"
    )
    with watched("other") as seen:
        for _ in range(2):
            job, _ = Job.objects.using("other").dispatch(
                add, (1, 2), queue="q1", dedup=Dedup("mine", replace=True)
            )
    assert job.pk == holder.pk
    assert any(statement.indexes == {"leasequeue_dedup"} for statement in seen), seen
    assert_written_by_key(seen)
    assert_cheap(seen)


def test_dispatch_many_looks_up_its_ids():
    """A batch asks for its ids in one look, and for nothing else of the table."""
    spec = add.using(queue="q1", dedup="mine").spec(1, 2)
    JobFactory(using="other", queue="q1", dedup_id="mine", dedup_hold="finished")
    specs = [add.using(queue="q1", dedup=f"new-{n}").spec(1, 2) for n in range(LIMIT)]
    with watched("other") as seen:
        done = Job.objects.using("other").dispatch_many([spec, *specs])
    assert [outcome for _, outcome in done] == ["skipped"] + ["added"] * LIMIT
    assert any(statement.indexes == {"leasequeue_dedup"} for statement in seen), seen
    assert_written_by_key(seen)
    assert_cheap(seen)


# --- Groups


@pytest.mark.parametrize(
    "use",
    [
        lambda jobs: jobs.counts(),
        lambda jobs: results.have_ended(jobs, jobs),
        lambda jobs: list(jobs.order_by().values_list("pk", flat=True)),
    ],
    ids=["counts", "wait", "cancel"],
)
def test_groups(use):
    """What a group is asked costs its own jobs, not the table."""
    for traits in [{"succeeded": True}, {"failed": True}]:
        JobFactory.create_batch(5, using="other", group="a", **traits)
    with watched("other") as seen:
        use(Job.objects.using("other").group("a"))
    assert_cheap(seen)
    (statement,) = seen
    assert statement.indexes == {"leasequeue_group"}
    assert statement.touched <= 40


def test_jobs_that_wait_for_a_group():
    """A look costs the groups that are waited for, and a job of each, not the table."""
    JobFactory.create_batch(5, using="other", group="a")
    jobs = Job.objects.using("other")
    for _ in range(3):
        jobs.dispatch(add, [1, 2], after_group="a")
    known = Seen()
    for _ in range(2):
        with watched("other") as seen:
            assert jobs.start_after_groups(known) == (0, True)
        assert_cheap(seen)
        assert all(statement.touched <= 40 for statement in seen)
    jobs.group("a").update(status="failed", finished_at=db.DatabaseNow())
    with watched("other") as seen:
        assert jobs.start_after_groups(known) == (3, False)
    assert_cheap(seen)


def test_a_result():
    """A look at a job is a look-up by its key."""
    job = JobFactory(using="other", succeeded=True)
    with watched("other") as seen:
        results.has_ended(job, Job.objects.using("other"))
    assert_cheap(seen)
    assert all(statement.touched <= 40 for statement in seen)


# --- Answers for people


@pytest.mark.parametrize(
    "state", ["last of many", "first", "delayed", "running", "ended"]
)
def test_why(state):
    """The place of a job in a long queue is counted up to a bound."""
    jobs = Job.objects.using("other")
    of_state = {
        "last of many": jobs.filter(queue="nobody's").order_by("-pk"),
        "first": jobs.filter(queue="q1", priority=5, status="pending").order_by("pk"),
        "delayed": jobs.filter(queue="q0", priority=50).order_by("pk"),
        "running": jobs.filter(queue="q1", status="running").order_by("pk"),
        "ended": jobs.filter(queue="q1", status="succeeded").order_by("pk"),
    }
    pk = of_state[state].values_list("pk", flat=True)[0]
    make_worker(using="other", queues=["*"], tasks=["tests.tasks.add"])
    try:
        with watched("other") as seen:
            causes = jobs.why(pk)
    finally:
        Worker.objects.using("other").delete()
    assert causes
    for statement in seen:
        assert not statement.scans, statement
        assert statement.touched <= ahead.MOST * 2, statement


def test_figures(monkeypatch):
    """What is finished costs nothing, and of what waits no more is read than is counted."""
    monkeypatch.setattr(queue_figures, "MOST_COUNTED", 50)
    with watched("other") as seen:
        found = figures("other")
    assert found.failed == 8 * 200 + 8
    assert {one.waiting for one in found.queues} == {51}
    lanes = LANES + 1
    for statement in seen:
        assert not statement.scans, statement
        most = 3 * lanes * 51
        if "finished_at" in statement.sql:
            most = 3 * found.failed
        assert statement.touched <= most, statement


def test_overview(monkeypatch):
    """What the dashboard asks beyond the figures: no more is read than it tells."""
    monkeypatch.setattr(queue_figures, "MOST_COUNTED", 50)
    with watched("other") as of_figures:
        figures("other")
    with watched("other") as seen:
        found = overview("other")
    assert found.last_failures
    for statement in seen[len(of_figures) :]:
        assert not statement.scans, statement
        assert statement.touched <= 3 * (len(found.running) + 200), statement
