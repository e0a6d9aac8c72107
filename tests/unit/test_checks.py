"""Checks that ask no database: each wrong value with its id."""

import re
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pytest
from django.core import checks as django_checks
from django.core.management import get_commands
from django.db.utils import ConnectionHandler

from django_leasequeue import Concurrency, Dedup, checks, discovery, registry
from tests.claims import NAME, registered
from tests.processes import ROOT


@pytest.fixture(autouse=True)
def own_tasks():
    """What a broken module registers is forgotten after the test."""
    with mock.patch.dict(registry._tasks):
        yield


@pytest.fixture
def databases():
    """Stand in for DATABASES: `databases(default={...})`; returns the connections."""

    def put(**settings):
        handler = ConnectionHandler(settings)
        for module in (checks.databases, checks.tasks):
            patches.append(mock.patch.object(module, "connections", handler))
            patches[-1].start()
        return handler

    patches = []
    yield put
    for patch in patches:
        patch.stop()


def ids(messages):
    return [message.id.removeprefix("leasequeue.") for message in messages]


def sqlite(**options):
    options = {"transaction_mode": "IMMEDIATE", **options}
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "/nowhere/db.sqlite3",
        "OPTIONS": {key: value for key, value in options.items() if value is not None},
    }


def postgres(**options):
    pytest.importorskip("psycopg")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "shop",
        "OPTIONS": options,
    }


def mysql(**options):
    pytest.importorskip("MySQLdb")
    return {"ENGINE": "django.db.backends.mysql", "NAME": "shop", "OPTIONS": options}


# --- Settings and tasks


def test_problems_of_settings_are_errors(settings):
    """What conf finds is told with the package's prefix, its message and its hint."""
    settings.LEASEQUEUE = {"LEESE": 60, "THREADS": 0}
    unknown, too_small = checks.check_settings()
    assert unknown == django_checks.Error(
        "LEASEQUEUE has the unknown key 'LEESE'.",
        hint="Did you mean 'LEASE'?",
        id="leasequeue.E002",
    )
    assert ids([too_small]) == ["E004"]


def test_django_runs_the_checks(settings):
    """They are registered, under a tag that asks no database."""
    settings.LEASEQUEUE = {"THREADS": 0}
    assert ids(django_checks.run_checks(tags=["leasequeue"])) == ["E004"]


def test_nothing_to_say_about_the_test_project():
    """The toy tasks import, and no command is in another's shadow."""
    assert checks.check_tasks() == checks.check_commands() == []
    assert checks.check_hooks() == []


def test_e201_tasks_that_cannot_be_imported(settings, tmp_path, monkeypatch):
    """Each broken module is told, with what it raised; the others are imported all the same."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "sick_one.py").write_text("import surely_not_installed")
    (tmp_path / "sick_two.py").write_text("1/0")
    settings.LEASEQUEUE = {"TASK_MODULES": ["sick_one", "sick_two", "not_there"]}
    found = checks.check_tasks()
    assert ids(found) == ["E201"] * 3
    one, two, gone = found
    assert "'sick_one' raised ModuleNotFoundError: No module named 'surely" in one.msg
    assert "'sick_two' raised ZeroDivisionError: division by zero" in two.msg
    assert "'not_there' raised ModuleNotFoundError" in gone.msg
    assert "import sick_one" in one.hint


def test_e201_two_tasks_of_one_name(settings, tmp_path, monkeypatch):
    """A name that two functions want is told with both of them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    source = "from django_leasequeue import task\n@task(name='mail')\ndef {}(): pass\n"
    (tmp_path / "twins.py").write_text(source.format("a") + source.format("b"))
    settings.LEASEQUEUE = {"TASK_MODULES": ["twins"]}
    [found] = checks.check_tasks()
    assert ids([found]) == ["E201"]
    assert "Two tasks want the name 'mail': twins.a and twins.b" in found.msg


def test_e201_despite_wrong_task_modules(settings):
    """Wrong TASK_MODULES are one error, not a crash of the other checks."""
    settings.LEASEQUEUE = {"TASK_MODULES": "shop"}
    assert checks.check_tasks() == []
    assert ids(checks.check_settings()) == ["E003"]


