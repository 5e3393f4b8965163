"""Every error that trajcloak raises on purpose.

::

    TrajcloakError
    ├── InputError          (ValueError)       a log, or a file read, breaks a rule
    ├── OptionError         (ValueError)       an option has an unusable value
    ├── NotEnoughUsersError (ValueError)       fewer than k users take part
    └── OutputError         (OSError)          an output path cannot be used

A message says where, what was found, what was expected, and the remedy. It
carries row numbers and counts, never user ids or coordinates (invariant 6 of
``docs/guarantee.md``). Names that others chose are shown without control characters.
The command line turns each into exit code 2.

A message names settings as options of the command line: ``--every``, or ``--every=60s`` with a
value. The command line prints it as it is; Python shows keyword arguments: ``every=`` and
``every="60s"``.
"""

import re

from trajcloak.shown_text import show_text

_OPTION = re.compile(r"(?<![\w/-])--([a-z]+(?:-[a-z]+)*)(?:=([\w.:-]*\w))?")
_FLAGS = frozenset({"link-safe", "replay", "rows-alike"})
"""Options without a value; in Python they are true or false."""

_KEYWORDS = {"request": "requests", "from": "first", "to": "last"}
"""Options that Python calls otherwise."""


class TrajcloakError(Exception):
    """Base of all errors that trajcloak raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(show_text(message))

    @property
    def with_options(self) -> str:
        """The message for the command line."""
        return str(self.args[0])

    def __str__(self) -> str:
        return name_keywords(self.with_options)


def name_keywords(text: str) -> str:
    """Turn the options of the command line that a text names into keyword arguments.

    Examples
    --------
    >>> name_keywords("pass --drop=empty, or a larger --max-gap")
    'pass drop="empty", or a larger max_gap='
    """

    def to_keyword(option: re.Match[str]) -> str:
        name, value = option.groups()
        keyword = _KEYWORDS.get(name, name.replace("-", "_"))
        if name in _FLAGS:
            return f"{keyword}=True"
        return f"{keyword}=" if value is None else f'{keyword}="{value}"'

    return _OPTION.sub(to_keyword, text)


class InputError(TrajcloakError, ValueError):
    """A log, release or policy file breaks a rule of ``docs/data-model.md``."""


class OptionError(TrajcloakError, ValueError):
    """An option or argument has a value that cannot be used."""


class NotEnoughUsersError(TrajcloakError, ValueError):
    """Fewer than k users take part, so nothing can be published."""


class OutputError(TrajcloakError, OSError):
    """An output path exists already, or cannot be written."""
