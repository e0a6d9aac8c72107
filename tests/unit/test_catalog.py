"""The German catalog has each text of the package, and the compiled one is of it.

After a change of texts, in django_leasequeue/, with GNU gettext:

    django-admin makemessages -l de --no-obsolete --no-wrap --add-location file
    (translate, then) django-admin compilemessages -l de
"""

import re
from gettext import GNUTranslations
from io import BytesIO

import pytest
from babel.messages.extract import DEFAULT_KEYWORDS, extract
from babel.messages.pofile import read_po
from django.utils.translation.template import templatize

from tests.processes import ROOT

PACKAGE = ROOT / "django_leasequeue"
FOLDER = PACKAGE / "locale" / "de" / "LC_MESSAGES"
KEYWORDS = {
    **DEFAULT_KEYWORDS,
    "gettext_lazy": None,
    "ngettext_lazy": (1, 2),
    "pgettext_lazy": ((1, "c"), 2),
}
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%[sd]|\{\w+\}")


def extracted():
    """Return the texts that the sources mark; of one with a plural the pair."""
    found = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix == ".py":
            code = path.read_bytes()
        elif path.suffix == ".html":
            # As makemessages does: code with calls of gettext where the marks were.
            lines = templatize(path.read_text()).splitlines()
            code = "\n".join(map(str.strip, lines)).encode()
        else:
            continue
        for line, text, *_ in extract("python", BytesIO(code), KEYWORDS):
            found.setdefault(text, f"{path.relative_to(PACKAGE)}:{line}")
    return found


@pytest.fixture(scope="module")
def catalog():
    with open(FOLDER / "django.po", "rb") as file:
        return {entry.id: entry for entry in read_po(file, locale="de") if entry.id}


def test_each_text_is_in_the_catalog(catalog):
    marked = extracted()
    assert len(marked) > 200
    assert {text: at for text, at in marked.items() if text not in catalog} == {}
    assert catalog.keys() - marked.keys() == set()  # and none that no source has


def test_each_text_is_translated(catalog):
    for text, entry in catalog.items():
        strings = entry.string if isinstance(text, tuple) else (entry.string,)
        assert all(strings), text
        assert not entry.fuzzy, text
        ids = text if isinstance(text, tuple) else (text,)
        for original, translated in zip(ids, strings, strict=True):
            assert set(PLACEHOLDER.findall(original)) == set(
                PLACEHOLDER.findall(translated)
            ), text


def test_the_compiled_catalog_is_of_this_one(catalog):
    with open(FOLDER / "django.mo", "rb") as file:
        compiled = GNUTranslations(file)
    for text, entry in catalog.items():
        if isinstance(text, tuple):
            strings = tuple(compiled.ngettext(*text, number) for number in (1, 2))
        else:
            strings = compiled.gettext(text)
        assert strings == entry.string
