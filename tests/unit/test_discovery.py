"""Where tasks are found: modules of apps and of TASK_MODULES, and no others."""

import sys
from unittest import mock

import pytest
from django.apps import apps
from django.test import override_settings

from django_leasequeue import discovery, registry
from django_leasequeue.exceptions import UndiscoverableTask
from django_leasequeue.task_options import TaskOptions
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


def test_task_of_a_module_that_workers_import(settings):
    """An app's tasks module and what TASK_MODULES lists are imported, submodules included."""
    discovery.check_discoverable(add.options)
    settings.LEASEQUEUE = {"TASK_MODULES": ["shop.jobs"]}
    for module in ("shop.jobs", "shop.jobs.mail"):
        discovery.check_discoverable(options(module=module))


@pytest.mark.parametrize("module", ["__main__", "shop.views", "shop.jobs_old", "shop"])
def test_task_of_a_module_that_workers_do_not_import(settings, module):
    """Anywhere else no worker could run it, and the error names module and setting."""
    settings.LEASEQUEUE = {"TASK_MODULES": ["shop.jobs"]}
    with pytest.raises(UndiscoverableTask, match=f"add '{module}' to") as caught:
        discovery.check_discoverable(options(module=module))
    assert (caught.value.name, caught.value.module) == ("shop.send", module)


def test_task_of_an_app_that_comes_and_goes(settings):
    """What workers import is looked up once, and again when apps or settings change."""
    task = options(module="django.contrib.humanize.tasks")
    with pytest.raises(UndiscoverableTask):
        discovery.check_discoverable(task)
    apps_before = settings.INSTALLED_APPS
    with override_settings(INSTALLED_APPS=[*apps_before, "django.contrib.humanize"]):
        discovery.check_discoverable(task)
    with pytest.raises(UndiscoverableTask):
        discovery.check_discoverable(task)
    settings.LEASEQUEUE = {"TASK_MODULES": ["django.contrib.humanize.tasks"]}
    discovery.check_discoverable(task)
    with mock.patch.object(discovery, "task_modules") as listed:
        discovery.check_discoverable(task)
    assert not listed.called


def test_autodiscover_imports_tasks_of_apps():
    """Apps without a tasks module are passed over; the toy tasks are found."""
    discovery.autodiscover()
    assert {"tests.tasks.add", "tests.tasks.fail"} <= set(registry.names())
    assert "django.contrib.auth.tasks" in discovery.task_modules()


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
    discovery.autodiscover()
    found = [name for name in registry.names() if name.startswith("chores")]
    assert found == ["chores", "chores.deep.er", "chores.mail"]


@pytest.mark.parametrize("broken", ["chores/mail", "chores/deep/__init__"])
def test_autodiscover_raises_import_errors(settings, package, broken):
    """A broken module of tasks is no missing one: its error is the worker's to see."""
    package({"chores/__init__": "", broken: "import surely_not_installed"})
    settings.LEASEQUEUE = {"TASK_MODULES": ["chores"]}
    with pytest.raises(ModuleNotFoundError, match="surely_not_installed"):
        discovery.autodiscover()


def test_autodiscover_raises_for_a_module_that_is_not_there(settings):
    """A name in TASK_MODULES that does not exist is a mistake, not an empty list."""
    settings.LEASEQUEUE = {"TASK_MODULES": ["surely_not_installed"]}
    with pytest.raises(ModuleNotFoundError):
        discovery.autodiscover()


def test_task_modules_follow_apps_and_settings(settings):
    """Both sources are listed, apps first."""
    settings.LEASEQUEUE = {"TASK_MODULES": ["shop.jobs"]}
    modules = discovery.task_modules()
    assert len(modules) == len(list(apps.get_app_configs())) + 1
    assert modules[-1] == "shop.jobs"


def test_a_name_of_a_module_that_nobody_imported_yet(settings, package):
    """A web process knows only the tasks that it calls itself."""
    source = "from django_leasequeue import task\n@task\ndef run(): pass\n"
    package({"chores/__init__": source})
    settings.LEASEQUEUE = {"TASK_MODULES": ["chores"]}
    assert registry.resolve("chores.run").name == "chores.run"
