"""`manage.py jobs`: what each verb shows, does, says and exits with."""

import io
import json
import sys

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.db.models import TextField, Value

from django_leasequeue import cron, discovery, every
from django_leasequeue.db import DatabaseNow
from django_leasequeue.management.console import VERBS, acting, listing, stats
from django_leasequeue.models import Job, Queue, Schedule
from django_leasequeue.states import Status
from django_leasequeue.times import local_time
from tests.admin.looking import make_worker, step_of
from tests.factories import JobFactory
from tests.helpers import failing
from tests.road import ids, locked, row, statements, table, toy
from tests.scheduling import STEP, a_schedule, tick

pytestmark = pytest.mark.django_db(databases=["default", "other"])

EVIL = "\x1b[2J\x1b]0;owned\x07[red]"


class Said:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return self.out.splitlines()


@pytest.fixture
def jobs(capsys):
    """Run `jobs` with these words; returns its exit code and what it prints."""

    def run(*words, **options):
        code = 0
        try:
            call_command("jobs", *map(str, words), **options)
        except CommandError as error:
            code = error.returncode
            print(error, file=sys.stderr)
        return Said(code, *capsys.readouterr())

    return run


def listed(said):
    return [int(line.split()[0]) for line in said.lines[1:]]


# --- list


def test_list(jobs):
    """Newest first, with how long each has been as it is."""
    made = [
        JobFactory(queue="mail", dedup_id="k", run_at=DatabaseNow(-7300)),
        JobFactory(scheduled=True),
        JobFactory(leased=True, last_attempted_at=DatabaseNow(-121)),
        JobFactory(failed=True, finished_at=DatabaseNow(-181)),
    ]
    said = jobs("list")
    assert said.code == 0
    assert listed(said) == ids(made)[::-1]
    head, failed, running, later, mail = said.lines
    assert head.split("  ")[0] == "id"
    assert failed.endswith("3 minutes ago") and " failed " in failed
    assert " running " in running and running.endswith("for 2 minutes")
    assert later.endswith("in 59 minutes")
    assert " k " in mail and "0/1" in mail and mail.endswith("due for 2 hours")


def test_list_by_filters(jobs):
    mail = JobFactory(queue="mail", group="import")
    failed = JobFactory(failed=True, created_at=DatabaseNow(-7300))
    other = JobFactory(task="shop.gone", scheduled=True)
    for words, found in [
        (["--queue=mail"], [mail]),
        (["--group=import"], [mail]),
        (["--status=failed"], [failed]),
        (["--status=failed", "--status=pending"], [other, failed, mail]),
        (["--task=shop.gone"], [other]),
        (["--task=tests.tasks.add", "--status=pending"], [mail]),
        (["--older-than=2h"], [failed]),
        (["--limit=1"], [other]),
    ]:
        said = jobs("list", *words, "--json")
        assert [job["id"] for job in said.json] == ids(found), words


def test_list_that_is_cut(jobs):
    JobFactory.create_batch(3)
    assert jobs("list", "--limit=2").lines[-1] == (
        "There are more; the newest 2 are listed (--limit)."
    )
    assert "more" not in jobs("list", "--limit=3").out


def test_list_of_nothing(jobs):
    """With what was probably meant."""
    assert jobs("list").out == "No job matches.\n"
    assert jobs("list", "--json").json == []
    said = jobs("list", "--queue=mial", "--task=tests.tasks.ad")
    assert said.code == 0
    assert "names the queue 'mial'. Misspelt?" in said.err
    assert "tests.tasks.add" in said.err


def test_list_when_the_code_is_broken(jobs, monkeypatch):
    def broken():
        raise ImportError("as the test asked")

    monkeypatch.setattr(discovery, "autodiscover", broken)
    job = JobFactory(task="shop.gone")
    assert listed(jobs("list", "--task=shop.gone")) == [job.pk]
    assert jobs("list", "--task=shop.other").out == "No job matches.\n"


def test_list_counts_nothing(jobs):
    """Case 172: one statement, and no wide column in it."""
    JobFactory.create_batch(3)
    with statements() as seen:
        jobs("list")
    assert len(seen) == 1 and "COUNT" not in seen[0] and "kwargs" not in seen[0]
    assert not {"args", "kwargs", "errors", "result"} & set(listing._COLUMNS)


# --- show and why


