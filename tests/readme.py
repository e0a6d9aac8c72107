"""README.md, and other documents, in pieces, for the tests that run them."""

import re
from typing import NamedTuple

from tests.processes import ROOT

TEXT = (ROOT / "README.md").read_text()
TASKS_PAGE = (ROOT / "docs/tasks.md").read_text()
DEDUP = (ROOT / "docs/dedup.md").read_text()
HOOKS = (ROOT / "docs/hooks.md").read_text()
# A comment at the margin of a Python block says where what follows it belongs.
PLACE = re.compile(
    r"^# (shop/tasks\.py|settings\.py|where a customer signs up)\n", re.M
)
TASKS, SETTINGS, SIGN_UP = "shop/tasks.py", "settings.py", "where a customer signs up"
ANYWHERE = "anywhere"


class Snippet(NamedTuple):
    place: str
    code: str


def blocks(language, text=TEXT):
    """The fenced blocks in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def snippets(*places, text=TEXT):
    """The Python of these places, in order."""
    found = []
    for block in blocks("python", text):
        start, *rest = PLACE.split(block)
        found.append(Snippet(ANYWHERE, start))
        found += map(Snippet, rest[::2], rest[1::2])
    return [s for s in found if s.code.strip() and s.place in places]


def commands():
    """The commands, without their comments."""
    lines = "".join(blocks("console")).splitlines()
    return [line.removeprefix("$ ").partition(" #")[0].strip() for line in lines]


def table(heading, text=TEXT):
    """The cells of the table whose first heading, or headings, this is, without its head."""
    rows = text.partition(f"\n| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
