"""A log on standard input: ``-`` instead of a path."""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

DASH = Path("-")
STORED = "standard-input"
HEAD_BYTES = 64
STARTS = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\xff\xff\xff\xff": ".arrow"}
PACKED_STARTS = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}


def name_log(path: Path) -> str:
    """Name a log as the command line does."""
    return str(DASH if path.name.startswith(f"{STORED}.") else path)


def name_in_messages(text: str) -> str:
    """Name standard input in a message, not the file that holds it."""
    return re.sub(rf"\S*/{STORED}[\w.]*", "standard input", text)


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
        file = Path(folder, STORED)
        with file.open("wb") as stored:
            shutil.copyfileobj(sys.stdin.buffer, stored)
        yield _name_by_content(file)


def _name_by_content(file: Path) -> Path:
    """Give a file the suffixes of its kind, and of how it is compressed."""
    from trajcloak.log.formats import open_text

    with file.open("rb") as stored:
        head = stored.read(HEAD_BYTES)
    packed = next((end for end, start in PACKED_STARTS.items() if head.startswith(start)), "")
    if packed:
        file = file.rename(f"{file}{packed}")
        # What is damaged is refused when it is read.
        with suppress(OSError), open_text(file) as unpacked:
            head = unpacked.read(HEAD_BYTES)
    return file.rename(file.with_name(f"{STORED}{_find_suffix(head)}{packed}"))


def _find_suffix(head: bytes) -> str:
    """Recognise the kind of a log by its first bytes."""
    text = ".jsonl" if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else ".csv"
    return next((end for start, end in STARTS.items() if head.startswith(start)), text)
