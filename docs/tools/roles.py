"""Roles of docstrings, such as ``:func:`read_log```, as the site shows them: plain code."""

import re
from typing import Any

import griffe

ROLE = re.compile(r":[a-z]+:`~?(?:trajcloak\.(?:\w+\.)*)?([^`]+)`")


class Roles(griffe.Extension):
    """Replaces each role by the name that it refers to."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