def test_show(jobs):
    job = JobFactory(failed=True, args=["Zoë"], group="import", max_attempts=3)
    entry = {"exception_class": "A", "message": "m", "traceback": "line 1\nline 2"}
    Job.objects.filter(pk=job.pk).update(errors=[*job.errors, entry])
    step_of(job, name="charge", result={"paid": True})
    said = jobs("show", job.pk)
    assert said.code == 0
    facts = dict(line.split(maxsplit=1) for line in said.lines[:4])
    assert facts["status"] == "failed" and facts["task"] == "tests.tasks.add"
    for text in (
        '"Zoë"',
        "import",
        "A: m",
        "line 1\nline 2",
        "charge",
        '{"paid": true}',
    ):
        assert text in said.out
    assert "dedup_id" not in said.out
    assert said.out.index("A: m") < said.out.index("builtins.ValueError: as asked")
    answer = jobs("show", job.pk, "--json").json
    assert answer["args"] == ["Zoë"] and answer["errors"][-1] == entry
    assert answer["steps"][0]["name"] == "charge"
    assert set(answer) == {*row(job), "steps", "timeline"}


def test_show_leaves_out_what_the_task_hides(jobs):
    """For people and for machines; an error was stored without it."""
    job = JobFactory(task="shop.pay", args=[41111], kwargs={"to": "zoe"}, result="code")
    step_of(job, name="charge", result="coded")

    def pay(card, to):
        pass

    with toy(pay, name="shop.pay", redact=["card", "return"]):
        said = jobs("show", job.pk)
        assert "41111" not in said.out and "code" not in said.out
        answer = jobs("show", job.pk, "--json").json
        assert answer["args"] == ["[hidden]"] and answer["kwargs"] == {"to": "zoe"}
        assert answer["result"] == answer["steps"][0]["result"] == "[hidden]"


def test_show_of_what_nobody_of_ours_wrote(jobs):
    """Case 174: broken JSON, unknown entries, a task that is gone."""
    for broken in ("{broken", "7", "[7, {}]", '"text"'):
        job = JobFactory(failed=True, task="shop.gone")
        text = Value(broken, output_field=TextField())
        Job.objects.filter(pk=job.pk).update(errors=text, args=text, result=text)
        assert jobs("show", job.pk).code == 0
        assert jobs("show", job.pk, "--json").code == 0


def test_why(jobs):
    job = JobFactory(scheduled=True)
    Queue.objects.pause("default", by="ann")
    said = jobs("why", job.pk)
    assert said.code == 0
    later, paused, nobody = said.lines
    assert later.startswith("It is due later: at ")
    assert "is paused since" in paused and "No worker is alive" in nobody
    answer = jobs("why", job.pk, "--json").json
    assert answer["job"] == job.pk
    kinds = [cause["kind"] for cause in answer["causes"]]
    assert kinds == ["due_later", "queue_paused", "no_worker"]


@pytest.mark.parametrize("verb", ["show", "why"])
def test_no_such_job(jobs, verb):
    said = jobs(verb, 7)
    assert said.code == 1 and said.out == ""
    assert "There is no job 7 in database" in said.err


# --- Text from jobs


def test_nothing_from_a_job_is_obeyed(jobs):
    """Neither by the terminal nor by the library that draws, whatever the verb."""
    error = {"exception_class": EVIL, "message": EVIL, "traceback": EVIL, EVIL: EVIL}
    job = JobFactory(
        failed=True,
        queue=EVIL,
        task=EVIL,
        group=EVIL,
        dedup_id=EVIL,
        args=[EVIL],
        result=EVIL,
        worker=EVIL,
        errors=[error, EVIL],
    )
    step_of(job, name=EVIL, result=EVIL)
    make_worker(name=EVIL, host=EVIL, queues=[EVIL], exclude=[EVIL], versions=EVIL)
    Queue.objects.pause(EVIL, by=EVIL, reason=EVIL)
    waiting = JobFactory(queue=EVIL, task=EVIL)
    for words in [
        ["list"],
        ["list", f"--queue={EVIL}x"],
        ["show", job.pk],
        ["why", job.pk],
        ["why", waiting.pk],
        ["stats"],
        ["workers"],
        ["retry", job.pk, "--yes"],
        ["list", "--json"],
        ["show", job.pk, "--json"],
    ]:
        said = jobs(*words)
        assert not set(said.out + said.err) & {"\x1b", "\x07"}, words
    assert "[red]" in jobs("list").out


