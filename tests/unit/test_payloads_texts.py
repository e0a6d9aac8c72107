"""Text made fit for storing."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_leasequeue.payloads import clean_text

texts = st.text(st.characters()) | st.text("a\0\ud800\udfff😀é\n", max_size=300)


@given(texts, st.integers(0, 400))
def test_clean_text_fits_and_every_database_takes_it(text, max_chars):
    """No NUL, no lone surrogate, and never longer than asked."""
    clean = clean_text(text, max_chars)
    assert len(clean) <= max_chars
    assert "\0" not in clean
    clean.encode("utf-8")


@given(texts)
def test_clean_text_keeps_what_it_can(text):
    """Text that fits keeps each character that can be stored, at its place."""
    clean = clean_text(text, len(text))
    assert len(clean) == len(text)
    for before, after in zip(text, clean, strict=True):
        unstorable = before == "\0" or "\ud800" <= before <= "\udfff"
        assert after == ("\ufffd" if unstorable else before)


@given(texts, st.integers(0, 400), st.integers(2, 400))
def test_clean_text_fits_in_bytes_too(text, max_chars, max_bytes):
    """As ASCII JSON, the text is never longer than the bytes asked for."""
    clean = clean_text(text, max_chars, max_bytes)
    assert len(clean) <= max_chars
    assert len(json.dumps(clean)) <= max_bytes


def test_clean_text_says_how_much_is_gone():
    """The head and the tail stay, and the mark counts what was between them."""
    text = "head" + "x" * 10_000_000 + "tail"
    clean = clean_text(text, 10_000)
    found = re.fullmatch(r"(headx+)… \(([\d,]+) characters cut\) …(x+tail)", clean)
    before, count, after = found.groups()
    assert len(before) + len(after) + int(count.replace(",", "")) == len(text)
    assert abs(len(before) - len(after)) <= 1
    assert 9_990 <= len(clean) <= 10_000


@pytest.mark.parametrize("max_chars", [0, 1, 5])
def test_clean_text_without_room_for_a_mark(max_chars):
    """Where not even the mark fits, the head alone stays."""
    assert clean_text("abcdefgh" * 10, max_chars) == "abcde"[:max_chars]


def test_clean_text_is_plain():
    """A subclass of str, whatever it says of itself, becomes a plain str."""

    class Odd(str):
        __slots__ = ()

        def __len__(self):
            return 0

        def __getitem__(self, key):
            return self

    clean = clean_text(Odd("x" * 1_000), 100)
    assert type(clean) is str
    assert len(clean) <= 100
