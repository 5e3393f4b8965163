"""Write the reference of the commands, as they describe themselves.

``python -m docs.tools.commands`` (``make reference``) rewrites ``docs/reference/commands.md``; a
test fails where that file is not what the commands say.
"""

import inspect
from pathlib import Path

import click

from trajcloak.cli import COMMANDS, cli
from trajcloak.cli.grouped import list_groups

PAGE = Path(__file__).parents[1] / "reference/commands.md"

OPENING = r"""# Commands

This page is made from the commands themselves, and says what `--help` shows.

Exit codes: 0 done; 2 bad input or usage, and nothing is written; 3 breach found; 130 interrupted
(Ctrl-C). Commands that take long show progress bars on a terminal. With `--json`, a command prints
one JSON object. Nothing is ever overwritten: an output must be a new path. `python -m trajcloak` is
the same as `trajcloak`, `-h` the same as `--help`. `-` instead of a log stands for standard input,
compressed or not.

## Options from a file

Options that are the same in every command may stand in `trajcloak.toml` in the working folder, or
in a file that `--config` names. Keys are the long names of options. Keys in a table are for the
command that the table is named after. Options on the command line take precedence, and each run
says which options come from the file.

```toml
user = "device"
time = "sent_at"
request = ["category", "detail"]
tz = "Europe/Berlin"
k = 50

[anonymize]
every = "60s"
drop = ["empty"]
```

## Completion in the shell

Let the shell complete commands, options and their values:

| startup file | to be added |
| --- | --- |
| `~/.bashrc` | `eval "$(_TRAJCLOAK_COMPLETE=bash_source trajcloak)"` |
| `~/.zshrc` | `eval "$(_TRAJCLOAK_COMPLETE=zsh_source trajcloak)"` |
| `~/.config/fish/config.fish` | `_TRAJCLOAK_COMPLETE=fish_source trajcloak \| source` |

## All commands
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(build_page())


def build_page() -> str:
    """Describe every command, in the order of ``trajcloak --help``."""
    group = click.Context(cli, info_name="trajcloak", **cli.context_settings)
    parts = [OPENING, _build_table(["command", "what it does"], _list_commands())]
    for name in COMMANDS:
        command = cli.get_command(group, name)
        assert command is not None
        parts.append(_describe(command, click.Context(command, group, info_name=name)))
    return "\n".join(parts)


def _list_commands() -> list[tuple[str, str]]:
    return [(f"[`{name}`](#trajcloak-{name})", line) for name, line in COMMANDS.items()]


def _describe(command: click.Command, context: click.Context) -> str:
    tables = []
    for group, records in list_groups(command, context).items():
        # Brackets would be taken for links.
        rows = [(f"`{names}`", text.replace("[", "\\[")) for names, text in records]
        tables.append(f"**{group}**\n\n{_build_table(['option', 'meaning'], rows)}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    return "\n".join(
        [
            f"## trajcloak {context.info_name}\n",
            f"```text\n{usage}\n```\n",
            f"{inspect.cleandoc(command.help or '')}\n",
            *tables,
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