def tell(ended):
    """A callback, by its dotted path."""


def of_two(ended, more):
    """No callback: it takes too much."""


def test_e203_callbacks_that_cannot_be_called():
    """A dotted path is looked up by the check; what is wrong with it names the task."""
    here = __name__
    paths = {
        f"{here}.tell": None,
        "surely_not_installed.tell": "ModuleNotFoundError: No module named 'surely",
        f"{here}.untold": "ImportError: Module",
        f"{here}.NAME": "is a str, not a function",
        f"{here}.of_two": "is called with one argument",
    }
    for path, why in paths.items():
        with registered(lambda: None, on_failure=path):
            found = checks.check_hooks()
        assert ids(found) == (["E203"] if why else [])
        for message in found:
            assert f"on_failure of the task {NAME!r}, {path!r}" in message.msg
            assert why in message.msg


def test_e204_middleware_that_cannot_be_imported(settings):
    settings.LEASEQUEUE = {"MIDDLEWARE": [f"{__name__}.tell", f"{__name__}.untold"]}
    [found] = checks.check_hooks()
    assert ids([found]) == ["E204"]
    assert "untold" in found.msg
    settings.LEASEQUEUE = {"MIDDLEWARE": "wrong"}
    assert checks.check_hooks() == []


@pytest.mark.parametrize(
    ("timeout", "queue", "found"),
    [
        (None, "default", "no timeout"),
        (270, "default", "a timeout of 270 s"),
        (269.5, "default", None),
        (timedelta(hours=1), "long", None),
        (81, "short", "a timeout of 81 s"),
    ],
)
def test_e202_atomic_tasks_longer_than_a_lease(
    databases, settings, timeout, queue, found
):
    """By the queue of the task: LEASE - SAFETY_BUFFER is what it may take."""
    settings.LEASEQUEUE = {
        "QUEUES": {
            "long": {"LEASE": 7200},
            "short": {"LEASE": 90, "SAFETY_BUFFER": 9},
        }
    }
    databases(default=sqlite())
    with registered(print, atomic=True, timeout=timeout, queue=queue):
        messages = [m.msg for m in checks.check_atomic_tasks() if NAME in m.msg]
        assert len(messages) == bool(found)
        assert found is None or f"has {found}." in messages[0]
        databases(default=postgres())
        assert checks.check_atomic_tasks() == []


def test_e202_says_how_long_a_task_may_take(databases):
    databases(default=sqlite())
    with registered(print, atomic=True):
        [message] = checks.check_atomic_tasks()
    assert ids([message]) == ["E202"]
    assert message.level == django_checks.ERROR
    assert "below 270 seconds" in message.hint


def test_e202_leaves_other_tasks_alone(databases):
    databases(default=sqlite())
    with registered(print):
        assert checks.check_atomic_tasks() == []


def test_e202_despite_wrong_settings(databases, settings):
    """They are told by their own checks."""
    databases(default=sqlite())
    settings.LEASEQUEUE = {"LEASE": "long"}
    with registered(print, atomic=True):
        assert checks.check_atomic_tasks() == []


def test_a_module_that_cannot_be_imported_hides_no_other_tasks(settings):
    """It is told by a check of its own."""
    settings.LEASEQUEUE = {
        "TASK_MODULES": ["not_there"],
        "QUEUES": {"mail": {"CONCURRENCY": 2}},
    }
    with registered(print, queue="mail", concurrency="k"):
        assert ids(checks.check_limits()) == ["W206"]


def test_nor_the_modules_that_come_after_it(settings, monkeypatch):
    settings.LEASEQUEUE = {"TASK_MODULES": ["not_there", "tests.tasks"]}
    importing = mock.Mock(side_effect=ImportError)
    monkeypatch.setattr(discovery, "import_tasks", importing)
    checks.check_limits()
    asked_for = [call.args[0] for call in importing.call_args_list]
    assert asked_for[-2:] == ["not_there", "tests.tasks"]


