"""manage.py runjobs: its options, draining, and what jobs do to it."""

import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core import checks
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, connections, transaction
from django.db.backends.signals import connection_created
from django.utils import timezone

from django_leasequeue.db import DatabaseNow
from django_leasequeue.management.commands import runjobs
from django_leasequeue.models import Job
from django_leasequeue.states import Status
from django_leasequeue.worker import (
    lease_table,
    process_state,
    pruner,
    readiness,
)
from django_leasequeue.worker.inprocess import InProcess
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.stop import Level
from tests import tasks, worker_tasks
from tests.factories import JobFactory
from tests.helpers import eventually, in_thread, worker_environment
from tests.models import Effect
from tests.road import row, toy
from tests.scratch import scratch_database
from tests.workers import SETTINGS, gate, options, statuses, with_worker_tasks

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


@pytest.fixture
def drain(worker_process):
    """Run `runjobs --drain` to its end; returns (exit code, output)."""

    def run(*arguments, settings=None, **given):
        settings = {**SETTINGS, **(settings or {})}
        process = worker_process("--drain", *arguments, settings=settings, **given)
        return process.wait(), process.output

    return run


def found_in(folder):
    """Return the environment in which modules of a folder can be imported."""
    return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}


@pytest.fixture
def drain_here(capsys):
    """Drain in this process, which starts quickly; returns what was printed."""

    def run(*arguments):
        call_command("runjobs", "--in-process", "--drain", "--threads=2", *arguments)
        return capsys.readouterr().err

    return run


