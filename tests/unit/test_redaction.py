"""What of a job people may see: the option, what it hides, and what it leaves."""

import inspect
import logging

import pytest

from django_leasequeue import discovery, registry
from django_leasequeue.redaction import CLOSED, HIDDEN, Redaction, arguments, as_redact
from django_leasequeue.worker import log
from tests.claims import claimed, context_of, registered, run
from tests.road import toy


def send(user, password, *rest, note=None, **options):
    pass


def hiding(redact, function=send):
    signature = inspect.signature(function)
    return Redaction(as_redact("shop.send", redact, signature), signature)


# --- The option


@pytest.mark.parametrize(
    "redact, kept",
    [
        (None, None),
        ([], None),
        ("password", ("password",)),
        (["user", "return"], ("user", "return")),
        (["anything"], ("anything",)),  # **options takes it
        (max, max),
    ],
)
def test_what_it_may_be(redact, kept):
    assert as_redact("shop.send", redact, inspect.signature(send)) == kept


@pytest.mark.parametrize(
    "redact, kind, why",
    [
        (
            ["b", "c"],
            ValueError,
            "names 'c', which is no parameter of it. There are a, b",
        ),
        ("context", ValueError, "no parameter"),
        (7, TypeError, "not 7"),
        ([7], TypeError, "names of parameters"),
        ({"a": 1}, TypeError, "names of parameters"),
        (b"a", TypeError, "names of parameters"),
        (lambda value: value, TypeError, "the name and the value"),
    ],
)
def test_what_is_refused_at_the_decorator(redact, kind, why):
    def work(context, a, b):
        pass

    with pytest.raises(kind, match=why), toy(work, takes_context=True, redact=redact):
        pass


# --- What is hidden


def test_names():
    """By place and by name; what a function takes by stars goes by the star's name."""
    rule = hiding(["password", "rest", "token"])
    row = {
        "args": ["ann", "hunter2", "b", "c"],
        "kwargs": {"note": "n", "token": "t", "other": 1},
        "next_args": ["ann", "hunter3"],
        "next_kwargs": None,
        "result": 3,
        "queue": "mail",
    }
    assert rule.shown(row) == {
        "args": ["ann", HIDDEN, HIDDEN, HIDDEN],
        "kwargs": {"note": "n", "token": HIDDEN, "other": 1},
        "next_args": ["ann", HIDDEN],
        "next_kwargs": None,
        "result": 3,
        "queue": "mail",
    }
    rest = hiding(["options"]).shown({"kwargs": {"note": "n", "other": 1}})
    assert rest == {"kwargs": {"note": "n", "other": HIDDEN}}


def test_result():
    """And what steps returned, whose beginning alone is read."""
    rule = hiding("return")
    assert rule.shown({"args": ["ann"], "result": 3}) == {
        "args": ["ann"],
        "result": HIDDEN,
    }
    assert rule.result(None) is None
    assert rule.head_of_result('"abc', False) == HIDDEN
    assert hiding("password").head_of_result('"abc', False) == '"abc'


def test_function():
    """It is asked by name; what it can't answer is hidden."""

    def last_digits(name, value):
        return f"…{value[-2:]}" if name in ("password", "return") else value

    rule = hiding(last_digits)
    assert rule.shown({"args": ["ann", "hunter2"], "result": "1234"}) == {
        "args": ["ann", "…r2"],
        "result": "…34",
    }
    assert rule.shown({"args": ["ann", 7]}) == {"args": ["ann", HIDDEN]}
    assert rule.head_of_result('"abcd"', True) == '"\\u2026cd"'
    assert rule.head_of_result('"abc', False) == HIDDEN
    assert hiding(lambda name, value: {1}).result(1) == HIDDEN


def test_what_does_not_fit_the_function_is_hidden():
    """As of an older release; nobody knows what it was."""

    def one(a):
        pass

    rule = hiding("a", one)
    assert rule.shown({"args": [1, 2], "kwargs": "x"}) == {
        "args": [HIDDEN, HIDDEN],
        "kwargs": HIDDEN,
    }


def test_tasks_that_can_not_be_imported(monkeypatch):
    """What nobody knows the rule of is hidden; what is gone for good has none."""
    assert registry.redaction("shop.gone") is None
    with toy(lambda a: None, name="shop.send", aliases=("shop.mail",), redact="a"):
        monkeypatch.setattr(discovery, "autodiscover", _broken)
        assert registry.redaction("shop.gone") is CLOSED
        assert CLOSED.shown({"args": [1], "kwargs": {"a": 1}, "result": 1}) == {
            "args": [HIDDEN],
            "kwargs": {"a": HIDDEN},
            "result": HIDDEN,
        }
        rule = registry.redaction("shop.mail")
        assert rule.shown({"args": [1]}) == {"args": [HIDDEN]}


def _broken():
    raise ImportError("as the test asked")


def test_arguments_by_name():
    signature = inspect.signature(send)
    found = arguments(signature, ["ann", "x", 1, 2], {"note": "n", "z": 3})
    assert list(found.items()) == [
        *[
            ("user", "ann"),
            ("password", "x"),
            ("*rest", [1, 2]),
            ("note", "n"),
            ("z", 3),
        ]
    ]
    assert arguments(signature, ["ann"], {"user": 1}) is None
    assert arguments(signature, "[1", {}) is None
    assert arguments(None, [], {}) is None


# --- In errors and in the log


def test_what_an_error_quotes_is_not_kept(caplog):
    """Neither in its message, nor in its traceback, causes and notes; nor in the log."""

    def work(user, password):
        try:
            raise KeyError({"password": password})
        except KeyError as error:
            error.add_note(f"tried {password['new']}")
            raise ValueError(f"{user}: no {password['new']!r}" + "x" * 5000) from error

    secret = "it's secret"
    outcome = run(
        work, "ann", {"new": secret, "pin": 12345}, options={"redact": "password"}
    )
    text = str(outcome.error)
    assert "secret" not in text and "12345" not in text
    assert outcome.error["message"].startswith(f'ann: no "{HIDDEN}"')
    assert outcome.error["traceback"].count(HIDDEN) >= 4
    job = claimed("ann", {"new": secret})
    with registered(work, redact="password"), caplog.at_level(logging.INFO):
        log.log_outcome(job, outcome, 0.1)
    assert "secret" not in caplog.text and HIDDEN in caplog.text


def test_keys_of_what_is_hidden_are_not_kept():
    def work(cards):
        raise KeyError(next(iter(cards)))

    outcome = run(work, {"4111-1111": "ann"}, options={"redact": "cards"})
    assert outcome.error["message"] == f"'{HIDDEN}'"


def test_what_progress_quotes_is_not_stored():
    job, said = claimed("ann", {"new": "hunter2"}), []
    context = context_of(job)
    context.on_progress = said.append
    with registered(lambda user, password: None, redact="password"):
        context.progress(1, 2, "trying hunter2")
    context.progress(1, 2, "trying hunter2")
    assert HIDDEN in said[0] and "hunter2" not in said[0]
    assert "hunter2" in said[1]


def test_what_nothing_hides_is_kept():
    def work(user):
        raise ValueError(user)

    assert run(work, "anne").error["message"] == "anne"
