"""Write files and folders that appear complete or not at all.

Each is written under a hidden name in the same folder and then renamed (invariant 4 of
``docs/guarantee.md``). Nothing is ever overwritten, and no link at the final name is
followed.
"""

import errno
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TextIO

from trajcloak.errors import OutputError

PRIVATE = 0o600
PUBLIC = 0o644


def check_new(path: Path) -> None:
    """Raise if a path exists or its folder cannot be written to."""
    if os.path.lexists(path):
        raise OutputError(
            f"{path}: exists already; expected a new path, nothing is overwritten; "
            f"remove it, or choose another name"
        )
    with _explained(path):
        has_folder = path.parent.is_dir()
    if not has_folder:
        raise OutputError(
            f"{path}: there is no folder {path.parent}; expected one to write into; create it first"
        )
    if not os.access(path.parent, os.W_OK):
        raise OutputError(
            f"{path}: no permission to write into {path.parent}; expected a folder to write into; "
            f"choose another one"
        )


def lock_file(file: TextIO) -> None:
    """Lock an open file until it is closed or the process ends; OSError if another one has."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill; it is renamed to ``path`` at the end, or removed on failure."""
    with _staged(path) as staging:
        staging.mkdir()
        yield staging


@contextmanager
def new_file(path: Path, mode: int = PUBLIC) -> Iterator[Path]:
    """Yield a file, created empty with its final ``mode``; it is renamed to ``path`` at the end."""
    with _staged(path) as staging:
        # Before anything is written: a private file is private all along.
        staging.touch(mode, exist_ok=False)
        yield staging


@contextmanager
def _staged(path: Path) -> Iterator[Path]:
    """Yield a hidden path in the same folder; what is made there is renamed, or removed."""
    check_new(path)
    staging = path.with_name(f".{path.name}.{secrets.token_hex(4)}.unfinished")
    with _explained(path):
        try:
            yield staging
            check_new(path)
            staging.rename(path)
        finally:
            if staging.is_dir():
                shutil.rmtree(staging, ignore_errors=True)
            else:
                staging.unlink(missing_ok=True)


def move(source: Path, path: Path, mode: int = PUBLIC) -> None:
    """Give a finished file or folder its final name; ``mode`` is for a copy from another disk."""
    check_new(path)
    with _explained(path):
        try:
            source.rename(path)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            with new_file(path, mode) as file:
                shutil.copyfile(source, file)
            source.unlink()


def _explained(path: Path) -> AbstractContextManager[None]:
    return explaining(
        f"{path}: cannot be written",
        "nothing was left behind; check the disk's free space and permissions",
    )


@contextmanager
def explaining(problem: str, remedy: str) -> Iterator[None]:
    """Turn errors of the operating system into an OutputError with a remedy."""
    try:
        yield
    except (OutputError, BrokenPipeError):
        raise
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise OutputError(f"{problem} ({cause}); {remedy}") from error
