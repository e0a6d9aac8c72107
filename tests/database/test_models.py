"""The tables: what a row starts as, which rows are impossible, and which texts are equal."""

import json
import uuid

import pytest
from django.conf import settings
from django.db import DataError, IntegrityError, connections, transaction
from django.db.models import F

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Worker
from django_leasequeue.selection import Selection
from django_leasequeue.states import FINAL, Status
from tests.factories import JobFactory
from tests.road import row
from tests.scratch import scratch_database
from tests.tasks import add

pytestmark = pytest.mark.django_db(databases=["default", "other"])


def now():
    return DatabaseNow()


# --- What a row starts as


def test_job_starts_as():
    """Every column of a job of which only the needful is said."""
    job = Job.objects.create(task="t", run_at=now(), created_at=now())
    values = row(job)
    created_at = values.pop("created_at")
    assert created_at == values.pop("run_at")
    assert values == {
        "id": job.pk,
        "queue": "",
        "task": "t",
        "args": [],
        "kwargs": {},
        "next_args": None,
        "next_kwargs": None,
        "group": None,
        "priority": 0,
        "status": "pending",
        "round": 1,
        "attempts": 0,
        "max_attempts": 1,
        "recoveries": 0,
        "lost_alone": 0,
        "suspect": 0,
        "claims": 0,
        "processing_until": None,
        "processing_token": None,
        "last_token": None,
        "worker": "",
        "worker_ids": "",
        "dedup_id": None,
        "released_dedup_id": None,
        "dedup_ttl": None,
        "dedup_until": None,
        "dedup_hold": "",
        "rerun": False,
        "suppressed": 0,
        "last_suppressed_at": None,
        "concurrency_key": None,
        "concurrency_limit": None,
        "blocked": 0,
        "schedule": None,
        "tick": None,
        "result": None,
        "errors": [],
        "progress": None,
        "meta": {},
        "cancel_requested_at": None,
        "started_at": None,
        "last_attempted_at": None,
        "finished_at": None,
        "dispatched_by": None,
        "events": None,
    }


def test_defaults_are_not_shared():
    first, second = Job(), Job()
    first.args.append(1)
    first.kwargs["a"] = first.meta["b"] = 1
    first.errors.append({})
    assert (second.args, second.kwargs, second.meta, second.errors) == ([], {}, {}, [])


def test_worker_starts_as():
    worker = Worker.objects.create(
        name="host:1:ab", host="host", pid=1, started_at=now(), last_seen_at=now()
    )
    values = Worker.objects.values().get()
    assert values.pop("started_at") == values.pop("last_seen_at")
    assert values == {
        "id": worker.pk,
        "name": "host:1:ab",
        "host": "host",
        "pid": 1,
        "queues": [],
        "exclude": [],
        "tasks": [],
        "versions": {},
    }


def test_ids_are_big():
    """A queue passes two billion jobs one day, whatever the project's DEFAULT_AUTO_FIELD."""
    job = JobFactory(id=2**53)
    assert JobFactory().pk > 2**53 or connections["default"].vendor == "postgresql"
    assert Job.objects.get(pk=2**53) == job


def test_words_for_a_row():
    job = JobFactory(task="shop.tasks.send")
    assert str(job) == f"shop.tasks.send ({job.pk})"
    assert str(Worker(name="host:1:ab")) == "host:1:ab"
    assert [Job(status=status).is_final for status in Status] == [
        status in FINAL for status in Status
    ]


def test_newest_first():
    jobs = JobFactory.create_batch(3)
    assert list(Job.objects.all()) == jobs[::-1]


# --- Which rows are impossible