# --- Options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--processes=0"], "--processes must be at least 1, not 0"),
        (["--threads=-3"], "--threads must be at least 1, not -3"),
        (["--async-tasks=0"], "--async-tasks must be at least 1, not 0"),
        (["--stop-after=0"], "--stop-after must be at least 1, not 0"),
        (["--shutdown-timeout=-1"], "--shutdown-timeout must be 0 or more seconds"),
        (["--queues=a,a"], "--queues and --exclude: A queue is named twice"),
        (["--queues=a", "--exclude=a"], "--queues and --exclude: Both taken and"),
        (["--in-process", "--reload"], "--reload starts child processes"),
        (["--in-process", "--processes=2"], "--processes=2 starts child processes"),
        (["--drain", "--reload"], "--reload is for a worker that goes on"),
        (["--job=1", "--drain"], "--drain is not for --job, which runs one job"),
        (["--job=1", "--processes=1"], "--processes is not for --job"),
        (["--job=1", "--threads=1"], "--threads is not for --job"),
        (["--job=1", "--async-tasks=1"], "--async-tasks is not for --job"),
        (["--job=1", "--stop-after=1"], "--stop-after is not for --job"),
        (["--job=1", "--queues=a"], "--queues is not for --job"),
        (["--job=1", "--exclude=a"], "--exclude is not for --job"),
        (["--job=1", "--reload"], "--reload is not for --job"),
        (["--max-jobs=0"], "--max-jobs must be at least 1, not 0"),
        (["--max-memory=-1"], "--max-memory must be at least 1, not -1"),
        (["--in-process", "--max-jobs=1"], "--max-jobs replaces child processes"),
        (["--in-process", "--max-memory=1"], "--max-memory replaces child processes"),
        (["--stop-after=1", "--max-jobs=1"], "--max-jobs is for a worker that goes on"),
        (["--job=1", "--max-jobs=1"], "--max-jobs is not for --job"),
        (["--job=1", "--max-memory=1"], "--max-memory is not for --job"),
        (["--job=a"], "--job: invalid int value: 'a'"),
        (["--database=nowhere"], r"invalid choice: 'nowhere' \(choose from '?default"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(CommandError, match=message) as caught:
        call_command("runjobs", *arguments)
    assert caught.value.returncode == (2 if "--job=1" in arguments else 1)


def test_where_no_memory_is_told_there_is_no_limit_of_it(monkeypatch):
    monkeypatch.setattr(process_state, "tells_memory", lambda: False)
    with pytest.raises(CommandError, match="this system has no /proc"):
        call_command("runjobs", "--max-memory=100")


def test_a_database_that_does_not_exist_is_told_with_those_that_do():
    with pytest.raises(CommandError, match=r"no database 'nowhere'\. .* has default"):
        call_command("runjobs", database="nowhere")


@pytest.mark.parametrize("key", ["PROCESSES", "THREADS", "ASYNC_TASKS"])
def test_a_wrong_setting_is_told_by_its_name(settings, key):
    settings.LEASEQUEUE = {**SETTINGS, key: 0}
    with pytest.raises(
        CommandError, match=rf"LEASEQUEUE\['{key}'\] must be at least 1"
    ):
        call_command("runjobs")
    option = f"--{key.lower().replace('_', '-')}=0"
    with pytest.raises(CommandError, match=f"--{key.lower()[:5]}.* must be at least 1"):
        call_command("runjobs", option)


# System checks look at both.
every_database = pytest.mark.django_db(transaction=True, databases=["default", "other"])


@every_database
def test_a_drain_of_nobodys_queues_alone_is_an_error(capsys, settings):
    """Such as a misspelt one: it would end at once, as if all were done."""

    def drain_here(*arguments):
        given = ["runjobs", "--in-process", "--drain", *arguments]
        call_command(*given, skip_checks=False)
        return capsys.readouterr().err

    with pytest.raises(CommandError, match=r"names no queue .* 'mial'\. Misspelt"):
        drain_here("--queues=mial")
    assert "nothing was due" in drain_here("--queues=mial,default")
    assert "nothing was due" in drain_here("--queues=mial,*")
    settings.LEASEQUEUE = {**SETTINGS, "QUEUES": {"mial": {}}}
    assert "nothing was due" in drain_here("--queues=mial")


@every_database
def test_queues_that_are_nobodys_are_told_once(settings, caplog):
    settings.LEASEQUEUE = {**SETTINGS, "QUEUES": {"set": {"LEASE": 600}}}
    JobFactory(queue="used", scheduled=True)
    queues = "--queues=default,used,set,defualt,mial"
    with toy(lambda: None, name="letter", queue="mail"):
        call_command(
            "runjobs",
            "--in-process",
            "--drain",
            queues,
            "--exclude=x",
            skip_checks=False,
        )
    [line] = [r.getMessage() for r in caplog.records if "Misspelt" in r.getMessage()]
    assert "hold no job: 'defualt', 'mial'." in line
    assert "'default'" in line
    assert "'mail'" in line


def test_without_a_settings_module_children_are_refused(monkeypatch):
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    with pytest.raises(CommandError, match="--in-process"):
        call_command("runjobs", "--drain")


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_children_that_would_open_another_database_are_refused():
    """A test's database is not the one that the settings name: they would run real jobs."""
    with scratch_database() as alias:
        with pytest.raises(
            CommandError, match=r"such as a test's.*Use --in-process, or"
        ):
            call_command("runjobs", "--drain", f"--database={alias}")
        call_command("runjobs", "--drain", "--in-process", f"--database={alias}")


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="SQLite only")
def test_children_that_could_not_open_a_database_in_memory_are_refused(monkeypatch):
    monkeypatch.setattr(connection, "is_in_memory_db", lambda: True, raising=False)
    with pytest.raises(CommandError, match="Use --in-process, or"):
        call_command("runjobs", "--drain")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--drain"], 1), (["--drain", "--in-process"], 1), (["--job=1"], 2)],
    ids=str,
)
def test_in_a_transaction_nothing_is_run(arguments, code):
    with (
        transaction.atomic(),
        pytest.raises(
            CommandError, match=r"in a trans.*TransactionTestCase"
        ) as refused,
    ):
        call_command("runjobs", *arguments)
    assert refused.value.returncode == code


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_188_a_database_without_our_tables_is_refused():
    with (
        scratch_database(migrated=False) as alias,
        pytest.raises(CommandError, match=r"lacks 0001_initial.*migrate --database"),
    ):
        call_command("runjobs", f"--database={alias}")


def test_097_a_database_that_does_not_answer_at_the_start_is_waited_for(
    monkeypatch, caplog
):
    def refuse(connection):
        raise OperationalError("connection refused")

    monkeypatch.setattr(readiness, "MigrationExecutor", refuse)
    assert readiness.missing_migrations("default") == []
    assert "does not answer yet" in caplog.text


