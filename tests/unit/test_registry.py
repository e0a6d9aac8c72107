"""Tasks by name: registration, clashes, options that can't be, discovery."""

import re
import sys
from unittest import mock

import pytest
from django.apps import apps
from django.test import override_settings

from django_leasequeue import Dedup, registry, task
from django_leasequeue.exceptions import UndiscoverableTask, UnknownTask
from django_leasequeue.registry import TaskOptions
from tests.road import toy
from tests.tasks import add


@pytest.fixture(autouse=True)
def own_tasks():
    """What a test registers is forgotten after it."""
    with mock.patch.dict(registry._tasks):
        yield


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write modules, {path without .py: source}, to be imported while the test lasts."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(modules):
        for name, source in modules.items():
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)

    yield write
    for name in [name for name in sys.modules if name.split(".")[0] == "chores"]:
        del sys.modules[name]


def options(function=lambda: None, **values):
    return TaskOptions(name="shop.send", func=function, **values)


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


@pytest.mark.parametrize(
    "values, kind, words",
    [
        ({"queue": ""}, ValueError, "queue must not be empty"),
        ({"queue": "q" * 101}, ValueError, "at most 100"),
        ({"queue": "a\x00"}, ValueError, "NUL"),
        ({"aliases": ("a" * 256,)}, ValueError, "at most 255"),
        ({"priority": 101}, ValueError, "between -100 and 100"),
        ({"priority": -101}, ValueError, "between -100 and 100"),
        ({"priority": 1.0}, TypeError, "priority must be an int, not float"),
        ({"priority": True}, TypeError, "priority must be an int, not bool"),
        ({"max_attempts": 0}, ValueError, "max_attempts must be at least 1, not 0"),
        ({"max_attempts": 2**31}, ValueError, "max_attempts"),
        ({"max_attempts": "3"}, TypeError, "max_attempts must be an int, not str"),
        ({"max_recoveries": -1}, ValueError, "max_recoveries must be at least 0"),
        ({"backoff": 5}, TypeError, "must be Exponential, Linear, Fixed or a callable"),
        ({"dedup": ""}, ValueError, "dedup id must not be empty"),
        ({"dedup": 7}, TypeError, "dedup id must be a str"),
        (
            {"retry_on": (ValueError, "x")},
            TypeError,
            "retry_on takes exception classes",
        ),
        ({"discard_on": (int,)}, TypeError, "discard_on takes exception classes"),
    ],
)
def test_116_options_that_can_not_be(values, kind, words):
    """They are refused where the task is defined, not when the first job is dispatched."""
    with pytest.raises(kind, match=words):
        options(**values)


def test_bounds_are_allowed():
    """The ends of each range are inside it."""
    options(priority=100, max_attempts=1, max_recoveries=0)
    options(priority=-100, max_attempts=2**31 - 1, queue="q" * 100)


def test_atomic_is_for_plain_functions():
    """An async task can't run in a transaction, so the two together are refused."""

    async def send():
        pass

    with pytest.raises(TypeError, match="drop atomic=True"):
        options(send, atomic=True)
    assert options(send).is_async


@pytest.mark.parametrize(
    "args, kwargs",
    [([1], {"b": 2}), ([1, 2], {}), ([], {"a": 1, "b": 2}), ([1, 2], {"c": 3})],
)
def test_bind(args, kwargs):
    """Arguments that the function takes are accepted in every form."""
    options(lambda a, b, *, c=0: None).bind(args, kwargs)


@pytest.mark.parametrize(
    "args, kwargs, words",
    [
        ([1], {}, "missing a required argument: 'b'"),
        ([1, 2, 3], {}, "too many positional arguments"),
        ([1, 2], {"d": 4}, "unexpected keyword argument 'd'"),
        ([1, 2], {"a": 1}, "multiple values for argument 'a'"),
        ([1, 2], {5: 1}, "must be strings"),
    ],
)
def test_bind_names_the_argument(args, kwargs, words):
    """What does not fit is told with the task, its signature and the argument."""
    with pytest.raises(TypeError, match=rf"fit shop\.send\(a, b, \*, c=0\): .*{words}"):
        options(lambda a, b, *, c=0: None).bind(args, kwargs)


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda a, b=None: None,
        lambda a, /, b=None, *more: None,
        lambda a=None, **named: None,
        lambda *all: None,
        lambda a, *, b: None,
        lambda a, *, b=None: None,
    ],
)
@pytest.mark.parametrize("count", range(4))
def test_bind_by_position_alone(function, count):
    """The shorter way that most dispatches take refuses and accepts the same."""
    made = options(function)
    try:
        made.signature.bind(*range(count))
    except TypeError as error:
        with pytest.raises(TypeError, match=re.escape(str(error))):
            made.bind(list(range(count)), {})
    else:
        made.bind(list(range(count)), {})


def test_context_is_not_an_argument():
    """With takes_context the first parameter is the worker's to fill."""
    made = options(lambda context, a: None, takes_context=True)
    made.bind([1], {})
    assert made.positional == ["a"]
    with pytest.raises(TypeError, match="too many"):
        made.bind(["context", 1], {})