TOKEN = uuid.uuid4()
LEASE = {"processing_token": TOKEN, "processing_until": now()}
END = {"finished_at": now()}
IMPOSSIBLE = [
    ("pending", {"processing_token": TOKEN}),
    ("pending", {"processing_until": now()}),
    ("pending", LEASE),
    ("pending", END),
    ("running", {}),
    ("running", {"processing_token": TOKEN}),
    ("running", {"processing_until": now()}),
    ("running", {**LEASE, **END}),
    *((status.value, {}) for status in sorted(FINAL)),
    *((status.value, {**END, **LEASE}) for status in sorted(FINAL)),
    *((status.value, {**END, "processing_token": TOKEN}) for status in sorted(FINAL)),
    ("waiting", {}),
    ("waiting", LEASE),
    ("waiting", END),
    ("waiting", {**LEASE, **END}),
    ("", {}),
    ("Pending", {}),
    ("pending ", {}),
    ("SUCCEEDED", END),
]
POSSIBLE = [
    ("pending", {}),
    ("running", LEASE),
    *((status.value, END) for status in sorted(FINAL)),
]


@pytest.mark.parametrize("status, columns", IMPOSSIBLE)
def test_impossible_rows(status, columns):
    """A job runs if and only if it has a lease, and has ended if and only if it says when.

    By an insert, and by an update of a row that was possible.
    """
    with pytest.raises(IntegrityError), transaction.atomic():
        JobFactory(status=status, **columns)
    job = JobFactory()
    before = row(job)
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(status=status, **columns)
    assert row(job) == before


@pytest.mark.parametrize("status, columns", POSSIBLE)
def test_possible_rows(status, columns):
    job = JobFactory(status=status, **columns)
    assert row(job)["status"] == status


@pytest.mark.parametrize(
    "column",
    [
        "queue",
        "task",
        "args",
        "kwargs",
        "run_at",
        "created_at",
        "errors",
        "meta",
        "status",
    ],
)
def test_columns_that_are_never_null(column):
    job = JobFactory()
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(**{column: None})


def test_one_job_an_id():
    """In one queue; jobs without an id are as many as may be."""
    JobFactory(queue="a", dedup_id="x")
    JobFactory(queue="b", dedup_id="x")
    JobFactory.create_batch(2, queue="a", dedup_id=None)
    with pytest.raises(IntegrityError), transaction.atomic():
        JobFactory(queue="a", dedup_id="x", succeeded=True)


def test_one_job_a_tick():
    JobFactory(schedule="nightly", tick=JobFactory().run_at)
    JobFactory.create_batch(2, schedule="nightly", tick=None)
    with pytest.raises(IntegrityError), transaction.atomic():
        JobFactory(schedule="nightly", tick=Job.objects.earliest("id").run_at)


# --- Which texts are equal

# Some are the same to one database's usual collation or another's.
DISTINCT = [
    "a",
    "A",
    "a ",
    "a  ",
    " a",
    "a\t",
    "a\n",
    "á",
    "a\u0301",
    "a\u200b",
    "a\u00ad",
    "ａ",
    "ss",
    "ß",
    "ẞ",
    "i",
    "ı",
    "İ",
    "æ",
    "ae",
    "1",
    "１",
    "²",
    "\N{GRINNING FACE}",
    "\N{GRINNING FACE WITH SMILING EYES}",
    "\N{OK HAND SIGN}",
    "\N{OK HAND SIGN}\N{EMOJI MODIFIER FITZPATRICK TYPE-6}",
    "\U0010fffe",
    "ア",
    "あ",
    "%",
    "_",
    "\\",
    "'",
    '"',
    "`",
    "null",
    "\x01",
]
CHARSETS = [None]
if settings.DATABASE in ("mariadb", "mysql"):
    CHARSETS += ["utf8mb3", "latin1"]


@pytest.fixture(scope="module", params=CHARSETS, ids=str)
def charset(request, django_db_setup, django_db_blocker):
    """Make `other` a database of another default charset; yields the charset's name."""
    if request.param is None:
        yield
        return
    with django_db_blocker.unblock(), scratch_database("other", charset=request.param):
        yield request.param


@pytest.fixture
def using(charset):
    """An alias whose tables stand in a database of this charset."""
    return "other" if charset else "default"


