"""LEASEQUEUE: defaults, overrides per queue, and each wrong value with its id."""

import copy
from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_leasequeue.backoff import Exponential, Fixed
from django_leasequeue.conf import PER_QUEUE, SETTINGS, conf


async def async_backoff(attempt):
    return 1


def found(settings, value):
    settings.LEASEQUEUE = value
    return [problem.id for problem in conf.problems()]


def only(settings, value):
    settings.LEASEQUEUE = value
    [problem] = conf.problems()
    return problem


def test_defaults(settings):
    """Without LEASEQUEUE every setting has its documented default, in seconds."""
    del settings.LEASEQUEUE
    assert (conf.lease("mail"), conf.safety_buffer("mail")) == (300, 30)
    assert (conf.max_recoveries("mail"), conf.max_attempts("mail")) == (3, 1)
    assert conf.backoff("mail") == Exponential(base=1, factor=2, max=300, jitter=0.25)
    assert (conf.processes, conf.threads, conf.async_tasks) == (1, 4, 50)
    assert (conf.shutdown_timeout, conf.poll_interval) == (25, 0.2)
    assert conf.notify is True
    assert conf.immediate is False
    assert conf.task_modules == ()
    assert conf.max_argument_bytes == conf.max_result_bytes == 2**20
    assert conf.max_errors == 10
    assert conf.problems() == []
    assert isinstance(conf.lease("mail"), float)


def test_every_default_passes_its_own_check(settings):
    """A project may write down the defaults as they are."""
    settings.LEASEQUEUE = {key: setting.default for key, setting in SETTINGS.items()}
    assert conf.problems() == []


def test_a_queue_has_its_own_values_else_the_projects(settings):
    """A queue's own value comes first, then the project's, then the default."""
    settings.LEASEQUEUE = {
        "LEASE": timedelta(minutes=2),
        "MAX_ATTEMPTS": 5,
        "QUEUES": {"mail": {"LEASE": 90, "BACKOFF": Fixed(1), "MAX_RECOVERIES": 0}},
    }
    assert (conf.lease("mail"), conf.lease("other")) == (90, 120)
    assert conf.safety_buffer("other") == 30
    assert (conf.max_attempts("mail"), conf.max_attempts("other")) == (5, 5)
    assert (conf.backoff("mail"), conf.max_recoveries("mail")) == (Fixed(1), 0)
    assert conf.max_recoveries("other") == 3
    assert conf.problems() == []


def test_changed_settings_are_read_anew(settings):
    """A value already read does not outlive the setting it came from."""
    settings.LEASEQUEUE = {"LEASE": 120, "THREADS": 2}
    assert (conf.lease("mail"), conf.threads) == (120, 2)
    settings.DEBUG = not settings.DEBUG
    settings.LEASEQUEUE = {"LEASE": 240, "THREADS": 3}
    assert (conf.lease("mail"), conf.threads) == (240, 3)


@pytest.mark.parametrize("value", [None, [], "LEASE", 3])
def test_e001_setting_is_no_dict(settings, value):
    """LEASEQUEUE has to be a dict; nothing else is looked at."""
    assert found(settings, value) == ["E001"]
    with pytest.raises(ImproperlyConfigured, match="LEASEQUEUE must be a dict"):
        conf.lease("mail")


def test_e001_queues_are_dicts(settings):
    """QUEUES, and what it holds for a queue, have to be dicts."""
    assert found(settings, {"QUEUES": ["mail"]}) == ["E001"]
    with pytest.raises(ImproperlyConfigured, match=r"'QUEUES'\] must be a dict"):
        conf.lease("mail")
    assert found(settings, {"QUEUES": {"mail": 60}}) == ["E001"]
    with pytest.raises(ImproperlyConfigured, match=r"'mail'\] must be a dict"):
        conf.lease("mail")


@pytest.mark.parametrize("key", ["LEASES", "lease", "LEESE"])
def test_e002_unknown_key_with_a_suggestion(settings, key):
    """A misspelt key is told, with the one that was probably meant."""
    problem = only(settings, {key: 60})
    assert (problem.id, problem.hint) == ("E002", "Did you mean 'LEASE'?")
    assert repr(key) in problem.message


def test_e002_unknown_key_without_a_suggestion(settings):
    """A key like no other is told with the list of those that exist."""
    problem = only(settings, {"COLOUR": "red"})
    assert problem.hint.startswith("The keys are LEASE, ")
    assert "QUEUES" in problem.hint
    assert only(settings, {3: 4}).id == "E002"
    problem = only(settings, {"QUEUES": {"mail": {"x" * 1_000: 1}}})
    assert len(problem.message) < 200
    assert problem.hint == f"The keys are {', '.join(sorted(PER_QUEUE))}."


@pytest.mark.parametrize("key", ["THREADS", "MAX_ERRORS", "QUEUES"])
def test_e002_key_that_no_queue_has(settings, key):
    """A key that no queue has is told apart from a misspelt one."""
    problem = only(settings, {"QUEUES": {"mail": {key: 2}}})
    hint = "Put it beside QUEUES, for all of them."
    assert (problem.id, problem.hint) == ("E002", hint)