def test_097_system_checks_that_need_a_database_do_not_keep_it_from_starting(
    monkeypatch, caplog
):
    def refuse(*args, **kwargs):
        raise OperationalError("connection refused")

    monkeypatch.setattr(checks, "run_checks", refuse)
    job = tasks.add.dispatch(1, 1).job
    call_command("runjobs", "--in-process", "--drain", skip_checks=False)
    assert row(job)["status"] == Status.SUCCEEDED
    assert "Some system checks were left out" in caplog.text


# --- Draining


def test_a_drain_runs_what_is_due_and_leaves_the_rest(drain):
    jobs = [tasks.add.dispatch(n, 1).job for n in range(20)]
    delayed = tasks.add.using(delay=3600).dispatch(1, 1).job
    code, output = drain("--processes=2", "--threads=2")
    assert code == 0
    assert [row(job)["result"] for job in jobs] == [n + 1 for n in range(20)]
    assert row(delayed)["status"] == Status.PENDING
    assert "Draining: 20 jobs are due." in output
    assert "Drained: 20 succeeded. Still waiting: 1 job: 1 not due yet (" in output
    assert "ERROR" not in output


def test_a_drain_that_failed_a_job_exits_with_one(drain):
    failed, good = tasks.fail.dispatch().job, tasks.add.dispatch(1, 1).job
    code, output = drain()
    assert code == 1
    assert row(failed)["status"] == Status.FAILED
    assert row(good)["status"] == Status.SUCCEEDED
    assert "Drained: 1 succeeded, 1 failed." in output
    assert "1 job failed." in output


def test_a_drain_of_nothing_exits_with_zero(drain):
    code, output = drain("--processes=2")
    assert code == 0
    assert "Drained: nothing was due." in output


def test_a_drain_runs_retries_that_are_due_at_once(drain_here, tmp_path):
    job = worker_tasks.fail_until.dispatch(str(tmp_path / "runs"), 2).job
    assert "1 succeeded, 2 to be retried" in drain_here()
    assert (row(job)["result"], row(job)["attempts"]) == ("at last", 3)


def test_a_drain_recovers_jobs_whose_lease_is_past(drain_here):
    job = JobFactory(expired=True, queue="default")
    drain_here()
    assert row(job)["status"] == Status.SUCCEEDED
    assert row(job)["recoveries"] == 1


def test_a_drain_ends_only_when_all_children_are_done(worker_process, tmp_path):
    """While one child runs a job, its idle sibling waits for what may follow from it."""
    with gate(tmp_path) as shut:
        worker_tasks.pass_gate.dispatch(shut.path, "first")
        process = worker_process(
            "--drain", "--processes=2", "--threads=1", settings=SETTINGS
        )
        eventually(lambda: statuses()[Status.RUNNING] == 1)
        worker_tasks.pass_gate.dispatch(shut.path, "second")
        eventually(lambda: statuses()[Status.RUNNING] == 2)
        assert process.is_running
        assert len(set(Job.objects.values_list("worker", flat=True))) == 2
        shut.open()
        assert process.wait() == 0
        assert len(shut.runs()) == 2


def test_a_drain_ends_if_its_children_can_not_start(drain, tmp_path):
    (tmp_path / "broken_tasks.py").write_text("import no_such_module\n")
    # Without the checks, which would have refused to start.
    code, output = drain(
        "--skip-checks",
        settings={"TASK_MODULES": ["broken_tasks"]},
        env=found_in(tmp_path),
    )
    assert code == 1
    assert "no_such_module" in output
    assert "The children died before they could work." in output
    # 153: with a growing pause.
    assert "starts in 0 s" in output
    assert "starts in 2 s" in output