@pytest.mark.parametrize(
    "column", ["queue", "task", "dedup_id", "group", "concurrency_key"]
)
def test_texts_are_equal_if_every_character_is(using, column):
    """Each finds itself alone, and they are as many as they look."""
    jobs = {text: JobFactory(using=using, **{column: text}) for text in DISTINCT}
    rows = Job.objects.using(using)
    for text, job in jobs.items():
        assert list(rows.filter(**{column: text})) == [job], text
        assert row(job, using)[column] == text
    assert rows.values(column).distinct().count() == len(DISTINCT)
    assert set(rows.filter(**{f"{column}__in": DISTINCT[:9]})) == {
        jobs[text] for text in DISTINCT[:9]
    }


@pytest.mark.parametrize("varied", ["queue", "dedup_id"])
def test_unique_by_every_character(using, varied):
    """Ids and queues that differ in anything stand side by side, and no two that don't."""
    same = {"queue": "q", "dedup_id": "x"}
    for text in DISTINCT:
        JobFactory(using=using, **{**same, varied: text})
    for text in DISTINCT:
        with pytest.raises(IntegrityError), transaction.atomic(using=using):
            JobFactory(using=using, **{**same, varied: text})


def test_dispatch_compares_exactly(using):
    """From end to end: each of these is added, and skipped when it comes again."""
    for expected in ("added", "skipped"):
        for text in DISTINCT:
            done = Job.objects.using(using).dispatch(add, (1, 2), dedup=text)
            assert done.outcome == expected, text


def test_queues_are_taken_exactly(using):
    """A worker of one queue takes nothing of one that is only like it."""
    for text in DISTINCT:
        JobFactory(using=using, queue=text)
    for text in DISTINCT:
        claim = Job.objects.using(using).claim(
            Selection((text,)), 100, uuid.uuid4(), "w"
        )
        assert [job.queue for job in claim.jobs] == [text]


def test_longest_texts(using):
    """510 and 100 characters of four bytes fit, and the last of them counts."""
    face, other = "\N{GRINNING FACE}", "\N{GRINNING CAT FACE WITH SMILING EYES}"
    texts = {
        "queue": face * 99,
        "dedup_id": face * 509,
        "released_dedup_id": face * 509,
        "task": face * 254,
        "group": face * 254,
        "concurrency_key": face * 254,
        "schedule": face * 254,
    }
    first, second = (
        JobFactory(using=using, **{name: text + end for name, text in texts.items()})
        for end in (face, other)
    )
    for name, text in texts.items():
        assert row(first, using)[name] == text + face
        assert list(Job.objects.using(using).filter(**{name: text + other})) == [second]
    with pytest.raises(IntegrityError), transaction.atomic(using=using):
        Job.objects.using(using).filter(pk=second.pk).update(
            queue=first.queue, dedup_id=first.dedup_id
        )


def test_longer_texts(using):
    """Nothing is cut short, which could make two ids one."""
    job = JobFactory(using=using)
    if connections[using].vendor == "sqlite":
        pytest.skip("SQLite keeps texts of any length")
    with pytest.raises(DataError), transaction.atomic(using=using):
        Job.objects.using(using).filter(pk=job.pk).update(dedup_id="x" * 511)


# --- Payloads on databases that lack characters

SPEECH = "á a\u0301 \N{GRINNING FACE} \U0010fffe \\u00e1 \\ ' \" % \u2028 ẞ"


def test_118_payload_is_never_changed(using):
    """Whatever charset the database was made with, what goes in comes out."""
    payload = {"text": SPEECH, SPEECH: [SPEECH]}
    rows = Job.objects.using(using)
    job, _ = rows.dispatch(add, (payload, 2), queue=SPEECH, group=SPEECH, meta=payload)
    assert job.args == [payload, 2]
    [held] = rows.claim(Selection(), 1, uuid.uuid4(), "w").jobs
    assert json.loads(held.args) == [payload, 2]
    stored = row(job, using)
    assert stored["meta"] == payload
    assert (stored["args"], stored["kwargs"]) == ([payload, 2], {})
    assert (stored["queue"], stored["group"]) == (SPEECH, SPEECH)
    Job.objects.using(using).update(
        result=payload, errors=[payload], progress=SPEECH, worker_ids=F("worker_ids")
    )
    stored = row(job, using)
    assert stored["result"] == payload
    assert stored["errors"] == [payload]
    assert stored["progress"] == SPEECH
