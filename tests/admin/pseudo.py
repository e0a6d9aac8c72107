"""A language in which each text that is marked for translation is put in brackets.

What a page shows outside of them is either data or a text that nobody has marked.
"""

import contextlib
import gettext
import re
from html.parser import HTMLParser
from unittest.mock import patch

from django.utils.translation import trans_real

INNERMOST = re.compile(r"⟦[^⟦⟧]*⟧")
SPOKEN = ("alt", "aria-label", "placeholder", "title", "data-label")
# What the dashboard's script says.
SPOKEN += tuple(
    f"data-{name}" for name in ("refused", "start", "stop", "stopped", "unreachable")
)


class Bracketed(gettext.NullTranslations):
    """Every text there is, translated."""

    def gettext(self, message):
        # What stands before the mark is the context of pgettext.
        return f"⟦{message.rpartition(trans_real.CONTEXT_SEPARATOR)[2]}⟧"

    def ngettext(self, msgid1, msgid2, n):
        return self.gettext(msgid1 if n == 1 else msgid2)

    def language(self):
        return "en"

    to_language = language


@contextlib.contextmanager
def spoken():
    """Have this thread speak that language, whichever the admin changes back to."""
    language = Bracketed()
    with (
        patch.object(trans_real, "translation", lambda code: language),
        patch.object(trans_real, "_default", language),
    ):
        trans_real.activate("en")
        try:
            yield
        finally:
            trans_real.deactivate()


def unmarked(html):
    """Return the texts of a page, or parts of them, that stand in no brackets."""
    texts = _Texts()
    texts.feed(html.replace("<wbr>", ""))
    return list(filter(None, map(_outside, texts.found)))


def _outside(text):
    shorter = None
    while shorter != text:
        shorter, text = text, INNERMOST.sub("", text)
    return text.strip() if re.search(r"[^\W\d_]", text) else ""


class _Texts(HTMLParser):
    """Collects what a reader sees, or hears: no scripts, no names of fields."""

    def __init__(self):
        super().__init__()
        self.found = []
        self._silent = False

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self._silent = tag in ("script", "style")
        self.found += [given[name] for name in SPOKEN if given.get(name)]
        if tag == "input" and given.get("type") in ("submit", "button", "reset"):
            self.found.append(given.get("value") or "")

    def handle_endtag(self, tag):
        self._silent = False

    def handle_data(self, data):
        if not self._silent:
            self.found.append(data)