def test_on_a_terminal_a_drain_shows_a_bar(tmp_path):
    tasks.add.dispatch(1, 1)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    process = subprocess.Popen(
        [sys.executable, "-m", "django", "runjobs", "--drain", "--verbosity=0"],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=worker_environment(),
        cwd=Path(__file__).parents[2],
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait(120) == 0
    assert "1/1" in shown.decode()
    assert "1 succeeded" in shown.decode()


# --- Queues and numbers


def test_queues_are_taken_in_order_and_excluded_ones_never(drain_here, tmp_path):
    path = str(tmp_path / "runs")
    Path(path).touch()
    for queue in ("late", "other", "never", "early"):
        tasks.record_run.using(queue=queue).dispatch(path, queue)
    drain_here("--queues=early,*,late", "--exclude=never", "--threads=1")
    assert Path(path).read_text().split() == ["early", "other", "late"]
    assert statuses()[Status.PENDING] == 1


def test_a_drain_counts_only_the_queues_that_it_takes(drain_here):
    for queue in ("a", "b", "c"):
        tasks.add.using(queue=queue).dispatch(1, 1)
    assert "Draining: 1 job is due." in drain_here("--queues=a")
    assert "Draining: 1 job is due." in drain_here("--exclude=a,c")


def test_a_drain_ends_with_what_still_waits(drain_here):
    """With the next time in the project's zone."""
    tasks.add.dispatch(1, 1)
    for queue in ("default", "aside"):
        for hour in (12, 18):
            at = datetime(2126, 1, 2, hour, tzinfo=UTC)
            tasks.add.using(queue=queue, run_at=at).dispatch(1, 1)
    tasks.add.using(queue="aside").dispatch(1, 1)
    output = drain_here("--queues=default")
    assert output.splitlines()[-1] == (
        "Drained: 1 succeeded. Still waiting: 5 jobs: 2 not due yet (the next at "
        "2126-01-02 08:30:00 NST), 3 in queues that this worker does not take."
    )


def test_a_drain_runs_what_waits_for_a_group_once_that_is_done(drain_here):
    for group in ("a", "b"):
        tasks.add.using(group=group).dispatch(1, 1)
        tasks.add.using(after_group=group).dispatch(1, 1)
    tasks.add.using(group="b", delay=3600).dispatch(1, 1)
    output = drain_here()
    assert "Draining: 2 jobs are due." in output
    assert "Drained: 3 succeeded. Still waiting: 2 jobs: 1 not due yet (" in output
    assert output.endswith("), 1 until other jobs have ended.\n")


def test_a_drain_that_is_stopped_tells_what_is_due_still(drain_here):
    for _ in range(3):
        tasks.add.dispatch(1, 1)
    assert "Still waiting: 2 jobs: 2 due." in drain_here("--stop-after=1")


def test_what_waits_for_the_end_of_the_calendar_is_told(drain_here):
    """A local time that does not exist is told as it is in UTC."""
    tasks.add.using(run_at=datetime.max.replace(tzinfo=UTC)).dispatch(1, 1)
    with timezone.override("Asia/Tokyo"):
        assert "1 not due yet (the next at 9999-12-31 23:59:59" in drain_here()


def test_what_waits_is_left_out_if_the_database_does_not_say(drain_here, monkeypatch):
    def refuse(options):
        raise OperationalError("gone away")

    monkeypatch.setattr(runjobs, "jobs_left", refuse)
    tasks.add.using(delay=3600).dispatch(1, 1)
    assert drain_here().splitlines()[-1] == "Drained: nothing was due."


@pytest.mark.parametrize("processes", [1, 2])
def test_stop_after_ends_the_worker_after_so_many(worker_process, processes):
    for n in range(10):
        tasks.add.dispatch(n, 1)
    process = worker_process("--stop-after=5", f"--processes={processes}")
    assert process.wait() == 0
    assert statuses() == {Status.SUCCEEDED: 5, Status.PENDING: 5}


def test_async_tasks_run_in_the_event_loop(drain_here):
    jobs = [worker_tasks.add_soon.dispatch(n, 1).job for n in range(30)]
    drain_here("--async-tasks=10")
    assert [row(job)["result"] for job in jobs] == [n + 1 for n in range(30)]


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_184_it_works_on_the_database_that_it_is_given(drain):
    theirs = tasks.add.using(database="other").dispatch(1, 1).job
    ours = tasks.add.dispatch(1, 1).job
    assert drain("--database=other")[0] == 0
    assert row(theirs, using="other")["status"] == Status.SUCCEEDED
    assert row(ours)["status"] == Status.PENDING


# --- What jobs do to it


def test_079_072_bad_jobs_end_neither_the_worker_nor_the_good_ones(drain):
    unknown = JobFactory(task="renamed.task", queue="default")
    broken = JobFactory(args={"not": "a list"}, queue="default")
    left = [worker_tasks.leave.dispatch(code).job for code in (0, 3)]
    good = [tasks.add.dispatch(n, 1).job for n in range(10)]
    code, output = drain("--threads=1")
    assert code == 1
    assert row(unknown)["status"] == Status.PENDING
    assert row(unknown)["errors"][0]["exception_class"].endswith("UnknownTask")
    assert row(broken)["status"] == Status.FAILED
    assert [row(job)["status"] for job in left] == [Status.FAILED] * 2
    assert [row(job)["status"] for job in good] == [Status.SUCCEEDED] * 10
    assert "was lost" not in output


def test_062_jobs_that_end_their_process_are_stopped_and_the_others_run(drain):
    droppers = [worker_tasks.drop_dead.dispatch(code).job for code in (7, 0)]
    good = [tasks.add.dispatch(n, 1).job for n in range(5)]
    code, output = drain("--threads=1")
    assert code == 1
    for code, dropper in zip((7, 0), droppers, strict=True):
        values = row(dropper)
        assert (values["status"], values["attempts"]) == (Status.FAILED, 0)
        assert f"exited with code {code}" in values["errors"][0]["message"]
        assert values["errors"][-1]["exception_class"].endswith("WorkersLost")
        assert f"was lost: exited with code {code}" in output
    assert [row(job)["status"] for job in good] == [Status.SUCCEEDED] * 5


# --- In one process


def test_in_process_it_drains_in_the_calling_process(drain_here):
    job = tasks.record_effect.dispatch("here").job
    assert "Drained: 1 succeeded." in drain_here()
    assert row(job)["status"] == Status.SUCCEEDED
    assert Effect.objects.get().pid == os.getpid()


def test_in_process_a_failure_is_a_command_error(drain_here):
    tasks.fail.dispatch()
    with pytest.raises(CommandError, match="1 job failed") as caught:
        drain_here()
    assert caught.value.returncode == 1


def test_150_in_a_thread_it_runs_until_it_is_stopped(settings):
    handlers = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    workers = [InProcess(options(), Progress()) for _ in range(2)]
    with in_thread(workers[0].run) as first, in_thread(workers[1].run) as second:
        jobs = [tasks.add.dispatch(n, 1).job for n in range(10)]
        eventually(lambda: statuses()[Status.SUCCEEDED] == 10)
        for worker in workers:
            worker.stop.request(Level.GRACEFUL, "the test is done")
        assert (first.result(), second.result()) == (0, 0)
    assert [row(job)["result"] for job in jobs] == [n + 1 for n in range(10)]
    assert handlers == [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]


def test_in_process_a_lost_lease_is_told_to_the_task(announcement, monkeypatch):
    # A lease that lasts, whatever the machine has to do, and is soon renewed.
    monkeypatch.setattr(lease_table, "_PART", 1000)
    job = worker_tasks.wait_until_lost.dispatch(announcement.path).job
    progress = Progress()
    worker = InProcess(options(), progress)
    with in_thread(worker.run) as running:
        assert announcement.wait() == f"{os.getpid()} started"
        Job.objects.filter(pk=job.pk).update(
            processing_token=uuid.uuid4(), processing_until=DatabaseNow(3600)
        )
        assert announcement.wait() == "lost"
        eventually(lambda: progress.counts["lost"])
        worker.stop.request(Level.GRACEFUL, "the test is done")
        assert running.result() == 0
    assert row(job)["attempts"] == 0


def test_102_threads_close_their_connections(drain_here, monkeypatch):
    # Nor does the pruner open one, however long this takes.
    monkeypatch.setattr(pruner, "_LOOK_EVERY", 3600)
    opened = []

    def note(connection, **kwargs):
        opened.append(connection)

    connection_created.connect(note)
    try:
        for n in range(20):
            tasks.record_effect.dispatch(f"{n}")
        opened.clear()
        drain_here()
    finally:
        connection_created.disconnect(note)
    ours = connections["default"]
    still = [c for c in opened if c.connection is not None and c is not ours]
    assert opened
    assert still == []
    # Two threads for jobs, settler, keeper, and the loop itself.
    assert len({id(c) for c in opened}) <= 5
    names = {t.name for t in threading.enumerate() if t.name.startswith("leasequeue")}
    assert names <= {
        "leasequeue-watchdog"
    }  # has no connection, and lives as the process


def test_in_process_it_needs_nothing_that_windows_lacks(worker_process, tmp_path):
    """A command that takes those things away and then runs ours, for want of Windows."""
    commands = tmp_path / "windowless" / "management" / "commands"
    commands.mkdir(parents=True)
    for folder in (commands, commands.parent, commands.parent.parent):
        (folder / "__init__.py").touch()
    (commands / "runbare.py").write_text(
        "import os, signal, sys\n"
        "import asyncio, concurrent.futures.thread\n"
        "del os.register_at_fork, os.set_blocking\n"
        "del signal.SIGHUP, signal.pthread_sigmask\n"
        "sys.modules.update(fcntl=None, termios=None, pwd=None)\n"
        "from django_leasequeue.management.commands.runjobs import Command\n"
    )
    (tmp_path / "bare.py").write_text(
        "from tests.settings import *\n"
        "INSTALLED_APPS = [*INSTALLED_APPS, 'windowless']\n"
    )
    job = tasks.add.dispatch(1, 1).job
    process = worker_process(
        "--drain",
        "--in-process",
        "--skip-checks",  # these import tasks of ours that lock files
        command="runbare",
        env={**found_in(tmp_path), "DJANGO_SETTINGS_MODULE": "bare"},
    )
    assert process.wait() == 0, process.output
    assert row(job)["status"] == Status.SUCCEEDED


# --- Other ways to start it


def test_it_works_beside_django_extensions(drain, tmp_path):
    """Its runjobs shadows ours; children are started by module, never by command name."""
    commands = tmp_path / "django_extensions" / "management" / "commands"
    commands.mkdir(parents=True)
    for folder in (commands, commands.parent, commands.parent.parent):
        (folder / "__init__.py").touch()
    (commands / "runjobs.py").write_text("raise SystemExit('not this one')\n")
    (commands / "runours.py").write_text(
        "from django_leasequeue.management.commands.runjobs import Command\n"
    )
    (tmp_path / "shadowed.py").write_text(
        "from tests.settings import *\n"
        "INSTALLED_APPS = ['django_extensions', *INSTALLED_APPS]\n"
    )
    job = tasks.add.dispatch(1, 1).job
    env = {**found_in(tmp_path), "DJANGO_SETTINGS_MODULE": "shadowed"}
    code, output = drain(command="runours", env=env)
    assert (code, row(job)["status"]) == (0, Status.SUCCEEDED), output


def test_151_changed_code_is_used_after_the_running_job(worker_process, tmp_path):
    module = tmp_path / "changing_tasks.py"
    source = (
        "from django_leasequeue import task\n"
        "from tests.worker_tasks import pass_gate\n"
        "@task\n"
        "def version(): return {}\n"
        "@task\n"
        "def version_behind_gate(path):\n"
        "    pass_gate(path, 'version')\n"
        "    return {}\n"
    )
    module.write_text(source.format(1, 1))
    settings = {**SETTINGS, "TASK_MODULES": ["changing_tasks", "tests.worker_tasks"]}
    with gate(tmp_path) as shut:
        process = worker_process(
            "--reload", "--threads=1", settings=settings, env=found_in(tmp_path)
        )
        running = JobFactory(
            task="changing_tasks.version_behind_gate", args=[shut.path], queue="a"
        )
        eventually(lambda: row(running)["status"] == Status.RUNNING)
        module.write_text(source.format(2, 2))
        os.utime(module, (2_000_000_000, 2_000_000_000))
        process.wait_for("changing_tasks.py has changed")
        after = JobFactory(task="changing_tasks.version", args=[], queue="a")
        shut.open()
        eventually(lambda: row(after)["status"] == Status.SUCCEEDED)
    assert (row(running)["result"], row(after)["result"]) == (1, 2)
    assert row(running)["recoveries"] == 0
    process.send(signal.SIGTERM)
    assert process.wait() == 0


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_154_a_task_may_start_processes(worker_process, method):
    """Its process is a module that can be imported once more, whatever the start method."""
    with with_worker_tasks():
        job = worker_tasks.double_elsewhere.dispatch(method, 21).job
    assert worker_process("--drain", settings=SETTINGS).wait() == 0
    assert (row(job)["status"], row(job)["result"]) == (Status.SUCCEEDED, 42)
