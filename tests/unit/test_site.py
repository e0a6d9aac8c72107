"""The documentation's site: what its build refuses."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.processes import ROOT

pytest.importorskip("sphinx", reason="Not among the `docs` that are installed here")

FAULTS = {
    "[a page](nowhere.md)": "nowhere.md",
    "[a heading](other.md#nothing)": "nothing",
}


def test_faults_are_errors(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    shutil.copy(ROOT / "docs/conf.py", folder)
    shutil.copytree(ROOT / "docs/static", folder / "static")
    (folder / "index.md").write_text("# Index\n\n" + "\n\n".join(FAULTS))
    (folder / "other.md").write_text("# In no table of contents\n")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "docs", "site"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    for told in [*FAULTS.values(), "isn't included in any toctree"]:
        assert told in done.stderr
    assert done.stderr.count("WARNING") == len(FAULTS) + 1
    page = (tmp_path / "site/index.html").read_text()
    loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"([^\"]+)", page)
    assert "_static/site.css" in "".join(loaded)
    assert [address for address in loaded if "//" in address] == []  # all is local
