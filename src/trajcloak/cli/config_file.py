"""Options of commands from a file, so that they need not be repeated."""

import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from trajcloak.shown_text import show_text

DEFAULT_FILE = "trajcloak.toml"


def load_config(given: str | None, command: click.Command) -> tuple[Path, dict[str, Any]] | None:
    """Read the options of a command from a file.

    Keys of the file are options of any command, such as ``user`` or ``max-gap``; those in a table
    with the name of a command, such as ``[anonymize]``, are for this command alone.

    Parameters
    ----------
    given
        Path of the file. Default: ``trajcloak.toml`` in the working folder, if it is there.
    command

    Returns
    -------
    tuple or None
        The file, and the values by parameter of the command; None if there is no file.
    """
    file = Path(given or DEFAULT_FILE)
    if given is None and not file.is_file():
        return None
    content = _read(file)
    known = _list_options()
    general = {key: value for key, value in content.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in content.items() if isinstance(value, dict)}
    everywhere = {name for names in known.values() for name in names}
    _check_keys(file, "", general, [*everywhere, *known])
    _check_keys(file, "", tables, known)
    for name, table in tables.items():
        _check_keys(file, f" of [{name}]", table, known[name])
    chosen = {**general, **tables.get(command.name or "", {})}
    params = {name_option(param): param for param in command.params}
    values = {}
    for key, value in chosen.items():
        param = params.get(_spell(key))
        if param is not None and param.name is not None:
            values[param.name] = _convert(value, param)
    return file, values


def name_option(param: click.Parameter) -> str:
    """Name an option as the file does: its long name, without dashes in front."""
    return max(param.opts, key=len).lstrip("-")


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise click.UsageError(f"{file}: cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file}: not TOML: {show_text(str(error))}.") from None


def _list_options() -> dict[str, list[str]]:
    """List the options of each command."""
    from trajcloak.cli import COMMANDS, cli

    context = click.Context(cli)
    found = {}
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        found[name] = [
            name_option(param)
            for param in command.params
            if isinstance(param, click.Option) and not param.is_eager
        ]
    return found


def _check_keys(file: Path, where: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise if a key is no option."""
    names = sorted(set(known))
    for key in given:
        if _spell(key) not in names:
            close = get_close_matches(_spell(key), names, 1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"{file}: no such option '{show_text(key)}'{where}.{hint}")


def _spell(key: str) -> str:
    return key.replace("_", "-")


def _convert(value: Any, param: click.Parameter) -> Any:
    """Convert a value to what would be given on the command line."""
    if param.multiple:
        return [str(part) for part in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, bool | int | float) else str(value)
