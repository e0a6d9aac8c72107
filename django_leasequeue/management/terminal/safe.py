"""Text from jobs, made safe for a terminal: it is shown, and obeyed by nothing.

An error's message, a queue's name or an argument may hold whatever a dispatch put there:
escape sequences that move the cursor, set the window's title or paste into the shell, and
marks that turn the direction of writing.
"""

import unicodedata

# Control characters, formats such as turns of direction, halves of surrogate pairs, and the
# separators of lines and paragraphs.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def safe(text: object, encoding: str = "utf-8", *, lines: bool = False) -> str:
    r"""Return the text with what a terminal would obey written out, such as \x1b.

    `encoding`: what the terminal can show; the rest is written out, too. `lines`: whether
    line breaks and tabs stay as they are.
    """
    kept = "\n\t" if lines else ""
    text = str(text)
    if lines:
        text = text.replace("\r\n", "\n")
    shown = "".join(
        char
        if char in kept or unicodedata.category(char) not in _UNSAFE
        else _out(char)
        for char in text
    )
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def _out(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