def test_context_needs_a_parameter():
    """A function without parameters can't take the context."""
    with pytest.raises(TypeError, match="no parameter for it"):
        options(lambda: None, takes_context=True)


@pytest.mark.parametrize(
    "dedup, expected",
    [
        (None, None),
        ("nightly", Dedup("nightly")),
        (Dedup("nightly", ttl=60), Dedup("nightly", ttl=60)),
        (lambda a: f"order:{a}", Dedup("order:7")),
        (lambda a: Dedup(f"order:{a}", ttl=60), Dedup("order:7", ttl=60)),
        (lambda a: None, None),
    ],
)
def test_dedup_for(dedup, expected):
    """The task's own id is a text, a Dedup, or a callable of the arguments, which may pass."""
    assert options(lambda a: None, dedup=dedup).dedup_for([7], {}) == expected


def test_task_of_a_module_that_workers_import(settings):
    """An app's tasks module and what TASK_MODULES lists are imported, submodules included."""
    registry.check_discoverable(add.options)
    settings.LEASEQUEUE = {"TASK_MODULES": ["shop.jobs"]}
    for module in ("shop.jobs", "shop.jobs.mail"):
        registry.check_discoverable(options(module=module))


@pytest.mark.parametrize("module", ["__main__", "shop.views", "shop.jobs_old", "shop"])
def test_task_of_a_module_that_workers_do_not_import(settings, module):
    """Anywhere else no worker could run it, and the error names module and setting."""
    settings.LEASEQUEUE = {"TASK_MODULES": ["shop.jobs"]}
    with pytest.raises(UndiscoverableTask, match=f"add '{module}' to") as caught:
        registry.check_discoverable(options(module=module))
    assert (caught.value.name, caught.value.module) == ("shop.send", module)


def test_task_of_an_app_that_comes_and_goes(settings):
    """What workers import is looked up once, and again when apps or settings change."""
    task = options(module="django.contrib.humanize.tasks")
    with pytest.raises(UndiscoverableTask):
        registry.check_discoverable(task)
    apps_before = settings.INSTALLED_APPS
    with override_settings(INSTALLED_APPS=[*apps_before, "django.contrib.humanize"]):
        registry.check_discoverable(task)
    with pytest.raises(UndiscoverableTask):
        registry.check_discoverable(task)
    settings.LEASEQUEUE = {"TASK_MODULES": ["django.contrib.humanize.tasks"]}
    registry.check_discoverable(task)
    with mock.patch.object(registry, "task_modules") as listed:
        registry.check_discoverable(task)
    assert not listed.called


def test_autodiscover_imports_tasks_of_apps():
    """Apps without a tasks module are passed over; the toy tasks are found."""
    registry.autodiscover()
    assert {"tests.tasks.add", "tests.tasks.fail"} <= set(registry.names())
    assert "django.contrib.auth.tasks" in registry.task_modules()


def test_autodiscover_imports_packages_whole(settings, package):
    """A package of tasks is imported with all that is in it, at any depth."""
    source = "from django_leasequeue import task\n@task(name=__name__)\ndef f(): pass\n"
    package(
        {
            "chores/__init__": source,
            "chores/mail": source,
            "chores/deep/__init__": "",
            "chores/deep/er": source,
        }
    )
    settings.LEASEQUEUE = {"TASK_MODULES": ["chores"]}
    registry.autodiscover()
    found = [name for name in registry.names() if name.startswith("chores")]
    assert found == ["chores", "chores.deep.er", "chores.mail"]


@pytest.mark.parametrize("broken", ["chores/mail", "chores/deep/__init__"])
def test_autodiscover_raises_import_errors(settings, package, broken):
    """A broken module of tasks is no missing one: its error is the worker's to see."""
    package({"chores/__init__": "", broken: "import surely_not_installed"})
    settings.LEASEQUEUE = {"TASK_MODULES": ["chores"]}
    with pytest.raises(ModuleNotFoundError, match="surely_not_installed"):
        registry.autodiscover()


def test_autodiscover_raises_for_a_module_that_is_not_there(settings):
    """A name in TASK_MODULES that does not exist is a mistake, not an empty list."""
    settings.LEASEQUEUE = {"TASK_MODULES": ["surely_not_installed"]}
    with pytest.raises(ModuleNotFoundError):
        registry.autodiscover()


def test_task_modules_follow_apps_and_settings(settings):
    """Both sources are listed, apps first."""
    settings.LEASEQUEUE = {"TASK_MODULES": ["shop.jobs"]}
    modules = registry.task_modules()
    assert len(modules) == len(list(apps.get_app_configs())) + 1
    assert modules[-1] == "shop.jobs"


@pytest.mark.parametrize("given", [OSError, [OSError], (OSError,)])
def test_one_class_or_a_list_does_where_several_are_taken(given):
    made = options(retry_on=given, discard_on=given)
    assert made.retry_on == made.discard_on == (OSError,)


def test_a_name_of_a_module_that_nobody_imported_yet(settings, package):
    """A web process knows only the tasks that it calls itself."""
    source = "from django_leasequeue import task\n@task\ndef run(): pass\n"
    package({"chores/__init__": source})
    settings.LEASEQUEUE = {"TASK_MODULES": ["chores"]}
    assert registry.resolve("chores.run").name == "chores.run"
