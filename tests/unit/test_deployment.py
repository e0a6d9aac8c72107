"""The files in docs/deployment.md can be read by whom they are for, and wait long enough."""

import configparser
import json
import re
import shutil
import subprocess
import sys
from importlib import resources

import pytest
from django.core.management import load_command_class

from tests import readme
from tests.processes import ROOT

PAGE = (ROOT / "docs/deployment.md").read_text()
# Seconds for giving back what has not ended in time.
FOR_GIVING_BACK = 5
EXTRA = "Comes with the `deployment` extra"


def parsed(words):
    """The options of a command of this package, which has to take them."""
    assert words[:2] == ["python", "manage.py"] or words[0].endswith("/bin/python")
    name, *rest = words[2:]
    command = load_command_class("django_leasequeue", name)
    return command.create_parser("manage.py", name).parse_args(rest)


def test_systemd():
    [text] = readme.blocks("ini", PAGE)
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(text)
    options = parsed(unit["Service"]["ExecStart"].split())
    waits = float(unit["Service"]["TimeoutStopSec"])
    assert waits >= options.shutdown_timeout + FOR_GIVING_BACK


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="No systemd here")
def test_systemd_takes_it(tmp_path):
    [text] = readme.blocks("ini", PAGE)
    file = tmp_path / "jobs.service"
    file.write_text(text.replace("/srv/shop/.venv/bin/python", sys.executable))
    command = ["systemd-analyze", "verify", file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "jobs.service" not in done.stderr, done.stderr


def documents():
    yaml = pytest.importorskip("yaml", reason=EXTRA)
    return [yaml.safe_load(block) for block in readme.blocks("yaml", PAGE)]


def test_compose():
    compose, _ = documents()
    worker = compose["services"]["worker"]
    options = parsed(worker["command"])
    waits = float(worker["stop_grace_period"].removesuffix("s"))
    assert waits >= options.shutdown_timeout + FOR_GIVING_BACK
    kind, *probe = worker["healthcheck"]["test"]
    assert kind == "CMD" and parsed(probe).host is not None
    services = compose["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()


def test_compose_takes_it():
    pytest.importorskip("check_jsonschema", reason=EXTRA)
    import jsonschema

    compose, _ = documents()
    folder = resources.files("check_jsonschema") / "builtin_schemas/vendor"
    schema = json.loads((folder / "compose-spec.json").read_text())
    jsonschema.validate(compose, schema)
    compose["services"]["worker"]["stop_grace_time"] = "70s"
    with pytest.raises(jsonschema.ValidationError, match="stop_grace_time"):
        jsonschema.validate(compose, schema)


def test_kubernetes_takes_it():
    known = pytest.importorskip("kubernetes_validate", reason=EXTRA)
    _, deployment = documents()
    known.validate(deployment, known.latest_version(), strict=True)
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    container["livenessCheck"] = container.pop("livenessProbe")
    with pytest.raises(known.ValidationError, match="livenessCheck"):
        known.validate(deployment, known.latest_version(), strict=True)


def test_kubernetes():
    compose, deployment = documents()
    pod = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    [container] = pod["spec"]["containers"]
    options = parsed(container["command"])
    waits = pod["spec"]["terminationGracePeriodSeconds"]
    assert waits >= options.shutdown_timeout + FOR_GIVING_BACK
    probe = container["livenessProbe"]["exec"]["command"]
    assert parsed(probe).host is not None
    assert ["CMD", *probe] == compose["services"]["worker"]["healthcheck"]["test"]
    assert all(isinstance(one["value"], str) for one in container["env"])


def test_procfile():
    [text] = readme.blocks("text", PAGE)
    lines = dict(re.findall(r"^(\w+): (.+)$", text, re.M))
    assert parsed(lines["worker"].split())


def test_urls():
    given = {}
    [code] = readme.blocks("python", PAGE)
    exec(code, given)
    assert [str(one.pattern) for one in given["urlpatterns"]] == [
        "health/queue/",
        "metrics/queue/",
    ]
