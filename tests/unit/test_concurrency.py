"""Concurrency keys as they are written, filled in and refused."""

import pytest

from django_leasequeue import Concurrency, JobSpec
from django_leasequeue.conf import conf
from django_leasequeue.specs import prepare
from tests.road import toy


def sync(tenant_id, name="main", *rest, full=False, **more):
    pass


def with_context(context, tenant_id):
    pass


def key_of(concurrency, *args, **kwargs):
    with toy(sync, name="sync", concurrency=concurrency) as task:
        return prepare(JobSpec(task, args, kwargs)).values["concurrency_key"]


@pytest.mark.parametrize(
    "written, filled_in",
    [
        ("fixed", "fixed"),
        ("tenant:{tenant_id}", "tenant:7"),
        ("{name}/{tenant_id}/{full}", "main/7/False"),
        ("{{{tenant_id}}}", "{7}"),
        ("{{}}", "{}"),
    ],
)
def test_a_key_is_filled_in_with_the_arguments(written, filled_in):
    assert key_of(written, 7) == filled_in
    assert key_of(Concurrency(written), tenant_id=7) == filled_in


def test_what_an_argument_holds_is_no_format():
    assert key_of("{tenant_id}", "{name}") == "{name}"


@pytest.mark.parametrize(
    "written, why",
    [
        ("{tenant}", "names 'tenant', which is none of its arguments (tenant_id, name"),
        ("{tenant_id.pk}", "plain names of arguments alone"),
        ("{tenant_id[0]}", "plain names of arguments alone"),
        ("{tenant_id!r}", "plain names of arguments alone"),
        ("{tenant_id:>5}", "plain names of arguments alone"),
        ("{}", "plain names of arguments alone"),
        ("{0}", "plain names of arguments alone"),
        ("{rest}", "names 'rest', which is none"),
        ("{more}", "names 'more', which is none"),
        ("{tenant_id", "is no format"),
        ("tenant_id}", "is no format"),
        ("", "must not be empty"),
        ("x" * 256, "at most 255"),
        ("a\0", "NUL"),
    ],
)
def test_a_key_that_can_t_be_is_refused_where_it_is_written(written, why):
    with pytest.raises(ValueError) as caught:
        key_of(written)
    assert why in str(caught.value)


def test_the_context_is_no_argument():
    with (
        pytest.raises(ValueError, match="none of its arguments"),
        toy(with_context, name="c", takes_context=True, concurrency="{context}"),
    ):
        pass


@pytest.mark.parametrize("wrong", [7, b"k", ["k"], True])
def test_a_key_of_another_type_is_refused(wrong):
    with pytest.raises(TypeError, match=r"concurrency key .*must be a str"):
        key_of(wrong)
    with toy(sync, name="sync") as task, pytest.raises(TypeError, match="key must be"):
        prepare(JobSpec(task, [7], concurrency=wrong))


@pytest.mark.parametrize(
    "value, error, why",
    [
        ([1], TypeError, "needs a text or a number for tenant_id, not list"),
        ({}, TypeError, "not dict"),
        ("", ValueError, "must not be empty"),
        ("x" * 256, ValueError, "has 256 characters"),
    ],
)
def test_arguments_that_make_no_key_are_refused_at_dispatch(value, error, why):
    with pytest.raises(error) as caught:
        key_of("{tenant_id}", value)
    assert why in str(caught.value)
    assert "'sync'" in str(caught.value)


@pytest.mark.parametrize(
    "limit, error",
    [
        (0, ValueError),
        (-1, ValueError),
        (2**31, ValueError),
        (True, TypeError),
        (1.0, TypeError),
        ("2", TypeError),
        (None, TypeError),
    ],
)
def test_a_limit_that_can_t_be_is_refused(limit, error):
    with pytest.raises(error, match="limit of a concurrency key"):
        Concurrency("k", limit=limit)


def test_supersedes_is_a_flag():
    with pytest.raises(TypeError, match="supersedes must be True or False"):
        Concurrency("k", supersedes="yes")


def test_the_dispatch_comes_before_the_task_and_that_before_the_queue(settings):
    settings.LEASEQUEUE = {"CONCURRENCY": 9, "QUEUES": {"mail": {"CONCURRENCY": 2}}}

    def found(task, **options):
        values = prepare(JobSpec(task, [7], **options)).values
        return values["concurrency_key"], values["concurrency_limit"]

    with toy(sync, name="plain", queue="mail") as plain:
        assert found(plain) == ("queue:mail", 2)
        assert found(plain, queue="other") == ("queue:other", 9)
        assert found(plain, concurrency="k") == ("k", 1)
    own = Concurrency("{tenant_id}", limit=3)
    with toy(sync, name="own", queue="mail", concurrency=own) as task:
        assert found(task) == ("7", 3)
        given = Concurrency("{tenant_id}", limit=4)
        assert found(task, concurrency=given) == ("{tenant_id}", 4)


@pytest.mark.parametrize("wrong", [0, -1, True, "2", 1.5])
def test_a_setting_that_can_t_be(settings, wrong):
    settings.LEASEQUEUE = {"QUEUES": {"mail": {"CONCURRENCY": wrong}}}
    assert [problem.id for problem in conf.problems()] in (["E003"], ["E004"])
    settings.LEASEQUEUE = {"CONCURRENCY": None}
    assert conf.problems() == []
