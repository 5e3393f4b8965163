"""A log on standard input: ``-`` instead of a path."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

DASH = Path("-")
STORED = "standard-input"
HEAD_BYTES = 64
ARROW_STARTS = (b"ARROW1", b"\xff\xff\xff\xff")


def name_log(path: Path) -> str:
    """Name a log as the command line does."""
    return str(DASH if path.stem == STORED else path)


def take_standard_input(
    ctx: click.Context, param: click.Parameter, value: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Put a file with what comes on standard input in the place of ``-``."""
    if DASH not in value or ctx.resilient_parsing:
        return value
    file = ctx.with_resource(_store())
    return tuple(file if path == DASH else path for path in value)


@contextmanager
def _store() -> Iterator[Path]:
    """Store standard input in a private folder, as long as the command runs."""
    with tempfile.TemporaryDirectory(prefix="trajcloak-") as folder:
        stream = sys.stdin.buffer
        head = stream.read(HEAD_BYTES)
        file = Path(folder, f"{STORED}{_find_suffix(head)}")
        with file.open("wb") as stored:
            stored.write(head)
            shutil.copyfileobj(stream, stored)
        yield file


def _find_suffix(head: bytes) -> str:
    """Recognise the kind of a log by its first bytes."""
    if head.startswith(b"PAR1"):
        return ".parquet"
    if head.startswith(ARROW_STARTS):
        return ".arrow"
    return ".jsonl" if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else ".csv"
