"""Text that others wrote, made safe to show on a terminal, in a message or on a page."""

import unicodedata

_INVISIBLE = {"Cc", "Cs", "Zl", "Zp"}
"""Unicode categories of control characters, surrogates and line separators."""

_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of the text after them."""


def show_text(text: str) -> str:
    r"""Replace control characters, and those that change the text's direction, by escapes.

    A terminal would obey them: move, hide or rewrite what is printed.

    Examples
    --------
    >>> print(show_text("pay\u202egnp.exe"))
    pay\u202egnp.exe
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"\\u{ord(character):04x}"
        if character in _DIRECTIONS or unicodedata.category(character) in _INVISIBLE
        else character
        for character in text
    )
