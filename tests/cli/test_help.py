"""Every command and option is documented."""

from pathlib import Path

import click
import pytest

from trajcloak.cli import COMMANDS, cli

README = (Path(__file__).parents[2] / "README.md").read_text()
READING = {
    "user", "time", "lon", "lat", "x", "y", "request", "every", "length", "max-gap", "missing",
}  # fmt: skip

ALL = pytest.mark.parametrize("name", COMMANDS)


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


@ALL
def test_help(run, name):
    done = run(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: trajcloak {name} [OPTIONS]")
    for option in list_options(load(name)):
        assert f"--{option} " in done.out
    assert max(map(len, done.out.splitlines())) <= 80


@ALL
def test_every_option_says_what_it_is_for(name):
    for option, param in list_options(load(name)).items():
        assert param.help, f"--{option}"
        assert param.help.endswith((".", "]")), f"--{option}"


@ALL
def test_every_command_speaks_to_machines(name):
    assert "json" in list_options(load(name))


@ALL
def test_reading_options_are_the_same_for_all(name):
    command = load(name)
    if any(param.name == "log" for param in command.params):
        # What is missing is what a report shows.
        needed = READING - {"missing"} if name == "inspect" else READING
        assert set(list_options(command)) >= needed


@ALL
def test_readme_mentions(name):
    assert f"`{name}`" in README or f"\ntrajcloak {name} " in README


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