WHOLE = sorted(key for key in SETTINGS if type(SETTINGS[key].default) is int)
DURATIONS = sorted(key for key in SETTINGS if type(SETTINGS[key].default) is float)


def test_there_are_settings_of_both_kinds():
    """The lists of the tests below are not empty by mistake."""
    assert len(WHOLE) + len(DURATIONS) == len(SETTINGS) - len(
        {
            "BACKOFF",
            "CONCURRENCY",
            "IMMEDIATE",
            "MIDDLEWARE",
            "NOTIFY",
            "RETENTION",
            "TASK_MODULES",
        }
    )


@pytest.mark.parametrize("value", [True, None, "5", 2.0, [3]])
@pytest.mark.parametrize("key", WHOLE)
def test_e003_wrong_type_for_a_whole_number(settings, key, value):
    """A bool, a text or a float is no count."""
    assert found(settings, {key: value}) == ["E003"]


@pytest.mark.parametrize("value", [True, None, "5", [3]])
@pytest.mark.parametrize("key", DURATIONS)
def test_e003_wrong_type_for_a_duration(settings, key, value):
    """A duration is a number of seconds or a timedelta."""
    assert found(settings, {key: value}) == ["E003"]


@pytest.mark.parametrize("value", ["shop.background", 3, {"shop"}, [3], [None]])
def test_e003_wrong_type_for_task_modules(settings, value):
    """TASK_MODULES is a list of names; a bare name gets a hint."""
    problem = only(settings, {"TASK_MODULES": value})
    assert problem.id == "E003"
    expected = "Write ['shop.background']." if isinstance(value, str) else None
    assert problem.hint == expected


@pytest.mark.parametrize("value", ["shop.hooks.in_tenant", 3, {"shop"}, [3], [None]])
def test_e003_wrong_type_for_middleware(settings, value):
    """MIDDLEWARE is a list of dotted paths; a bare one gets a hint."""
    problem = only(settings, {"MIDDLEWARE": value})
    assert problem.id == "E003"
    expected = "Write ['shop.hooks.in_tenant']." if isinstance(value, str) else None
    assert problem.hint == expected


@pytest.mark.parametrize("key", WHOLE)
def test_e004_whole_number_out_of_range(settings, key):
    """Negative numbers and those that no column holds are refused."""
    smallest = SETTINGS[key].minimum
    assert found(settings, {key: -1}) == ["E004"]
    assert found(settings, {key: smallest - 1}) == ["E004"]
    assert found(settings, {key: 2**31}) == ["E004"]
    assert found(settings, {key: smallest}) == []


@pytest.mark.parametrize("value", [-1, -0.5, timedelta(-1), float("nan"), 10**400])
@pytest.mark.parametrize("key", DURATIONS)
def test_e004_duration_out_of_range(settings, key, value):
    """Negative, endless and undefined durations are refused."""
    assert found(settings, {key: value}) == ["E004"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"LEASE": 90, "SAFETY_BUFFER": 30}, []),
        ({"LEASE": 89, "SAFETY_BUFFER": 30}, ["E005"]),
        ({"LEASE": 60}, ["E005"]),
        ({"LEASE": 60, "SAFETY_BUFFER": 0}, []),
        ({"SAFETY_BUFFER": 101}, ["E005"]),
        ({"QUEUES": {"mail": {"LEASE": 60}}}, ["E005"]),
        ({"QUEUES": {"mail": {"LEASE": 60, "SAFETY_BUFFER": 20}}}, []),
        ({"LEASE": 60, "QUEUES": {"mail": {"LEASE": 90}}}, ["E005"]),
        ({"LEASE": 60, "QUEUES": {"mail": {"MAX_ATTEMPTS": 2}}}, ["E005"]),
        (
            {"QUEUES": {"mail": {"SAFETY_BUFFER": 101}, "sms": {"LEASE": 1}}},
            ["E005"] * 2,
        ),
    ],
)
def test_e005_buffer_above_a_third_of_the_lease(settings, value, expected):
    """Each queue's effective pair is checked, and told once."""
    assert found(settings, value) == expected


def test_e005_names_the_queue_and_the_way_out(settings):
    """The message has the numbers; reading the buffer raises it."""
    settings.LEASEQUEUE = {"QUEUES": {"mail": {"LEASE": 60}}}
    message = (
        "of queue 'mail' is 30 seconds, above a third of LEASE .60.*at most 20, or"
    )
    with pytest.raises(ImproperlyConfigured, match=message):
        conf.safety_buffer("mail")
    assert conf.safety_buffer("other") == 30


def test_e005_is_not_told_of_a_value_that_is_wrong_by_itself(settings):
    """A wrong LEASE is one problem, not two."""
    assert found(settings, {"LEASE": -5, "QUEUES": {"mail": {"LEASE": "x"}}}) == [
        "E004",
        "E003",
    ]


