"""Every command and option is documented."""

from pathlib import Path

import click

from trajcloak.cli import COMMANDS, cli
from trajcloak.options import ALGORITHMS

README = (Path(__file__).parents[2] / "README.md").read_text()
READING = {
    "user", "time", "lon", "lat", "x", "y", "request", "every", "length", "max-gap", "missing",
}  # fmt: skip


def load(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def list_options(command: click.Command) -> dict[str, click.Option]:
    """Options by their long name."""
    return {
        opt.removeprefix("--"): param
        for param in command.params
        if isinstance(param, click.Option)
        for opt in param.opts
        if opt.startswith("--")
    }


def test_help(run):
    wrong = []
    for name in COMMANDS:
        done = run(name, "--help")
        assert (done.code, done.err) == (0, ""), name
        assert done.out.startswith(f"Usage: trajcloak {name} [OPTIONS]")
        wrong += [(name, opt) for opt in list_options(load(name)) if f"--{opt} " not in done.out]
        wrong += [(name, line) for line in done.out.splitlines() if len(line) > 80]
    assert wrong == []


def test_help_is_grouped_and_short(run):
    long, short = run("anonymize", "--help"), run("anonymize", "-h")
    assert long.out == short.out
    headings = [line for line in long.out.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == [
        "Options:", "Columns of the log:", "Requests:", "Times:", "Places:", "Bad rows:",
        "Bundles:", "Where and how to work:",
    ]  # fmt: skip
    assert run("-h").out == run("--help").out


def test_every_option_says_what_it_is_for():
    assert [
        (name, option)
        for name in COMMANDS
        for option, param in list_options(load(name)).items()
        if not (param.help or "").endswith((".", "]"))
    ] == []


def test_every_command_speaks_to_machines():
    assert [name for name in COMMANDS if "json" not in list_options(load(name))] == []


def test_reading_options_are_the_same_for_all():
    missing = {}
    for name in COMMANDS:
        command = load(name)
        if any(param.name == "log" for param in command.params):
            # `inspect` shows what is missing, whatever is done about it later.
            needed = READING - {"missing"} if name == "inspect" else READING
            missing[name] = needed - set(list_options(command))
    assert len(missing) > 3
    assert not any(missing.values()), missing


def test_readme_mentions_every_command():
    signs = {name: (f"`{name}`", f"\ntrajcloak {name} ") for name in COMMANDS}
    assert [name for name in COMMANDS if not any(sign in README for sign in signs[name])] == []


def test_group_lists_the_commands(run):
    done = run("--help")
    assert (done.code, done.err) == (0, "")
    for name, line in COMMANDS.items():
        assert f"  {name} " in done.out
        assert line in done.out


def test_no_command_shows_the_help(run):
    done = run()
    assert done.code == 2
    assert "Usage: trajcloak [OPTIONS] COMMAND" in done.out + done.err


def test_the_shell_completes_algorithms():
    option = list_options(load("anonymize"))["algorithm"]
    found = option.shell_complete(click.Context(load("anonymize")), "")
    assert [item.value for item in found] == list(ALGORITHMS)
