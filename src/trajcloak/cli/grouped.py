"""Commands whose options are shown in groups, and may come from a file."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from trajcloak.cli.config_file import load_config, name_option

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

FROM_CONFIG = "trajcloak.config"


class GroupedOption(click.Option):
    """An option that belongs to a group.

    Parameters
    ----------
    group
        Heading that it is shown under.
    """

    def __init__(self, *args: Any, group: str = GENERAL, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.group = group


def option(*names: str, group: str = GENERAL, **settings: Any) -> Callable[[F], F]:
    """Add an option to a command, as :func:`click.option` does, in a group."""
    return click.option(*names, cls=GroupedOption, group=group, **settings)


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

    def invoke(self, ctx: click.Context) -> Any:
        """Say which options come from a file, and run the command."""
        if FROM_CONFIG in ctx.meta:
            from trajcloak.cli.common import print_note

            file, names = ctx.meta[FROM_CONFIG]
            print_note(f"options from {file}: {', '.join(names)}")
        return super().invoke(ctx)

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
    """Let options that are not given have the values of the configuration file."""
    if ctx.resilient_parsing:
        return
    found = load_config(value, ctx.command)
    if found is None:
        return
    file, values = found
    ctx.default_map = {**(ctx.default_map or {}), **values}
    names = [name_option(param) for param in ctx.command.params if param.name in values]
    if names:
        ctx.meta[FROM_CONFIG] = file, names
