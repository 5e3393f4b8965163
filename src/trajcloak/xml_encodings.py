"""Encodings of XML files that are read."""

import re

_KNOWN = re.compile(
    r"utf-8|utf-16(le|be)?|us-ascii|iso-8859-(1[013-6]|[1-9])|windows-125[0-8]|koi8-[ru]", re.I
)


def is_read(encoding: str | None) -> bool:
    """Whether expat knows an encoding, or it has one byte for each character.

    For all others expat asks Python's codecs, which raise errors of many kinds.
    """
    return encoding is None or _KNOWN.fullmatch(encoding) is not None