# --- retry and cancel


def test_176_retry_tells_of_each_kind(jobs):
    """Case 176: running, waiting, done, failed and gone together; and pressed twice."""
    failed, waiting = JobFactory(failed=True), JobFactory()
    running, lost = JobFactory(leased=True), JobFactory(failed=True)
    Job.objects.filter(pk=lost.pk).update(released_dedup_id="k")
    JobFactory(dedup_id="k", dedup_hold="finished")
    chosen = [failed, waiting, running, lost]
    before = table()
    said = jobs("retry", *ids(chosen), 999_999, "--yes")
    assert said.code == 1
    assert said.lines == [
        "To run again: 1 job.",
        f"Not changed, another job has their dedup id by now: {lost.pk}.",
        f"Not changed, they wait or run: {waiting.pk}, {running.pk}.",
        "Not changed, there are no such jobs, or none that the filters leave: 999999.",
    ]
    assert said.err == "4 jobs were not changed.\n"
    after = table()
    assert after.pop(failed.pk)["status"] == Status.PENDING
    del before[failed.pk]
    assert after == before
    again = jobs("retry", failed.pk, "--yes", "--json")
    assert again.code == 1
    assert again.json == {
        "retried": [],
        "conflicts": [],
        "unfinished": [failed.pk],
        "locked": [],
        "gone": [],
    }


def test_cancel_tells_of_each_kind(jobs):
    """As with one chosen that has just finished, and one that is not there."""
    waiting, running = JobFactory(), JobFactory(leased=True)
    done = JobFactory(succeeded=True)
    said = jobs("cancel", *ids([waiting, running, done]), "--yes")
    assert said.code == 1
    assert said.lines == [
        "Cancelled: 1 job.",
        "Asked to stop, since they run: 1 job.",
        f"Not changed, they had ended: {done.pk}.",
    ]
    assert row(waiting)["status"] == Status.CANCELLED
    assert row(done)["status"] == Status.SUCCEEDED


def test_run_now_tells_of_each_kind(jobs):
    delayed, due = JobFactory(scheduled=True), JobFactory()
    running = JobFactory(leased=True)
    said = jobs("run-now", *ids([delayed, due, running]), 999_999, 10**30, "--yes")
    assert said.code == 1
    assert said.lines == [
        "Due now: 1 job.",
        f"Not changed, they were due before: {due.pk}.",
        f"Not changed, they run or have ended: {running.pk}.",
        "Not changed, there are no such jobs, or none that the filters leave: 999999, "
        f"{10**30}.",
    ]
    assert set(Job.objects.due()) == {delayed, due}


def test_release_tells_of_each_kind(jobs):
    """Filters alone choose what runs."""
    waiting, done = JobFactory(), JobFactory(succeeded=True)
    running = JobFactory.create_batch(2, leased=True)
    stopped = JobFactory(leased=True, cancel_requested_at=DatabaseNow())
    said = jobs("release", "--queue=default", "--yes")
    assert (said.code, said.lines) == (
        0,
        ["Taken from their workers, to run again: 2 jobs.", "Cancelled: 1 job."],
    )
    assert row(running[0])["status"] == Status.PENDING
    assert row(stopped)["status"] == Status.CANCELLED
    said = jobs("release", waiting.pk, done.pk, "--yes", "--json")
    assert said.code == 1
    assert said.json["not_running"] == [waiting.pk, done.pk]


def test_delete_tells_of_each_kind(jobs):
    """Filters alone choose what has ended; what waits has to be named."""
    waiting, running = JobFactory(), JobFactory(leased=True)
    ended = [
        JobFactory(**{kind: True}) for kind in ("succeeded", "failed", "cancelled")
    ]
    kept = JobFactory(failed=True, dedup_id="a", dedup_until=DatabaseNow(300))
    said = jobs("delete", "--queue=default", "--yes")
    assert said.code == 1
    assert said.lines == [
        "Deleted: 3 jobs.",
        f"Not changed, their dedup windows last: {kept.pk}.",
    ]
    assert set(table()) == {waiting.pk, running.pk, kept.pk}
    said = jobs("delete", waiting.pk, running.pk, ended[0].pk, "--yes")
    assert said.code == 1
    assert said.lines == [
        "Deleted: 1 job.",
        f"Not changed, they run: {running.pk}.",
        f"Not changed, there are no such jobs, or none that the filters leave: {ended[0].pk}.",
    ]
    assert row(running)["status"] == Status.RUNNING


