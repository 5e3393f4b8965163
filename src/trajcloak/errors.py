"""Every error that trajcloak raises on purpose.

::

    TrajcloakError
    ├── InputError          (ValueError)       a log, or a file read, breaks a rule
    │   └── RefusedLogError                    a log breaks several rules
    ├── OptionError         (ValueError)       an option has an unusable value
    ├── NotEnoughUsersError (ValueError)       fewer than k users take part
    └── OutputError         (OSError)          an output path cannot be used

A message says where, what was found, what was expected, and the remedy. It
carries row numbers and counts, never user ids or coordinates (invariant 6 of
``docs/guarantee.md``). Names that others chose are shown without control characters.
The command line turns each into exit code 2. :class:`TrajcloakWarning` is no error: what is
probably meant otherwise, and was done all the same.

A message names settings as options of the command line: ``--every``, or ``--every=60s`` with a
value. The command line prints it as it is; Python shows keyword arguments: ``every=`` and
``every="60s"``. ``trajcloak inspect`` is a function there, too.
"""

import inspect
import re
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

_OPTION = re.compile(r"(?<![\w/-])--([a-z]+(?:-[a-z]+)*)(?:=([\w.:-]*\w))?")
# Options without a value, and what Python has instead; options that Python calls otherwise.
_FLAGS = {
    "link-safe": "link_safe=True",
    "lonlat": 'crs="EPSG:4326"',
    "replay": "replay=True",
    "rows-alike": "rows_alike=True",
}
_KEYWORDS = {"request": "requests", "from": "first", "to": "last"}
_FUNCTIONS = {
    "trajcloak inspect": "trajcloak.inspect_log",
    "trajcloak convert": "trajcloak.convert_log",
}
# Unicode categories of control characters, surrogates and line separators; and characters that
# change the direction of the text after them.
_INVISIBLE = {"Cc", "Cs", "Zl", "Zp"}
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


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


class _ShownMessage(Exception):  # noqa: N818
    """A message that the command line and Python show differently."""

    def __init__(self, message: str) -> None:
        super().__init__(show_text(message))

    @property
    def with_options(self) -> str:
        """The message for the command line."""
        return str(self.args[0])

    def __str__(self) -> str:
        return name_keywords(self.with_options)


class TrajcloakError(_ShownMessage):
    """Base of all errors that trajcloak raises on purpose."""

    @property
    def reasons(self) -> list[str]:
        """The message for the command line; several, if a log is refused for several reasons."""
        return [self.with_options]


def name_keywords(text: str) -> str:
    """Turn the commands and options that a text names into functions and keyword arguments.

    Examples
    --------
    >>> name_keywords("pass --drop=empty, or a larger --max-gap; trajcloak inspect proposes one")
    'pass drop="empty", or a larger max_gap=; trajcloak.inspect_log proposes one'
    """

    def to_keyword(option: re.Match[str]) -> str:
        name, value = option.groups()
        if name in _FLAGS:
            return _FLAGS[name]
        keyword = _KEYWORDS.get(name, name.replace("-", "_"))
        return f"{keyword}=" if value is None else f'{keyword}="{value}"'

    for command, function in _FUNCTIONS.items():
        text = text.replace(command, function)
    return _OPTION.sub(to_keyword, text)


class InputError(TrajcloakError, ValueError):
    """A log, release or policy file breaks a rule of ``docs/data-model.md``."""


class RefusedLogError(InputError):
    """A log breaks several rules."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self._reasons = list(map(show_text, reasons))
        listed = " ".join(f"({number}) {reason}." for number, reason in enumerate(reasons, 1))
        super().__init__(f"the log is refused for {len(reasons)} reasons: {listed}")

    @property
    def reasons(self) -> list[str]:
        """A message for each reason, for the command line."""
        return self._reasons

    def __reduce__(self) -> tuple[type["RefusedLogError"], tuple[list[str]]]:
        # Workers of a cluster hand errors on.
        return type(self), (self._reasons,)


class OptionError(TrajcloakError, ValueError):
    """An option or argument has a value that cannot be used."""


class NotEnoughUsersError(TrajcloakError, ValueError):
    """Fewer than k users take part, so nothing can be published."""


class OutputError(TrajcloakError, OSError):
    """An output path exists already, or cannot be written."""


def import_extra(package: str, use: str, extra: str) -> Any:
    """Import a package that is installed with an extra only; raises, with what to install."""
    try:
        return import_module(package)
    except ImportError as error:
        raise OptionError(
            f"{package} is not installed; expected it for {use}; install the extra '{extra}' of "
            f"trajcloak"
        ) from error


class Refusals:
    """Collects what is wrong with a log, besides ``reasons``, so that all is said at once."""

    def __init__(self, reasons: Sequence[str] = ()) -> None:
        self._errors: list[TrajcloakError] = [InputError(reason) for reason in reasons]

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Keep an error about the log, or about an option that does not fit it, for later."""
        try:
            yield
        except (InputError, OptionError) as error:
            self._errors.append(error)

    @property
    def reasons(self) -> list[str]:
        """A message for each, for the command line."""
        return [reason for error in self._errors for reason in error.reasons]

    def check(self) -> None:
        """Raise if anything is wrong."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise RefusedLogError(self.reasons)


class TrajcloakWarning(_ShownMessage, UserWarning):
    """Something is probably meant otherwise; the message says how to ask for that."""


def warn_caller(message: str) -> None:
    """Warn of what is probably meant otherwise, at the line outside the package that asked."""
    package = Path(__file__).parent
    files = [frame.filename for frame in inspect.stack(0)]
    outside = (depth for depth, file in enumerate(files, 1) if package not in Path(file).parents)
    warnings.warn(message, TrajcloakWarning, stacklevel=next(outside, 1))
