"""docs/tutorial.md, followed literally: its files and its commands, in an empty folder.

The virtual environment is new, and has nothing but what the page installs; what that needs
(Django and so on) is taken from the one that runs the tests, so that no network is asked.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import sysconfig
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from django.conf import settings

from tests.helpers import DEADLINE, eventually
from tests.processes import ROOT
from tests.servers import free_port

pytestmark = pytest.mark.skipif(
    settings.DATABASE != "sqlite", reason="Its project is on SQLite"
)
PAGE = (ROOT / "docs/tutorial.md").read_text()
# What goes on until it is stopped, in a terminal of its own.
ENDLESS = re.compile(r"manage\.py (runjobs|runserver)$")
# Nothing is to be had from elsewhere.
PIP = "pip install --no-index --no-build-isolation"
ACTIVATE = ". .venv/bin/activate"


class Reader:
    """Somebody who does what the page says. `folder`: where the terminals are."""

    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        self.environment = {
            key: value
            for key, value in os.environ.items()
            if not re.search("DJANGO|PYTHON|VIRTUAL_ENV|COVERAGE|LEASEQUEUE", key)
        }
        self.environment |= {
            "PIP_NO_COMPILE": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        self.environment["PATH"] = os.pathsep.join(
            [str(Path(sys.executable).parent), self.environment["PATH"]]
        )
        self.setup = ""  # what the first terminal remembers
        self.running = {}

    def follow(self):
        """Do the whole page, and leave what is endless running."""
        for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S):
            {"python": self.write, "console": self.type}[language](block)

    def write(self, block):
        """Put a block into the file that its first line names."""
        first, _, code = block.partition("\n")
        name, _, where = first.removeprefix("# ").partition(", ")
        mode = "a" if where == "at the end" else "w"
        assert where in ("", "at the end", "all of it")
        with (self.folder / name).open(mode) as file:
            file.write(code)

    def type(self, block):
        """Type the commands of a block, and see that they print what stands below each."""
        for part in block.removeprefix("$ ").split("\n$ "):
            command, *expected = part.strip().splitlines()
            command = command.replace("~/django_leasequeue", str(ROOT))
            command = command.replace("pip install", PIP)
            if ENDLESS.search(command):
                self.start(command)
                continue
            printed = self.run(command)
            for line in expected:
                assert line in printed, (command, printed)

    def run(self, command):
        if command.startswith("cd "):
            self.folder /= command.removeprefix("cd ")
            return ""
        if command == ACTIVATE or command.startswith("export "):
            self.setup += f"{command}\n"
            return ""
        done = subprocess.run(
            ["bash", "-ec", self.setup + command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=3 * DEADLINE,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}"
        if command.endswith("-m venv .venv"):
            self.lend_packages()
        return done.stdout

    def lend_packages(self):
        [site] = (self.folder / ".venv/lib").glob("python*/site-packages")
        (site / "lent.pth").write_text(sysconfig.get_path("purelib"))

    def start(self, command):
        """Start what is endless, and wait until it has done what the page tells of it."""
        if command.endswith("runserver"):
            command += f" {self.port} --noreload"
        log = self.folder / f"{command.split()[2]}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"{ACTIVATE}\nexec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.running[log.stem] = process, log
        if log.stem == "runjobs":
            eventually(lambda: re.search(r"Job 2.*succeeded", log.read_text()))
        else:
            self.browse()

    def browse(self):
        """Open the addresses of the page; return nothing, since all is asserted."""
        hello, jobs = (
            address.replace(":8000", f":{self.port}")
            for address in re.findall(r"<(http://127\S+)>", PAGE)
        )
        browser = build_opener(HTTPCookieProcessor(jar := CookieJar()))

        def get(address, data=None):
            with browser.open(address, data, timeout=DEADLINE) as response:
                return response.geturl(), response.read().decode()

        def is_up():
            with contextlib.suppress(URLError):
                return get(hello)

        assert eventually(is_up)[1] == "Job 3: added"
        login, _ = get(jobs)
        token = next(cookie.value for cookie in jar if cookie.name == "csrftoken")
        form = {"csrfmiddlewaretoken": token, "username": "ann", "password": "tutorial"}
        assert "/login/" in login
        get(login, urlencode(form).encode())
        page = eventually(
            lambda: (page := get(jobs)[1]).lower().count("succeeded</") >= 3 and page
        )
        assert "shop.tasks.greet" in page and "shop.tasks.fetch_price" in page
        _, second = get(f"{jobs}2/change/")
        assert "The shop does not answer." in second

    def press_ctrl_c(self, name):
        process, log = self.running[name]
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 0, log.read_text()


@pytest.fixture
def reader(tmp_path):
    reader = Reader(tmp_path, free_port())
    yield reader
    for process, _ in reader.running.values():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_tutorial(reader):
    reader.follow()
    reader.press_ctrl_c("runjobs")
