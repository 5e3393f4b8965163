"""Files and folders that appear complete or not at all.

Each is written under a hidden name beside its final one and then renamed
(invariant 4 of ``docs/guarantee.md``). Nothing is ever overwritten.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trajcloak.errors import OutputError

PRIVATE = 0o600
PUBLIC = 0o644


def check_new(path: Path) -> None:
    """Raise unless nothing stands at a path and its folder can be written to."""
    if os.path.lexists(path):
        raise OutputError(
            f"{path}: exists already; expected a new path, nothing is overwritten; "
            f"remove it, or choose another name"
        )
    if not path.parent.is_dir():
        raise OutputError(
            f"{path}: there is no folder {path.parent}; expected one to write into; create it first"
        )
    if not os.access(path.parent, os.W_OK):
        raise OutputError(
            f"{path}: no permission to write into {path.parent}; expected a folder to write into; "
            f"choose another one"
        )


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill, which takes the name ``path`` at the end.

    If anything fails in between, the folder is removed and ``path`` does not appear.
    """
    check_new(path)
    staging = _staging_name(path)
    with _explained(path):
        staging.mkdir()
        try:
            yield staging
            check_new(path)
            staging.rename(path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def new_file(path: Path, mode: int = PUBLIC) -> Iterator[Path]:
    """Yield a file to fill, which takes the name ``path`` at the end.

    The file exists, empty and with its final ``mode``, before anything is written
    to it, so that a private file is private all along.
    """
    check_new(path)
    staging = _staging_name(path)
    with _explained(path):
        os.close(os.open(staging, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        try:
            yield staging
            check_new(path)
            staging.rename(path)
        finally:
            staging.unlink(missing_ok=True)


def _staging_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.unfinished")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into errors with a remedy."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror or type(error).__name__}); nothing was "
            f"left behind; check the disk's free space and permissions"
        ) from error