@pytest.mark.parametrize("name", ["", "x" * 101, "a\0b", "a\ud800", 3, None, "*"])
def test_e006_name_of_a_queue(settings, name):
    """A queue has a name that every database can store, and '*' is none."""
    assert found(settings, {"QUEUES": {name: {}}}) == ["E006"]


def test_names_of_queues_that_are_fine(settings):
    """One to a hundred characters, of any script."""
    assert found(settings, {"QUEUES": {"q": {}, "🐎" * 100: {}, "a b": {}}}) == []


@pytest.mark.parametrize("value", [30, None, "fixed", Exponential, async_backoff])
def test_e007_backoff(settings, value):
    """BACKOFF is one of the package's objects or a plain callable."""
    assert found(settings, {"BACKOFF": value}) == ["E007"]
    assert found(settings, {"QUEUES": {"mail": {"BACKOFF": value}}}) == ["E007"]
    with pytest.raises(ImproperlyConfigured, match="BACKOFF"):
        conf.backoff("mail")


def test_a_callable_backoff_is_fine(settings):
    """Any callable of the attempt's number will do."""
    assert found(settings, {"BACKOFF": lambda attempt: attempt}) == []


@pytest.mark.parametrize("name", ["", "shop/tasks.py", "shop..tasks", ".tasks", "a b"])
def test_e008_task_modules_are_dotted_names(settings, name):
    """A path or a relative name is told before a worker fails to import it."""
    assert found(settings, {"TASK_MODULES": ["shop.background", name]}) == ["E008"]


@pytest.mark.parametrize("path", ["", "tenant", "shop/hooks.py:tenant", ".tenant"])
def test_e010_middleware_is_dotted_paths(settings, path):
    """A module alone or a path of a file is told before a worker fails to import it."""
    assert found(settings, {"MIDDLEWARE": ["shop.hooks.timed", path]}) == ["E010"]


@pytest.mark.parametrize("value", [{"days": 1}, {"failed": {"max": 1}}])
def test_e009_retention_by_age_count_and_status(settings, value):
    """A key that is none of these is told; see test_prune_rules.py."""
    assert found(settings, {"RETENTION": value}) == ["E009"]


@pytest.mark.parametrize(
    ("key", "read"),
    [
        ("LEASE", lambda: conf.lease("mail")),
        ("SAFETY_BUFFER", lambda: conf.safety_buffer("mail")),
        ("MAX_RECOVERIES", lambda: conf.max_recoveries("mail")),
        ("MAX_ATTEMPTS", lambda: conf.max_attempts("mail")),
        ("BACKOFF", lambda: conf.backoff("mail")),
        ("RETENTION", lambda: conf.retention("mail")),
        ("PROCESSES", lambda: conf.processes),
        ("THREADS", lambda: conf.threads),
        ("ASYNC_TASKS", lambda: conf.async_tasks),
        ("SHUTDOWN_TIMEOUT", lambda: conf.shutdown_timeout),
        ("NOTIFY", lambda: conf.notify),
        ("IMMEDIATE", lambda: conf.immediate),
        ("POLL_INTERVAL", lambda: conf.poll_interval),
        ("TASK_MODULES", lambda: conf.task_modules),
        ("MIDDLEWARE", lambda: conf.middleware),
        ("MAX_ARGUMENT_BYTES", lambda: conf.max_argument_bytes),
        ("MAX_RESULT_BYTES", lambda: conf.max_result_bytes),
        ("MAX_ERRORS", lambda: conf.max_errors),
    ],
)
def test_reading_a_wrong_value_raises_its_problem(settings, key, read):
    """Whoever skips the checks still gets their message, and only for what is read."""
    settings.LEASEQUEUE = {key: "wrong"}
    [problem] = conf.problems()
    with pytest.raises(ImproperlyConfigured) as caught:
        read()
    assert caught.value.problem == problem
    assert key in str(caught.value)
    again = copy.copy(caught.value)
    assert (again.problem, str(again)) == (problem, str(caught.value))


@pytest.mark.parametrize("limit", [0, None, -1, True])
def test_case_141_no_limit_of_attempts_but_a_number_of_runs(settings, limit):
    """Zero and None are refused, not taken for a default or for no limit."""
    settings.LEASEQUEUE = {"MAX_ATTEMPTS": limit}
    with pytest.raises(ImproperlyConfigured, match="MAX_ATTEMPTS"):
        conf.max_attempts("mail")
    assert len(conf.problems()) == 1


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_case_141_a_limit_of_attempts_is_kept(settings, limit):
    """N stays N, for the project and for a queue; MAX_RECOVERIES may be 0."""
    settings.LEASEQUEUE = {
        "MAX_ATTEMPTS": limit,
        "MAX_RECOVERIES": 0,
        "QUEUES": {"mail": {"MAX_ATTEMPTS": limit + 1, "MAX_RECOVERIES": limit}},
    }
    assert conf.max_attempts("other") == limit
    assert conf.max_attempts("mail") == limit + 1
    assert (conf.max_recoveries("other"), conf.max_recoveries("mail")) == (0, limit)
