"""What the README tells a newcomer to do works, in the order it is told."""

import re
import shlex
from pathlib import Path

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()
USERS = "600"
"""Fewer than in the README, for speed."""


def read_section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def read_blocks(text: str) -> list[str]:
    return re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_commands_and_python(run, monkeypatch):
    commands = [
        shlex.split(line)
        for block in read_blocks(read_section("On the command line"))
        for line in block.splitlines()
        if line.startswith("trajcloak ")
    ]
    assert [command[1] for command in commands] == ["generate", "anonymize", "audit"]
    for _, *args in commands:
        if "--users" in args:
            args[args.index("--users") + 1] = USERS
        done = run(*args)
        assert (done.code, done.err) == (0, ""), args
    (block,) = read_blocks(read_section("In Python"))
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["report"].passed
    published = {path.name for path in Path().iterdir()}
    assert {"log.parquet", "release", "policy.parquet", "release-2"} <= published
    assert Path("release/bundles.parquet").read_bytes() == (
        Path("release-2/bundles.parquet").read_bytes()
    )


def test_make_targets():
    targets = re.findall(r"^(\w[\w-]*):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    told = re.findall(r"^make (\w+)", read_blocks(README)[0], re.MULTILINE)
    assert told
    assert set(told) <= set(targets)


def test_links():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    assert not [link for link in links if "://" not in link and not (PROJECT / link).exists()]
