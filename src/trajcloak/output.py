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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from trajcloak.errors import OutputError

PRIVATE = 0o600
PUBLIC = 0o644
CAN_HOLD_FOLDERS = os.rename in os.supports_dir_fd


def check_new(path: Path) -> None:
    """Raise if a path exists or its folder cannot be written to."""
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


def lock_file(file: TextIO) -> None:
    """Lock an open file; the system frees it when the file is closed or the process ends.

    Raises
    ------
    OSError
        If another process has locked it.
    """
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill; it is renamed to ``path`` at the end.

    If anything fails in between, the folder is removed and ``path`` does not appear.
    """
    check_new(path)
    staging = _staging_name(path)
    with _explained(path), _held(path.parent) as parent:
        os.mkdir(parent.name(staging), dir_fd=parent.fd)
        made = parent.identify(staging)
        try:
            yield staging
            check_new(path)
            parent.check_same(path, staging, made)
            parent.rename(staging, path)
        finally:
            shutil.rmtree(parent.name(staging), ignore_errors=True, dir_fd=parent.fd)


@contextmanager
def new_file(path: Path, mode: int = PUBLIC) -> Iterator[Path]:
    """Yield a file to fill; it is renamed to ``path`` at the end.

    The file is created empty and with its final ``mode`` before anything is written to
    it, so that a private file is private all along.
    """
    check_new(path)
    staging = _staging_name(path)
    with _explained(path), _held(path.parent) as parent:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        os.close(os.open(parent.name(staging), flags, mode, dir_fd=parent.fd))
        made = parent.identify(staging)
        try:
            yield staging
            check_new(path)
            parent.check_same(path, staging, made)
            parent.rename(staging, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(parent.name(staging), dir_fd=parent.fd)


def move(source: Path, path: Path, mode: int = PUBLIC) -> None:
    """Give a finished file or folder its final name; a file may come from another disk.

    ``mode`` is used for a file that has to be copied.
    """
    check_new(path)
    with _explained(path), _held(path.parent) as parent:
        try:
            os.rename(source, parent.name(path), dst_dir_fd=parent.fd)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            with new_file(path, mode) as file:
                shutil.copyfile(source, file)


class _Held:
    """A folder that is held open, so that somebody who replaces its path changes nothing.

    On systems that cannot do that, paths are used as they are.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.fd: int | None = None
        if CAN_HOLD_FOLDERS:
            self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def name(self, path: Path) -> str:
        """Return the name of a path in the folder, for the functions of ``os``."""
        return str(path) if self.fd is None else path.name

    def identify(self, path: Path) -> tuple[int, int]:
        """Return device and inode of a file or folder, which identify it whatever its name."""
        found = os.stat(self.name(path), dir_fd=self.fd, follow_symlinks=False)
        return found.st_dev, found.st_ino

    def check_same(self, path: Path, staging: Path, made: tuple[int, int]) -> None:
        """Raise if the folder or the unfinished output was replaced in the meantime."""
        is_same = self.identify(staging) == made
        if self.fd is not None:
            is_same &= os.path.samestat(self._path.stat(), os.fstat(self.fd))
        if not is_same:
            raise OutputError(
                f"{path}: its folder was exchanged for another while it was written; expected the "
                f"same folder all along; choose one that only you can write to"
            )

    def rename(self, staging: Path, path: Path) -> None:
        """Give an unfinished output its final name."""
        os.rename(self.name(staging), self.name(path), src_dir_fd=self.fd, dst_dir_fd=self.fd)


@contextmanager
def _held(folder: Path) -> Iterator[_Held]:
    held = _Held(folder)
    try:
        yield held
    finally:
        if held.fd is not None:
            os.close(held.fd)


def _staging_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.unfinished")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into an OutputError with a remedy."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror or type(error).__name__}); nothing was "
            f"left behind; check the disk's free space and permissions"
        ) from error
