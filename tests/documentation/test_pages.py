"""Every command and every line of Python in README.md and docs/ is run, page by page, in order."""

import shlex

import pytest

from documentation.commands import (
    MOST_ALGORITHMS,
    SCHEDULER,
    Command,
    read_commands,
    run_command,
    shrink,
)
from documentation.pages import (
    PAGES,
    PROJECT,
    RUN,
    SHOWN,
    Block,
    list_needed,
    list_spans,
    name_page,
    read_blocks,
)
from trajcloak.algorithms import build_algorithm
from trajcloak.cli import COMMANDS, cli

ALL_PAGES = pytest.mark.parametrize("page", PAGES, ids=name_page)
WITH_BLOCKS = [
    page
    for page in PAGES
    if any(block.language in RUN and not block.reason for block in read_blocks(page.read_text()))
]

NOT_RUN: dict[str, list[str]] = {}
"""The blocks that cannot run here: the page, and the reasons that it gives."""


@pytest.mark.needs_jit
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_page)
def test_page(page, start, scheduler):
    text = page.read_text()
    start(text)
    address = scheduler() if SCHEDULER in text else SCHEDULER
    names: dict[str, object] = {}
    for block in read_blocks(text):
        if block.reason is not None or block.language not in RUN:
            continue
        if block.language == "python":
            exec(compile(block.code, name_page(page), "exec"), names)
        else:
            for command in read_commands(block.code):
                run_command(command, address)


def test_blocks_that_are_not_run():
    reasons = {
        name_page(page): [block.reason for block in read_blocks(page.read_text()) if block.reason]
        for page in PAGES
    }
    assert {page: found for page, found in reasons.items() if found} == NOT_RUN


@ALL_PAGES
def test_every_block_says_what_it_is(page):
    """So that no command hides in a block of a language that is not run."""
    blocks = read_blocks(page.read_text())
    assert page.read_text().count("```") == 2 * len(blocks), "a block does not end"
    for block in blocks:
        assert block.language in RUN + SHOWN, block
        if block.language in SHOWN and page.name != "commands.md":
            assert not [
                line
                for line in block.code.splitlines()
                if line.startswith(("trajcloak ", "$ ", "make ", "import ", ">>> "))
            ]


@ALL_PAGES
def test_commands_within_lines(page):
    """They name placeholders, so they are not run; commands and options must exist."""
    for span in list_spans(page.read_text()):
        words = span.split()
        if words[0] == "make" and len(words) == 2 and words[1].islower():
            run_command(Command(words))
        if words[0] != "trajcloak" or len(words) == 1:
            continue
        assert words[1] in COMMANDS, span
        known = {opt for param in cli.get_command(None, words[1]).params for opt in param.opts}
        assert {word for word in words[2:] if word.startswith("--")} <= known | {"--help"}, span


@ALL_PAGES
def test_options_within_lines(page):
    known = {
        opt
        for name in COMMANDS
        for param in cli.get_command(None, name).params
        for opt in param.opts
    }
    named = {span.split()[0] for span in list_spans(page.read_text()) if span.startswith("--")}
    assert named <= known | {"--help", "--version"}


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_page)
def test_algorithms_that_are_named_exist(page):
    for block in read_blocks(page.read_text()):
        for command in read_commands(block.code) if block.language == "sh" else []:
            if "--algorithms" in command.words:
                names = command.words[command.words.index("--algorithms") + 1]
                for name in names.split(","):
                    algorithm, _, _ = name.partition(":")
                    assert build_algorithm(algorithm, seed=0)


def test_blocks_are_found():
    text = "a\n```sh\nx\ny\n```\n\n<!-- not run: large -->\n```python\nz\n```\n  ```\n  v\n  ```\n"
    assert read_blocks(text) == [
        Block("sh", "x\ny\n", None),
        Block("python", "z\n", "large"),
        Block("", "v\n", None),
    ]
    assert list_needed("<!-- starts with: a b -->\n# T\n") == ["a", "b"]
    assert list_spans("`a` b `c d`\n```sh\n`e`\n```\n`f`") == ["a", "c d", "f"]
    assert len(WITH_BLOCKS) >= 10
    assert PROJECT / "README.md" in WITH_BLOCKS


def test_commands_are_read_as_a_shell_would():
    code = "# first\nmake demo  # sets up\n\ntrajcloak audit a \\\n    b --x 'c d' # exit code 3\n"
    assert read_commands(code) == [
        Command(["make", "demo"]),
        Command(["trajcloak", "audit", "a", "b", "--x", "c d"], 3),
    ]


@pytest.mark.parametrize(
    ("line", "small"),
    [
        ("generate --users 2000000", "generate --users 600 --junctions 2000"),
        ("generate --users 60", "generate --users 60 --junctions 2000"),
        ("generate --users 9000 --network a.graphml", "generate --users 600 --network a.graphml"),
        ("demo -o d", "demo -o d --users 600"),
        ("utility a b", "utility a b --queries 10"),
        ("utility a b --queries 2000 --seed 1", "utility a b --queries 10 --seed 1"),
        ("compare a --algorithms x,y,z --k 5", "compare a --algorithms x,y --k 5"),
        ("anonymize a -o b --k 50", "anonymize a -o b --k 50"),
    ],
)
def test_commands_run_at_small_sizes(line, small):
    assert MOST_ALGORITHMS == 2
    assert shrink(shlex.split(f"trajcloak {line}")) == shlex.split(f"trajcloak {small}")


@pytest.mark.parametrize(
    "line",
    [
        "make dinner",
        "make",
        "curl example.org",
        "trajcloak audit nothing nowhere --policy none",
        "trajcloak anonymise log",
        "trajcloak --version # exit code 3",
    ],
)
def test_what_does_not_work_is_seen_to_fail(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (command,) = read_commands(line)
    with pytest.raises(AssertionError):
        run_command(command)