def test_a_wrong_setting_hides_no_tasks_of_other_queues(settings):
    settings.LEASEQUEUE = {
        "QUEUES": {"bad": {"CONCURRENCY": "two"}, "mail": {"CONCURRENCY": 2}}
    }
    with (
        registered(print, name="a", queue="bad", concurrency="k"),
        registered(print, name="b", queue="mail", concurrency="k"),
    ):
        [message] = checks.check_limits()
    assert "'b'" in message.msg


def test_w206_a_key_of_its_own_in_a_queue_with_a_limit(settings):
    settings.LEASEQUEUE = {"QUEUES": {"mail": {"CONCURRENCY": 2}}}
    with registered(print, queue="mail", concurrency="k"):
        [message] = checks.check_limits()
    assert ids([message]) == ["W206"]
    assert f"'{NAME}'" in message.msg and "'mail'" in message.msg
    for options in (
        {"queue": "mail"},
        {"queue": "other", "concurrency": "k"},
        {"queue": "mail", "concurrency": Concurrency("queue:mail", limit=2)},
    ):
        with registered(print, **options):
            assert checks.check_limits() == []


def test_w207_a_dedup_id_that_reads_like_a_format():
    def charge(order_id):
        """A task."""

    for wanted in ("charge:{order_id}", Dedup("charge:{order_id}", ttl=9)):
        with registered(charge, dedup=wanted):
            [message] = checks.check_dedup()
        assert ids([message]) == ["W207"]
        assert "order_id in braces" in message.msg
        assert 'lambda order_id: f"...:{order_id}"' in message.hint
    for wanted in ("nightly", "{other}", "{", "{}", lambda order_id: f"{order_id}"):
        with registered(charge, dedup=wanted):
            assert checks.check_dedup() == []


def test_w301_shadowed_command(settings, tmp_path, monkeypatch):
    """django-extensions has a runjobs too: whoever comes first in INSTALLED_APPS has it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    commands = tmp_path / "other_queue" / "management" / "commands"
    commands.mkdir(parents=True)
    (tmp_path / "other_queue" / "__init__.py").touch()
    (commands / "runjobs.py").touch()
    try:
        for order, expected in (
            (["other_queue", *settings.INSTALLED_APPS], ["W301"]),
            ([*settings.INSTALLED_APPS, "other_queue"], []),
        ):
            settings.INSTALLED_APPS = order
            get_commands.cache_clear()
            found = checks.check_commands()
            assert ids(found) == expected
            assert all("of other_queue, not" in message.msg for message in found)
            settings.INSTALLED_APPS = [
                app for app in settings.INSTALLED_APPS if app != "other_queue"
            ]
    finally:
        get_commands.cache_clear()


# --- DATABASES


def test_e101_database_that_is_none_of_the_four(databases):
    """Elsewhere nothing was tried, and DatabaseNow has no form."""
    connection = databases(default=sqlite())["default"]
    connection.vendor, connection.display_name = "oracle", "Oracle"
    [found] = checks.check_options()
    assert ids([found]) == ["E101"]
    assert "'default' is Oracle" in found.msg
    assert checks.check_servers(databases=["default"]) == []


@pytest.mark.parametrize("mode", [None, "DEFERRED", "deferred"])
def test_w103_sqlite_without_the_write_lock(databases, mode):
    """Django's default, and its name written out."""
    databases(default=sqlite(transaction_mode=mode))
    [found] = checks.check_options()
    assert ids([found]) == ["W103"]
    assert found.hint.startswith(
        "Set DATABASES['default']['OPTIONS']['transaction_mode']"
    )


@pytest.mark.parametrize("mode", ["IMMEDIATE", "immediate", "EXCLUSIVE"])
def test_sqlite_with_the_write_lock(databases, mode):
    """Both modes begin with the lock."""
    databases(default=sqlite(transaction_mode=mode))
    assert checks.check_options() == []


