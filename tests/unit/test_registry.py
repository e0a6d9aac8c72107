"""Tasks by name: registration, clashes, names that nobody has."""

from unittest import mock

import pytest

from django_leasequeue import registry, task
from django_leasequeue.exceptions import UnknownTask
from tests.road import toy
from tests.tasks import add


@pytest.fixture(autouse=True)
def own_tasks():
    """What a test registers is forgotten after it."""
    with mock.patch.dict(registry._tasks):
        yield


def test_get_by_name_and_alias():
    """A task answers to its name and to the names it had before."""
    with toy(lambda: None, name="shop.send", aliases=("shop.mail",)) as send:
        assert registry.get("shop.send") is registry.get("shop.mail") is send.options
        assert "shop.send" in registry.names()
        assert "shop.mail" not in registry.names()


def test_names_are_in_order():
    """names() is sorted, so that a worker's row reads the same after each start."""
    assert registry.names() == sorted(registry.names())


def test_unknown_name():
    """A name nobody registered is UnknownTask, with the name as attribute."""
    with pytest.raises(UnknownTask, match=r"registered as 'shop\.gone'") as caught:
        registry.get("shop.gone")
    assert (caught.value.name, caught.value.close) == ("shop.gone", None)


@pytest.mark.parametrize(
    "wrong", ["shop.tasks.send_mial", "shop.jobs.send_mail", "send_mail"]
)
def test_a_name_that_is_like_one(wrong):
    """Misspelt, of another module or without one: the error names what was meant."""
    with (
        toy(lambda: None, name="shop.tasks.send_mail"),
        pytest.raises(UnknownTask, match=r"mean 'shop\.tasks\.send_mail'\?") as caught,
    ):
        registry.resolve(wrong)
    assert caught.value.close == "shop.tasks.send_mail"


def test_a_name_like_no_other():
    """Nothing is guessed, neither here nor in a worker, whose errors must be repeatable."""
    with toy(lambda: None, name="shop.tasks.double"):
        for wrong in ("zzz", "shop.tasks.quux"):
            with pytest.raises(UnknownTask, match=r"'\. Tasks are found") as caught:
                registry.resolve(wrong)
            assert caught.value.close is None


def test_a_name_from_inside_a_function():
    with pytest.raises(
        UnknownTask, match="inside a function, which workers do not call"
    ):
        registry.resolve("shop.tasks.make.<locals>.inner")


@pytest.mark.parametrize("name, aliases", [("a", ()), ("other", ("a",)), ("b", ())])
def test_two_functions_want_one_name(name, aliases):
    """The second is refused, by name or alias, and none of its names are taken."""

    def first():
        pass

    def second():
        pass

    with toy(first, name="a", aliases=("b",)) as kept:
        with pytest.raises(ValueError, match="Two tasks want the name"):
            task(name=name, aliases=aliases)(second)
        assert registry.get("a") is registry.get("b") is kept.options
        assert name in ("a", "b") or name not in registry.names()


def test_same_function_again():
    """A module that is loaded again replaces its tasks."""

    def send():
        pass

    with toy(send, name="a"), toy(send, name="a", priority=5):
        assert registry.get("a").priority == 5


def test_resolve():
    """A task and its registered name resolve alike."""
    assert registry.resolve(add) is registry.resolve("tests.tasks.add") is add.options


@pytest.mark.parametrize("wrong", [lambda: None, None, 7, object()])
def test_resolve_refuses_what_is_no_task(wrong):
    """A plain function is the usual mistake; the message tells to decorate it."""
    with pytest.raises(TypeError, match=r"is no task\. Decorate"):
        registry.resolve(wrong)
