"""The command line: parses, delegates, prints. It computes nothing itself.

Exit codes: 0 done, 2 bad input or usage (nothing written), 3 breach found.
"""

import gc
import importlib
import io
import os
import sys
import warnings
from typing import Any

import click

from trajcloak.errors import TrajcloakError, TrajcloakWarning, show_text
from trajcloak.version import __version__

EXIT_BAD_INPUT = 2
EXIT_BREACH = 3
EXIT_INTERRUPTED = 130

COMMANDS = {
    "demo": "Show it all on a generated city.",
    "generate": "Make a request log of people who move on roads.",
    "convert": "Turn movement data of other formats into a log.",
    "inspect": "Report on a log, and propose instants, windows and bundles.",
    "anonymize": "Turn a request log into a release.",
    "stream": "Publish reports and requests while they arrive.",
    "audit": "Check a release against its log and policy.",
    "attack": "See what attackers learn from snapshot policies and from bundles.",
    "compare": "Show cost and time of algorithms side by side.",
    "query": "Ask a release how many users were where, with bounds.",
    "report": "Show a release on one page: map, guarantee, figures.",
    "utility": "Measure how well a release answers questions.",
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

    def invoke(self, ctx: click.Context) -> Any:
        # Inside click's own handler, which would say "Aborted!" and exit with 1.
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            left = str(error) or "nothing unfinished was left behind"
            click.echo(f"Interrupted; {show_text(left)}.", err=True)
            sys.exit(EXIT_INTERRUPTED)
        except click.UsageError as error:
            message = error.format_message()
            if show_text(message) == message:
                raise
            raise click.UsageError(show_text(message), error.ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands,
    commands=dict.fromkeys(COMMANDS),  # Names that are proposed where one is mistyped.
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="trajcloak")
def cli() -> None:
    """Publish location-request logs without giving their senders away."""


def main(args: list[str] | None = None) -> Any:
    """Run the command line; turns every error of ours into a message and exit code 2."""
    # Before numpy is imported. Most arrays of a command are filled once, where huge pages save
    # little; on a virtual machine that returns free memory to its host, they cost seconds.
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    # The compiler of kernels makes millions of small objects and keeps most of them: to look for
    # garbage among them as often as Python does takes a seventh of its time.
    gc.set_threshold(50_000)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a character is no reason to stop after the work is done.
        sys.stdout.reconfigure(errors="replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TrajcloakWarning)
            warnings.showwarning = _show_warning
            return cli(args, prog_name="trajcloak")
    except TrajcloakError as error:
        from trajcloak.cli.printing import print_error

        print_error(error)
        sys.exit(EXIT_BAD_INPUT)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as a note."""
    from trajcloak.cli.printing import print_note

    print_note(message.with_options if isinstance(message, TrajcloakWarning) else str(message))
