"""Text that every database can store: no NUL, no lone surrogate, not too long."""

import json
import re

# PostgreSQL stores no NUL in text, and UTF-8 has no form for half of a surrogate pair.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def breaks_databases(text: str) -> str | None:
    """Return what in the text a database would refuse ("a NUL"), None if nothing."""
    if "\0" in text:
        return "a NUL character"
    if not text.isascii() and _SURROGATE.search(text):
        return "a lone surrogate"
    return None


def clean_text(text: str, max_chars: int, max_bytes: int | None = None) -> str:
    """Return the text fit for storing, as a plain str.

    What no database takes becomes the replacement character. Text of more than
    `max_chars` characters, or `max_bytes` bytes once it is ASCII JSON, keeps its head
    and its tail around a mark that says how many characters are gone.
    """
    text = str.__str__(text)  # a subclass may have its own idea of len() and slices
    kept = _cut(text, max_chars)
    while max_bytes is not None and kept and len(json.dumps(kept)) > max_bytes:
        max_chars = max_chars * 3 // 4
        kept = _cut(text, max_chars)
    return kept


def _cut(text: str, max_chars: int) -> str:
    if len(text) > max_chars:
        room = max_chars - len(_mark(len(text)))
        if room < 2:
            text = text[:max_chars]
        else:
            head = room // 2
            tail = room - head
            text = text[:head] + _mark(len(text) - room) + text[-tail:]
    return _UNSTORABLE.sub("\ufffd", text)


def _mark(count: int) -> str:
    return f"… ({count:,} characters cut) …"
