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
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trajcloak.shown_text import show_text


class TrajcloakError(Exception):
    """Base of all errors that trajcloak raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(show_text(message))


class InputError(TrajcloakError, ValueError):
    """A log, release or policy file breaks a rule of ``docs/data-model.md``."""


class RefusedLogError(InputError):
    """A log breaks several rules.

    Attributes
    ----------
    reasons : list of str
        A message for each.
    """

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = list(map(show_text, reasons))
        listed = " ".join(f"({number}) {reason}." for number, reason in enumerate(reasons, 1))
        super().__init__(f"the log is refused for {len(reasons)} reasons: {listed}")

    def __reduce__(self) -> tuple[type["RefusedLogError"], tuple[list[str]]]:
        # Workers of a cluster hand errors on.
        return type(self), (self.reasons,)


class OptionError(TrajcloakError, ValueError):
    """An option or argument has a value that cannot be used."""


class NotEnoughUsersError(TrajcloakError, ValueError):
    """Fewer than k users take part, so nothing can be published."""


class OutputError(TrajcloakError, OSError):
    """An output path exists already, or cannot be written."""


class Refusals:
    """Collects what is wrong with a log, so that all of it is said at once.

    Parameters
    ----------
    reasons
        What is known already, a message for each.
    """

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
        """A message for each."""
        return [
            reason
            for error in self._errors
            for reason in (error.reasons if isinstance(error, RefusedLogError) else [str(error)])
        ]

    def check(self) -> None:
        """Raise if anything is wrong."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise RefusedLogError(self.reasons)


class TrajcloakWarning(UserWarning):
    """Something is probably meant otherwise; the message says how to ask for that."""

    def __init__(self, message: str) -> None:
        super().__init__(show_text(message))
