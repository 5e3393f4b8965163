"""Every command and every line of Python in README.md and docs/ is run, page by page, in order."""

import shlex
import signal
from collections.abc import Callable, Iterable, Iterator

import pytest

from documentation.commands import (
    MOST_ALGORITHMS,
    SCHEDULER,
    TARGETS,
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
from trajcloak.cli import COMMANDS, cli
from trajcloak.options import ALGORITHMS

WITH_BLOCKS = [
    page
    for page in PAGES
    if any(block.language in RUN and not block.reason for block in read_blocks(page.read_text()))
]
TO_RUN = [
    pytest.param(
        page,
        id=name_page(page),
        marks=[pytest.mark.cluster] if SCHEDULER in page.read_text() else [],
    )
    for page in WITH_BLOCKS
]

COMMAND_STARTS = ("trajcloak ", "$ ", "make ", "import ", ">>> ")
"""How a line starts that should be in a block that is run."""

NOT_RUN: dict[str, list[str]] = {}
"""The blocks that cannot run here: the page, and the reasons that it gives."""


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C as before: a Spark session that a page starts takes it over for good."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


# pyspark leaves a socket open for each job.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("interrupts")
@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.parametrize("page", TO_RUN)
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


def find_on_pages(find: Callable[[str], Iterable[object]]) -> dict[str, list[object]]:
    """What ``find`` finds in the text of each page, of those where it finds something."""
    found = {name_page(page): list(find(page.read_text())) for page in PAGES}
    return {name: items for name, items in found.items() if items}


def list_unclear_blocks(text: str) -> Iterator[object]:
    """Blocks that do not end or name no known language, commands in blocks that are not run."""
    blocks = read_blocks(text)
    if text.count("```") != 2 * len(blocks):
        yield "a block does not end"
    for block in blocks:
        if block.language not in RUN + SHOWN:
            yield block
        if block.language in SHOWN:
            yield from (line for line in block.code.splitlines() if line.startswith(COMMAND_STARTS))


def list_unknown_commands(text: str) -> Iterator[str]:
    """Commands within the lines of a page that do not exist, or have an option that does not."""
    for span in list_spans(text):
        words = span.split()
        if words[0] == "make" and len(words) == 2 and words[1].islower():
            if words[1] not in TARGETS:
                yield span
        elif words[0] == "trajcloak" and len(words) > 1:
            options = {word for word in words[2:] if word.startswith("--")}
            if words[1] not in COMMANDS or not options <= list_options(words[1]) | {"--help"}:
                yield span


def list_options(command: str) -> set[str]:
    return {opt for param in cli.get_command(None, command).params for opt in param.opts}


def list_unknown_options(text: str) -> set[str]:
    """Options within the lines of a page that no command has."""
    known = set().union(*map(list_options, COMMANDS), {"--help", "--version"})
    return {span.split()[0] for span in list_spans(text) if span.startswith("--")} - known


def list_unknown_algorithms(text: str) -> Iterator[str]:
    for block in read_blocks(text):
        for command in read_commands(block.code) if block.language == "sh" else []:
            if "--algorithms" in command.words:
                names = command.words[command.words.index("--algorithms") + 1]
                yield from (
                    name for name in names.split(",") if name.partition(":")[0] not in ALGORITHMS
                )


def test_every_block_says_what_it_is():
    """So that no command hides in a block of a language that is not run."""
    found = find_on_pages(list_unclear_blocks)
    found.pop("docs/reference/commands.md", None)
    assert found == {}


def test_commands_within_lines():
    """They name placeholders, so they are not run; commands and options must exist."""
    assert find_on_pages(list_unknown_commands) == {}
    assert find_on_pages(list_unknown_options) == {}


def test_algorithms_that_are_named_exist():
    assert find_on_pages(list_unknown_algorithms) == {}


@pytest.mark.parametrize(
    ("find", "text", "found"),
    [
        (list_unclear_blocks, "```text\nmake demo\n```\n", ["make demo"]),
        (list_unclear_blocks, "```\nx\n```\n", [Block("", "x\n", None)]),
        (list_unclear_blocks, "```sh\nx\n", ["a block does not end"]),
        (list_unknown_commands, "`make dinner`, `make demo`", ["make dinner"]),
        (list_unknown_commands, "`trajcloak cook`", ["trajcloak cook"]),
        (list_unknown_commands, "`trajcloak audit --salt`", ["trajcloak audit --salt"]),
        (list_unknown_options, "`--salt 3`, `--k 3`", ["--salt"]),
        (list_unknown_algorithms, "```sh\nx --algorithms a:b,traj-anon:u\n```\n", ["a:b"]),
    ],
)
def test_what_is_wrong_on_a_page_is_found(find, text, found):
    assert list(find(text)) == found


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
