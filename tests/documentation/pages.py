"""Blocks of code in README.md and docs/, and what the pages say about running them.

Two marks, as comments that a reader does not see:

- ``<!-- starts with: log.parquet release -->`` at the top of a page: its commands need these,
  which another page made.
- ``<!-- not run: REASON -->`` above a block: it cannot run here.

A command that must fail says so at the end of its line: ``# exit code 3``.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

PROJECT = Path(__file__).parents[2]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]

RUN = ("sh", "python")
"""Languages of blocks that are run."""

SHOWN = ("text", "json", "sql")
"""Languages of blocks that are looked at only."""

FENCE = re.compile(
    r"^(?: *<!-- not run: (?P<reason>.+?) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
NEEDED = re.compile(r"^<!-- starts with: (.+?) -->$", re.MULTILINE)
CODE_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes
    ----------
    language : str
    code : str
    reason : str or None
        Why it is not run.
    """

    language: str
    code: str
    reason: str | None


def name_page(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def read_blocks(text: str) -> list[Block]:
    return [Block(m["language"], dedent(m["code"]), m["reason"]) for m in FENCE.finditer(text)]


def list_needed(text: str) -> list[str]:
    """Names of the files that a page's commands need to be there."""
    return " ".join(NEEDED.findall(text)).split()


def list_spans(text: str) -> list[str]:
    """Code within the lines of a page."""
    return CODE_SPAN.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