@pytest.mark.parametrize("timeout", [0, 1, 4.9])
def test_w104_sqlite_that_hardly_waits(databases, timeout):
    """Less than what Python waits by itself was asked for."""
    databases(default=sqlite(timeout=timeout))
    assert ids(checks.check_options()) == ["W104"]


@pytest.mark.parametrize("timeout", [None, 5, 60.0])
def test_sqlite_that_waits(databases, timeout):
    """Python's own 5 seconds, or more."""
    databases(default=sqlite(timeout=timeout))
    assert checks.check_options() == []


def test_sqlite_in_memory_needs_nothing(databases):
    """Nobody else has that database."""
    databases(default={**sqlite(transaction_mode=None), "NAME": ":memory:"})
    assert checks.check_options() == []


@pytest.mark.parametrize(
    ("level", "name"), [(3, "REPEATABLE READ"), (4, "SERIALIZABLE")]
)
def test_w106_postgresql_isolation(databases, level, name):
    """Levels with one snapshot for the whole transaction are told by name."""
    databases(default=postgres(isolation_level=level))
    [found] = checks.check_options()
    assert ids([found]) == ["W106"]
    assert f"are {name}, so" in found.msg


@pytest.mark.parametrize(
    "options", [{}, {"isolation_level": 1}, {"isolation_level": 2}]
)
def test_postgresql_read_committed(databases, options):
    """The default, and READ UNCOMMITTED, which is the same there."""
    databases(default=postgres(**options))
    assert checks.check_options() == []


def test_postgresql_isolation_that_does_not_exist(databases):
    """That is Django's to say."""
    databases(default=postgres(isolation_level=77))
    assert checks.check_options() == []


def test_w113_psycopg2_waits_for_nothing(databases):
    """Workers poll with it; with psycopg 3 there is nothing to say."""
    databases(default=postgres())
    assert checks.check_options() == []
    # After the first use, since Django asks for the driver's name when it loads it.
    with mock.patch("django.db.backends.postgresql.psycopg_any.is_psycopg3", False):
        assert ids(checks.check_options()) == ["W113"]


@pytest.mark.parametrize(
    "pool, threads, told",
    [
        (True, 4, False),
        (True, 5, True),
        ({"min_size": 8}, 8, False),
        ({"min_size": 1, "max_size": 7}, 8, True),
        (False, 99, False),
    ],
)
def test_w117_a_pool_smaller_than_the_threads(databases, settings, pool, threads, told):
    """Without sizes it has psycopg's four connections."""
    settings.LEASEQUEUE = {"THREADS": threads}
    databases(default=postgres(pool=pool))
    assert ids(checks.check_options()) == (["W117"] if told else [])


@pytest.mark.parametrize("database", [postgres, mysql, sqlite])
def test_e118_autocommit_off(databases, database):
    """A worker would run jobs and commit nothing."""
    databases(default={**database(), "AUTOCOMMIT": False})
    [found] = checks.check_options()
    assert (ids([found]), found.level) == (["E118"], django_checks.ERROR)


@pytest.mark.parametrize(
    "level", ["repeatable read", "SERIALIZABLE", "read uncommitted"]
)
def test_w106_mysql_isolation(databases, level):
    """Anything but READ COMMITTED; dirty reads are worse, not better."""
    databases(default=mysql(isolation_level=level))
    [found] = checks.check_options()
    assert ids([found]) == ["W106"]
    assert level.upper() in found.msg


@pytest.mark.parametrize("options", [{}, {"isolation_level": "Read Committed"}])
def test_mysql_read_committed(databases, options):
    """Django's default, or written out."""
    databases(default=mysql(**options))
    assert checks.check_options() == []


def test_mysql_isolation_left_to_the_server(databases):
    """Only the server knows; check_servers asks it."""
    databases(default=mysql(isolation_level=None))
    assert checks.check_options() == []


# --- Which databases


class ElsewhereRouter:
    """Jobs live in `queue` and nowhere else."""

    def db_for_write(self, model, **hints):
        return "queue"

    db_for_read = db_for_write

    def allow_migrate(self, db, app_label, **hints):
        return db == "queue"


