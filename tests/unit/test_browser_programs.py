"""Where the tests find their browser."""

import pytest

from tests.browser import programs
from tests.server_programs import ServerMissing


@pytest.fixture(autouse=True)
def no_others(monkeypatch, tmp_path):
    for name in ("CHROMIUM", "CHROMEDRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def executable(path, text="\x7fELF"):
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_what_is_on_the_path(tmp_path):
    browser = executable(tmp_path / "chromium", "#!/bin/sh\nexec /usr/lib/chromium\n")
    driver = executable(tmp_path / "chromedriver")
    assert programs.find() == (browser, driver)


def test_what_is_missing_is_named_as_its_package(tmp_path):
    executable(tmp_path / "chromium")
    with pytest.raises(ServerMissing, match=r"^chromium-driver is not installed"):
        programs.find()


def test_variables_decide(tmp_path, monkeypatch):
    monkeypatch.setenv("CHROMIUM", "/opt/a")
    monkeypatch.setenv("CHROMEDRIVER", "/opt/b")
    executable(tmp_path / "chromium")
    assert [str(path) for path in programs.find()] == ["/opt/a", "/opt/b"]


def test_a_snap_is_none(tmp_path):
    executable(tmp_path / "chromium", '#!/bin/sh\nexec /snap/bin/chromium "$@"\n')
    executable(tmp_path / "chromedriver")
    with pytest.raises(ServerMissing, match=r"^chromium is not installed"):
        programs.find()


@pytest.mark.parametrize(
    ("text", "snaps"),
    [
        ("ID=debian\n", False),
        ("ID=ubuntu\nID_LIKE=debian\n", True),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', True),
        ("", False),
    ],
)
def test_ubuntus_packages_are_snaps(tmp_path, text, snaps):
    release = tmp_path / "os-release"
    release.write_text(text)
    assert programs.come_as_snaps(release) is snaps
    assert not programs.come_as_snaps(tmp_path / "none")
