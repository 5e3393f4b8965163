"""Commands whose options are shown in groups, and may come from a file."""

import tomllib
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import click

from trajcloak.errors import show_text

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

GENERAL = "Options"
COLUMNS = "Columns of the log"
TIMES = "Times"
PLACES = "Places"
BAD_ROWS = "Bad rows"
REQUESTS = "Requests"
BUNDLES = "Bundles"
WORK = "Where and how to work"
GROUPS = (GENERAL, COLUMNS, REQUESTS, TIMES, PLACES, BAD_ROWS, BUNDLES, WORK)
"""In the order in which they are shown."""

DEFAULT_FILE = "trajcloak.toml"


class GroupedOption(click.Option):
    """An option that is shown under the heading of its group, with its default."""

    def __init__(self, *args: Any, group: str = GENERAL, **settings: Any) -> None:
        super().__init__(*args, **{"show_default": "default" in settings, **settings})
        self.group = group


def option(*names: str, group: str = GENERAL, **settings: Any) -> Callable[[F], F]:
    """Add an option to a command, as :func:`click.option` does, in a group."""
    return click.option(*names, cls=GroupedOption, group=group, **settings)


column_option = partial(option, group=COLUMNS)
time_option = partial(option, group=TIMES)
place_option = partial(option, group=PLACES)
row_option = partial(option, group=BAD_ROWS)
request_option = partial(option, group=REQUESTS)
bundle_option = partial(option, group=BUNDLES)
work_option = partial(option, group=WORK)


def combine(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Make one decorator of several, which are applied as if they stood above each other."""

    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


class GroupedCommand(click.Command):
    """A command that shows its options in groups, and takes those of a configuration file."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params.append(
            click.Option(
                ["--config"],
                type=click.Path(),
                is_eager=True,
                expose_value=False,
                callback=_take_config,
                metavar="FILE",
                help="Read options from this file.  [default: trajcloak.toml, if it is there]",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group."""
        for group, records in list_groups(self, ctx).items():
            with formatter.section(group):
                formatter.write_dl(records)


def list_groups(command: click.Command, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """List what the help says about each option, by group."""
    groups: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if record is not None:
            groups[getattr(param, "group", GENERAL)].append(record)
    return {group: records for group, records in groups.items() if records}


def _take_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Let options that are not given have the values of the configuration file, and say so."""
    file = Path(value or DEFAULT_FILE)
    if ctx.resilient_parsing or (value is None and not file.is_file()):
        return
    values = _read_options(file, ctx.command)
    ctx.default_map = {**(ctx.default_map or {}), **values}
    names = [name_option(param) for param in ctx.command.params if param.name in values]
    if names:
        from trajcloak.cli.printing import print_note

        print_note(f"options from {file}: {', '.join(names)}")


def _read_options(file: Path, command: click.Command) -> dict[str, Any]:
    """Read the options of a command from a file, by the command's parameters.

    Keys of the file are options of any command, such as ``user`` or ``max-gap``; those in a table
    with the name of a command, such as ``[anonymize]``, are for this command alone.
    """
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise click.UsageError(f"{file}: cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file}: not TOML: {show_text(str(error))}.") from None
    known = _list_options()
    tables = {name: content.pop(name) for name in known if isinstance(content.get(name), dict)}
    _check_keys(file, "", content, [*chain.from_iterable(known.values()), *known])
    for name, table in tables.items():
        _check_keys(file, f" of [{name}]", table, known[name])
    chosen = {**content, **tables.get(command.name or "", {})}
    params = {name_option(param): param for param in command.params}
    named = [(params.get(_spell(key)), value) for key, value in chosen.items()]
    return {str(param.name): _convert(value, param) for param, value in named if param is not None}


def name_option(param: click.Parameter) -> str:
    """Name an option as the file does: its long name, without dashes in front."""
    return max(param.opts, key=len).lstrip("-")


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