class NowhereRouter:
    def allow_migrate(self, db, app_label, **hints):
        return False


@pytest.mark.parametrize("at_hand", [None, ["default", "queue"]])
def test_only_the_database_of_the_jobs_is_looked_at(databases, settings, at_hand):
    """It is where jobs are written; the project's others don't matter."""
    databases(default=sqlite(timeout=1), queue=sqlite(transaction_mode=None))
    assert ids(checks.check_options(databases=at_hand)) == ["W104"]
    settings.DATABASE_ROUTERS = [ElsewhereRouter()]
    assert ids(checks.check_options(databases=at_hand)) == ["W103"]


def test_a_database_that_is_not_at_hand_is_not_looked_at(databases):
    """`check --database other` is about that one."""
    databases(default=sqlite(timeout=1), other=sqlite(timeout=1))
    assert checks.check_options(databases=["other"]) == []


def test_jobs_that_the_router_lets_nowhere(databases, settings):
    """A router that keeps the tables out of their own database is the project's affair."""
    databases(default=sqlite(timeout=1))
    settings.DATABASE_ROUTERS = [NowhereRouter()]
    assert checks.check_options() == []


def test_empty_default(databases, settings):
    """A project may have no default database at all: case 184."""
    databases(default={}, queue=sqlite(timeout=1))
    assert checks.check_options() == []
    assert checks.check_servers(databases=["default"]) == []
    settings.DATABASE_ROUTERS = [ElsewhereRouter()]
    assert ids(checks.check_options()) == ["W104"]


def test_databases_are_not_asked_unless_named():
    """This test has no database: a query would fail it."""
    assert checks.check_servers() == checks.check_servers(databases=[]) == []


def test_w011_immediate_is_for_development(settings):
    settings.LEASEQUEUE = {"IMMEDIATE": True}
    assert ids(checks.check_immediate()) == ["W011"]
    settings.DEBUG = True
    assert checks.check_immediate() == []
    settings.LEASEQUEUE = {"IMMEDIATE": 1}
    assert checks.check_immediate() == []
    assert ids(checks.check_settings()) == ["E003"]


@pytest.mark.parametrize("name", ["LEASEQUEUES", "LEASE_QUEUE", "LEASEQEUE"])
def test_w012_a_misspelt_name_of_the_setting(settings, name):
    setattr(settings, name, {"THREADS": 2})
    assert checks.check_settings() == []
    del settings.LEASEQUEUE
    [message] = checks.check_settings()
    assert ids([message]) == ["W012"] and name in message.msg
    delattr(settings, name)
    assert checks.check_settings() == []


# --- The list of ids

ROW = re.compile(r"^\| `leasequeue\.([EW]\d{3})` \| (.+?) \| (.+?) \|$", re.M)


def documented():
    return [match[0] for match in ROW.findall((ROOT / "docs/checks.md").read_text())]


def test_docs_list_exactly_the_ids_of_the_code():
    """docs/checks.md has one row an id, in order."""
    package = ROOT / "django_leasequeue"
    sources = [
        *package.glob("checks/*.py"),
        package / "backend" / "problems.py",
        *package.glob("conf/*.py"),
        *package.glob("db/advice/*.py"),
    ]
    in_code = {
        id
        for source in sources
        for id in re.findall(r'"([EW]\d{3})"', source.read_text())
    }
    order = [(int(id[1:]), id) for id in documented()]
    assert {id for _, id in order} == in_code
    assert order == sorted(order)
    assert len({number for number, _ in order}) == len(order)


def test_each_id_has_a_test_of_its_name():
    """A wrong value that no test makes is not known to be told."""
    tests = "".join(
        path.read_text()
        for path in (
            Path(__file__),
            ROOT / "tests/unit/test_backend_checks.py",
            ROOT / "tests/unit/test_conf.py",
            ROOT / "tests/database/test_checks.py",
            ROOT / "tests/database/test_schedule_checks.py",
        )
    )
    assert [id for id in documented() if f"def test_{id.lower()}_" not in tests] == []