MADE_FOR = {
    "retry": {"failed": True},
    "cancel": {},
    "run-now": {"scheduled": True},
    "release": {"leased": True},
    "delete": {"failed": True},
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(settings.DATABASE == "sqlite", reason="locks no rows")
@pytest.mark.parametrize("verb", MADE_FOR)
def test_178_a_locked_row_stops_nothing(jobs, verb):
    """Case 178: the others are done, and the locked one is told."""
    chosen = JobFactory.create_batch(3, **MADE_FOR[verb])
    with locked([chosen[1]]):
        said = jobs(verb, *ids(chosen), "--yes")
    assert said.code == 1
    assert said.lines[0].endswith(": 2 jobs.")
    assert said.lines[1].endswith(f"try again: {chosen[1].pk}.")


def test_filters_alone_choose_what_can_be_changed(jobs):
    """No finished job is cancelled, and none that went well runs again by accident."""
    failed, fine = JobFactory(failed=True), JobFactory(succeeded=True)
    waiting = JobFactory()
    assert jobs("retry", "--queue=default", "--yes").lines == ["To run again: 1 job."]
    assert row(failed)["status"] == Status.PENDING
    assert row(fine)["status"] == Status.SUCCEEDED
    said = jobs("cancel", "--task=tests.tasks.add", "--yes")
    assert (said.code, said.lines) == (0, ["Cancelled: 2 jobs."])
    said = jobs("retry", "--status=succeeded", "--status=cancelled", "--yes")
    assert said.lines == ["To run again: 3 jobs."]
    assert row(waiting)["status"] == Status.PENDING


def test_filters_narrow_ids(jobs):
    one, other = JobFactory(queue="a"), JobFactory(queue="b")
    said = jobs("cancel", one.pk, other.pk, "--queue=a", "--yes")
    assert said.code == 1 and str(other.pk) in said.lines[-1]
    assert row(other)["status"] == Status.PENDING


def test_more_than_one_call_changes(jobs, monkeypatch):
    monkeypatch.setattr(acting, "_ROWS", 2)
    JobFactory.create_batch(7)
    said = jobs("cancel", "--queue=default", "--limit=5", "--yes")
    assert (said.code, said.lines) == (0, ["Cancelled: 5 jobs."])
    assert "these are the newest 5" in said.err
    assert Job.objects.pending().count() == 2


def test_nothing_matches(jobs):
    said = jobs("cancel", "--queue=mial", "--yes")
    assert (said.code, said.out) == (0, "No job matches; nothing was changed.\n")
    assert "Misspelt?" in said.err


class Keyboard(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("typed", "status"),
    [
        ("y\n", "cancelled"),
        ("YES\n", "cancelled"),
        ("\n", "pending"),
        ("n\n", "pending"),
        ("", "pending"),
    ],
)
def test_it_asks_with_counts(jobs, monkeypatch, typed, status):
    waiting = JobFactory()
    JobFactory(leased=True)
    monkeypatch.setattr(sys, "stdin", Keyboard(typed))
    said = jobs("cancel", "--queue=default")
    assert said.out.startswith("Cancel 2 jobs (1 pending, 1 running)? [y/N] ")
    assert row(waiting)["status"] == status
    assert said.code == (1 if status == "pending" else 0)


@pytest.mark.parametrize("verb", MADE_FOR)
def test_what_makes_no_sense(jobs, monkeypatch, verb):
    """Exit code 2, and nothing is changed."""
    job = JobFactory(**MADE_FOR[verb])
    before = row(job)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for words, why in [
        ([job.pk], "nobody to ask: add --yes"),
        ([job.pk, "--json"], "nobody to ask: add --yes"),
        (["--yes"], "Name jobs by their ids"),
    ]:
        said = jobs(verb, *words)
        assert said.code == 2 and why in said.err
    for words in (["x"], ["--limit=0", "--yes"], ["--status=odd"], ["--older-than=x"]):
        with pytest.raises(CommandError):
            call_command("jobs", verb, *words)
    assert row(job) == before


# --- stats and workers


def test_stats(jobs):
    assert "No job waits or runs." in jobs("stats").out
    JobFactory.create_batch(2, queue="mail", run_at=DatabaseNow(-130))
    JobFactory(queue="held")
    Queue.objects.pause("held")
    JobFactory(failed=True, queue="mail")
    make_worker(queues=["mail"])
    make_worker(name="silent", last_seen_at=DatabaseNow(-100))
    said = jobs("stats")
    lines = [line.split() for line in said.lines]
    assert ["held", "paused", "-", "1", "0", "0"] in lines
    assert ["mail", "2", "2", "minutes", "2", "0", "1"] in lines
    assert "Workers: 1 live; 1 were not seen for a minute." in said.out
    assert "Failed within 1 hour: 1 job." in said.out
    answer = jobs("stats", "--json", "--window=2h").json
    assert answer["window"] == 7200
    assert [queue["name"] for queue in answer["queues"]] == ["held", "mail"]


def test_more_than_are_counted():
    assert stats._number(10_000) == "10,000" and stats._number(10_001) == "10,000+"


def test_workers(jobs):
    assert jobs("workers").out == "There is no worker.\n"
    make_worker(name="w1", exclude=["video"])
    make_worker(name="w2", last_seen_at=DatabaseNow(-100))
    JobFactory.create_batch(2, leased=True, worker="w1")
    said = jobs("workers")
    first, second = said.lines[1:]
    assert first.split()[:2] == ["w1", "live"] and "mail, *" in first and " 2 " in first
    assert second.split()[:2] == ["w2", "silent"]
    one, other = jobs("workers", "--json").json
    assert (one["name"], one["running"], one["live"]) == ("w1", 2, True)
    assert not other["live"]


def test_schedules(jobs):
    none = jobs("schedules").out
    assert none.startswith("There is no schedule. ") and "syncschedules" in none
    fine = a_schedule(every(minutes=10), args=[1, 2], name="a", ago=15 * STEP)
    tick(fine)
    broken = a_schedule(cron("5 4 * * *", tz="Europe/Paris"), name=f"b{EVIL}")
    Schedule.objects.filter(pk=broken.pk).update(problem=f"No such task.{EVIL}")
    said = jobs("schedules")
    assert "\x1b" not in said.out
    first, second, trouble = said.lines[1:]
    assert first.startswith("a ") and " active " in first and "every 600 s" in first
    fine.refresh_from_db()
    assert local_time(fine.last_tick) in first and first.endswith(" 1")
    assert " broken " in second and "5 4 * * * Europe/Paris" in second
    assert "No such task." in trouble
    one, other = jobs("schedules", "--json").json
    assert one["fired"] == 1 and one["last_tick"] == fine.last_tick.isoformat()
    assert other["problem"] == f"No such task.{EVIL}"
    with statements() as seen:
        jobs("schedules")
    assert len(seen) == 1


# --- All of them


def test_one_database(jobs):
    job = JobFactory(using="other", failed=True)
    assert listed(jobs("list", "--database=other")) == [job.pk]
    assert jobs("list").out == "No job matches.\n"
    assert jobs("show", job.pk, "--database=other").code == 0
    assert jobs("why", job.pk, "--database=other").code == 0
    assert jobs("retry", job.pk, "--database=other", "--yes").code == 0
    assert jobs("cancel", job.pk, "--database=other", "--yes").code == 0
    assert jobs("stats", "--database=other").code == 0
    assert jobs("workers", "--database=other").code == 0
    assert row(job, "other")["status"] == Status.CANCELLED


def test_a_database_that_refuses(jobs):
    """One line instead of a traceback; `--traceback` shows that."""
    with failing(OperationalError("gone"), times=9):
        said = jobs("list")
    assert said.code == 1
    assert said.err == "The database 'default' refused: gone\n"


def test_colours(jobs, monkeypatch):
    JobFactory()
    assert "\x1b[33mpending" in jobs("list", force_color=True).out
    assert "\x1b" not in jobs("list", no_color=True).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in jobs("list", force_color=True).out


def test_each_verb_explains_itself(jobs, capsys):
    for verb in VERBS:
        with pytest.raises(SystemExit) as ended:
            call_command("jobs", verb, "--help")
        assert ended.value.code == 0
        text = capsys.readouterr().out
        assert "--json" in text and "--database" in text
    with pytest.raises(CommandError, match=r"jobs list\|show\||invalid choice"):
        call_command("jobs")
