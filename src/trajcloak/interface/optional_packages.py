"""Packages that only some callers need."""

from importlib import import_module
from typing import Any

from trajcloak.errors import OptionError


def need(name: str) -> Any:
    """Import a package; raises, with what to install, if it is not there."""
    try:
        return import_module(name)
    except ImportError as error:
        raise OptionError(
            f"{name} is not installed; expected it for plots and frames; install it with "
            f"pip install 'trajcloak[frames]'"
        ) from error
