"""The command line: parses, delegates, prints. It computes nothing itself.

Exit codes: 0 done, 2 bad input or usage (nothing written), 3 breach found.
"""

import importlib
import sys
from typing import Any

import click

from trajcloak.errors import TrajcloakError
from trajcloak.version import __version__

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

COMMANDS = {
    "demo": "Show it all on a generated city.",
    "generate": "Make a request log of a generated city.",
    "anonymize": "Turn a request log into a release.",
    "audit": "Check a release against its log and policy.",
}
"""Every command and its one line of help; each lives in the module of its name."""


class _Commands(click.Group):
    """Loads a command's module only when it is run, so that ``--help`` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"trajcloak.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands)
@click.version_option(__version__, prog_name="trajcloak")
def cli() -> None:
    """Publish location-request logs without giving their senders away."""


def main(args: list[str] | None = None) -> Any:
    """Run the command line; turns every error of ours into a message and exit code 2."""
    try:
        return cli(args, prog_name="trajcloak")
    except TrajcloakError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        click.echo("Interrupted; nothing was written.", err=True)
        sys.exit(EXIT_INTERRUPTED)
