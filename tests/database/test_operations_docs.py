"""The commands, tables and Python of docs/operations.md do what the text says."""

import shlex
from argparse import ArgumentParser
from types import ModuleType
from unittest import mock

import pytest
from django.core.management import CommandError, call_command

from django_leasequeue import history, registry
from django_leasequeue.management.commands import checkjobs
from django_leasequeue.management.console import VERBS, acting, listing
from django_leasequeue.models import Job
from django_leasequeue.why import Kind, ahead
from tests import readme
from tests.admin.looking import make_worker
from tests.factories import JobFactory
from tests.processes import ROOT

TEXT = (ROOT / "docs/operations.md").read_text()
JOBS, CHECKS = readme.blocks("console", TEXT)
REDACT, WHY, TIMELINE, URLS = readme.blocks("python", TEXT)


def run(line):
    """Run a line's command; returns its exit code."""
    words = shlex.split(line)
    assert words[:3] == ["$", "python", "manage.py"]
    try:
        call_command(*words[3:])
    except CommandError as error:
        return error.returncode
    return 0


def test_each_command_runs(capsys):
    for pk in (41, 42):
        JobFactory(pk=pk, failed=True)
    JobFactory(pk=43, scheduled=True)
    JobFactory(queue="video", leased=True)
    JobFactory(group="import-2049")
    codes = [run(line) for line in JOBS.splitlines()]
    # Those without --yes have nobody to ask.
    assert codes == [0, 0, 0, 2, 0, 2, 2, 0, 0, 0, 0, 0]
    verbs = {shlex.split(line)[4] for line in JOBS.splitlines()}
    assert verbs == set(VERBS)


def test_tables_of_verbs_and_exit_codes():
    assert [row[0].strip("`") for row in readme.table("verb", TEXT)] == list(VERBS)
    assert [row[0] for row in readme.table("exit code", TEXT)] == ["0", "1", "2"]
    assert f"{acting.MOST:,} jobs a call" in TEXT.replace("\n", " ")
    parser = ArgumentParser()
    listing.add_arguments(parser)
    assert f"`--limit` ({parser.get_default('limit')})" in TEXT


def test_redact(settings):
    with mock.patch.dict(registry._tasks):
        module = ModuleType("shop.tasks")
        exec(REDACT, vars(module))
        rules = [
            getattr(module, name).options.redaction for name in ("connect", "charge")
        ]
    told = {"args": [7, "secret"], "result": "session"}
    assert rules[0].shown(told) == {"args": [7, "[hidden]"], "result": "[hidden]"}
    assert rules[1].shown({"args": ["4111-1111", 7]}) == {"args": ["…1111", 7]}
    cleaned = rules[1].without(["4111-1111", 7], {})
    assert cleaned("4111-1111 was refused") == "[hidden] was refused"


def test_why(capsys):
    job = JobFactory(pk=41)
    exec(WHY, {"job": job, "Job": Job})
    assert (
        capsys.readouterr().out
        == "No worker is alive: none was seen in the last minute.\n"
    )
    for part in ("job.why()", "Job.objects.why(41)", "job.awhy()"):
        assert part in WHY


def test_table_of_causes():
    rows = readme.table("kind | it | data", TEXT)
    assert [row[0].strip("`") for row in rows] == [kind.value for kind in Kind]
    assert f"the first {ahead.MOST:,} are counted" in TEXT


def test_timeline(capsys):
    exec(TIMELINE, {"job": JobFactory(leased=True)})
    assert "Dispatched." in capsys.readouterr().out
    rows = readme.table("event | it | data", TEXT)
    told = [kind.strip("`") for row in rows for kind in row[0].split(", ")]
    assert sorted(told) == sorted(kind.value for kind in history.Kind)
    assert f"the newest {history.MOST_STEPS} are told" in TEXT


@pytest.mark.django_db(databases=["default", "other"])
def test_checks(capsys):
    codes = [run(line) for line in CHECKS.splitlines()]
    assert codes == [0, 0, 1]
    JobFactory()
    make_worker()
    assert [run(line) for line in CHECKS.splitlines()][:2] == [0, 0]
    assert (
        run("$ python manage.py checkjobs --host --max-age none --no-worker-needed")
        == 1
    )


def test_what_is_asked_without_options():
    parser = checkjobs.Command().create_parser("manage.py", "checkjobs")
    spans = [parser.get_default(name) for name in ("max_age", "max_late", "window")]
    assert spans == [300, 300, 3600]
    assert TEXT.count("five minutes") == 2


def test_urls(client, settings, monkeypatch):
    monkeypatch.setenv("QUEUE_TOKEN", "t" * 16)
    urls = ModuleType("urls")
    exec(URLS, vars(urls))
    settings.ROOT_URLCONF = urls
    headers = {"Authorization": f"Bearer {'t' * 16}"}
    for url in ("/health/queue/", "/metrics/queue/"):
        assert client.get(url, headers=headers).status_code == 200
        assert client.get(url).status_code == 403
    for url in ("/queue/health/", "/queue/metrics/"):
        assert client.get(url, headers=headers).status_code == 403
