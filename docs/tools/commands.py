"""Write the reference of the commands, as they describe themselves.

``python -m docs.tools.commands`` (``make reference``) rewrites ``docs/reference/commands.md``; a
test fails where that file is not what the commands say.
"""

import inspect
from pathlib import Path

import click

from trajcloak.cli import COMMANDS, cli

PAGE = Path(__file__).parents[1] / "reference/commands.md"

OPENING = """# Commands

Made from the commands themselves, as `--help` shows them.

Exit codes: 0 done; 2 bad input or usage, and nothing is written; 3 breach found. Every command
shows progress bars on a terminal, and prints one JSON object with `--json`. Nothing is ever
overwritten: an output must be a new path.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(build_page())


def build_page() -> str:
    """Describe every command, in the order of ``trajcloak --help``."""
    group = click.Context(cli, info_name="trajcloak")
    parts = [OPENING, _build_table(["command", "what it does"], _list_commands())]
    for name in COMMANDS:
        command = cli.get_command(group, name)
        assert command is not None
        parts.append(_describe(command, click.Context(command, group, info_name=name)))
    return "\n".join(parts)


def _list_commands() -> list[tuple[str, str]]:
    return [(f"[`{name}`](#trajcloak-{name})", line) for name, line in COMMANDS.items()]


def _describe(command: click.Command, context: click.Context) -> str:
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    records = filter(None, (option.get_help_record(context) for option in options))
    # Brackets would be taken for links.
    rows = [(f"`{names}`", text.replace("[", "\\[")) for names, text in records]
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    return "\n".join(
        [
            f"## trajcloak {context.info_name}\n",
            f"```text\n{usage}\n```\n",
            f"{inspect.cleandoc(command.help or '')}\n",
            _build_table(["option", "meaning"], rows),
        ]
    )


def _build_table(names: list[str], rows: list[tuple[str, str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(_escape(cell) for cell in line)} |\n" for line in lines)


def _escape(cell: str) -> str:
    """Keep a cell on one line, and in its column."""
    return " ".join(cell.split()).replace("|", "\\|")


if __name__ == "__main__":
    main()
