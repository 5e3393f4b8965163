"""Run the commands of a page at small sizes."""

import re
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from documentation.pages import PROJECT
from trajcloak.cli import main

MOST_USERS = 600
MOST_QUERIES = 10
MOST_ALGORITHMS = 2
JUNCTIONS = 2_000

TARGETS = re.findall(r"^(\w[\w-]*):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
EXIT_CODE = re.compile(r"exit code (\d)")
SCHEDULER = "tls://scheduler:8786"
"""How pages call the cluster's scheduler; the tests know its address."""

ACTIVATE = ". .venv/bin/activate"
"""What the environment of the tests stands for."""


@dataclass(frozen=True)
class Command:
    """One line of a block, and the exit code that it must have."""

    words: list[str]
    code: int = 0


def read_commands(code: str) -> list[Command]:
    """Read the lines of a block as a shell would, without what it would expand."""
    commands = []
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        told = EXIT_CODE.search(line.partition(" # ")[2])
        if words:
            commands.append(Command(words, int(told[1]) if told else 0))
    return commands


def shrink(words: Sequence[str]) -> list[str]:
    """Make a command small: fewer users, junctions, questions and algorithms.

    The first algorithms that are named run; that the others exist is another test's matter.
    """
    words = list(words)
    if words[1] in ("generate", "demo"):
        _cap(words, "--users", MOST_USERS, is_needed=True)
    if words[1] == "generate" and "--network" not in words:
        _cap(words, "--junctions", JUNCTIONS, is_needed=True)
    if words[1] == "utility":
        _cap(words, "--queries", MOST_QUERIES, is_needed=True)
    if "--algorithms" in words:
        at = words.index("--algorithms") + 1
        words[at] = ",".join(words[at].split(",")[:MOST_ALGORITHMS])
    return words


def _cap(words: list[str], option: str, most: int, *, is_needed: bool) -> None:
    if option in words:
        at = words.index(option) + 1
        words[at] = str(min(int(words[at]), most))
    elif is_needed:
        words += [option, str(most)]


def run_command(command: Command, scheduler: str = SCHEDULER) -> None:
    """Run a command of ours in this process; look up one of make.

    ``scheduler`` is the address of the one that pages speak of.
    """
    program, *args = command.words
    if program == "make":
        unknown = {word for word in args if "=" not in word} - set(TARGETS)
        assert args
        assert not unknown, f"the Makefile does not know {unknown}"
    elif program == "trajcloak":
        words = [scheduler if word == SCHEDULER else word for word in command.words]
        with ExitStack() as stack:
            if "<" in words:
                words, (file,) = words[: words.index("<")], words[words.index("<") + 1 :]
                patch = stack.enter_context(pytest.MonkeyPatch.context())
                patch.setattr("sys.stdin", stack.enter_context(Path(file).open()))
            with pytest.raises(SystemExit) as stopped:
                main(shrink(words)[1:])
        code = stopped.value.code
        assert code == command.code, f"{shlex.join(command.words)}: exit code {code}"
    else:
        assert shlex.join(command.words) == ACTIVATE, f"no test runs {program}"
