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
"""

from trajcloak.shown_text import show_text


class TrajcloakError(Exception):
    """Base of all errors that trajcloak raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(show_text(message))


class InputError(TrajcloakError, ValueError):
    """A log, release or policy file breaks a rule of ``docs/data-model.md``."""


class OptionError(TrajcloakError, ValueError):
    """An option or argument has a value that cannot be used."""


class NotEnoughUsersError(TrajcloakError, ValueError):
    """Fewer than k users take part, so nothing can be published."""


class OutputError(TrajcloakError, OSError):
    """An output path exists already, or cannot be written."""
