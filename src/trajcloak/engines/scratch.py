"""Values that wait in files for the next stage, so that no worker has to hold them.

A job writes one file, which holds the pieces that it made::

    where each piece starts | piece | piece | ...

A piece is a pickle and, apart from it, the arrays of the value: those of a large piece are
mapped into memory, so that only what is looked at is loaded. A file appears complete or not
at all, and a job that is run again writes the same values anew.
"""

import mmap
import os
import pickle
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, overload

import numpy as np

from trajcloak.errors import OutputError

ALIGNMENT = 64
"""Arrays start at multiples of so many bytes, which compiled code expects."""

MAPPED = 1 << 22
"""Pieces of so many bytes are mapped; each takes a file that is open, so smaller ones are read."""


@dataclass(frozen=True, eq=False)
class Stage:
    """The files of one stage: its folder is removed when nobody refers to it any more.

    That is true of the original alone; a worker gets a copy, which removes nothing.
    """

    folder: Path

    def get_file(self, job: int) -> Path:
        """Name the file of a job."""
        return self.folder / str(job)


@dataclass(frozen=True)
class Piece:
    """A handle: one piece of one job."""

    stage: Stage
    job: int
    number: int

    def read(self) -> Any:
        """Read the value."""
        return read_piece(self.stage.get_file(self.job), self.number)


@dataclass(frozen=True)
class Pieces(Sequence[Piece]):
    """A handle: the same piece of every job of a stage, a list of values."""

    stage: Stage
    num_jobs: int
    number: int

    def __len__(self) -> int:
        return self.num_jobs

    @overload
    def __getitem__(self, job: int) -> Piece: ...

    @overload
    def __getitem__(self, job: slice) -> list[Piece]: ...

    def __getitem__(self, job: int | slice) -> Piece | list[Piece]:
        if isinstance(job, slice):
            return [self[i] for i in range(*job.indices(self.num_jobs))]
        return Piece(self.stage, range(self.num_jobs)[job], self.number)

    def read(self) -> list[Any]:
        """Read the values."""
        return [piece.read() for piece in self]


class Scratch:
    """A private folder for the values of a run, which is removed with all that is in it.

    It goes when it is closed, when nobody refers to it any more, or when this process ends.

    Parameters
    ----------
    parent
        Where to make it: a folder that the workers see under the same path.

    Raises
    ------
    OutputError
        If it cannot be made there.
    """

    def __init__(self, parent: Path) -> None:
        try:
            made = tempfile.mkdtemp(dir=parent.absolute(), prefix=".trajcloak-", suffix=".scratch")
        except OSError as error:
            raise OutputError(
                f"{parent}: no scratch folder can be made in it ({error.strerror}); expected a "
                f"folder to write into that the workers see, too; choose another --scratch"
            ) from None
        self.folder = Path(made)
        self.close = weakref.finalize(self, remove_folder, self.folder)

    def new_stage(self) -> Stage:
        """Make a folder for the files of a stage."""
        folder = self.folder / secrets.token_hex(8)
        with explained(folder):
            folder.mkdir()
        stage = Stage(folder)
        weakref.finalize(stage, remove_folder, folder)
        return stage


def remove_folder(folder: Path) -> None:
    """Remove a folder into which somebody may be writing yet: first the name, then the files."""
    gone = folder.with_name(f"{folder.name}.removed")
    with suppress(OSError):
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def write_pieces(pieces: Sequence[Any], path: Path) -> None:
    """Write the values that a job made; another try of the same job may be doing so, too."""
    staging = path.with_name(f"{path.name}.{secrets.token_hex(8)}.unfinished")
    with explained(path.parent):
        try:
            with staging.open("xb") as file:
                _write(pieces, file)
            staging.replace(path)
        except BaseException:
            with suppress(OSError):
                staging.unlink()
            raise


def _write(pieces: Sequence[Any], file: BinaryIO) -> None:
    starts = np.empty(len(pieces) + 1, np.int64)
    position = _align(starts.nbytes)
    for number, piece in enumerate(pieces):
        starts[number] = position
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(piece, protocol=5, buffer_callback=buffers.append)
        frames = [memoryview(pickled), *(buffer.raw() for buffer in buffers)]
        sizes = np.array([len(frames), *(frame.nbytes for frame in frames)], np.int64)
        for frame in (sizes.data, *frames):
            file.seek(position)
            file.write(frame)
            position = _align(position + frame.nbytes)
    starts[-1] = position
    file.truncate(position)
    file.seek(0)
    file.write(starts.data)


def read_piece(path: Path, number: int) -> Any:
    """Read one of the values that a job made."""
    with explained(path.parent), path.open("rb") as file:
        file.seek(number * np.dtype(np.int64).itemsize)
        start, stop = np.frombuffer(file.read(16).ljust(16), np.int64).tolist()
        if os.fstat(file.fileno()).st_size < stop:
            raise OSError(None, "a file is shorter than it was")
        content = _load(file, start, stop)
    sizes = content[: content[:8].cast("q")[0] * 8 + 8].cast("q").tolist()
    position = _align(8 * len(sizes))
    frames = []
    for size in sizes[1:]:
        frames.append(content[position : position + size])
        position = _align(position + size)
    # The folder is private: nobody else can have written the file.
    return pickle.loads(frames[0], buffers=frames[1:])  # noqa: S301


def _load(file: BinaryIO, start: int, stop: int) -> memoryview:
    """Take a part of a file that can be written to, without a change to the file."""
    if stop - start < MAPPED:
        content = np.empty(stop - start, np.uint8).data
        file.seek(start)
        file.readinto(content)  # type: ignore[attr-defined]
        return content
    skipped = start % mmap.ALLOCATIONGRANULARITY
    mapped = mmap.mmap(
        file.fileno(), stop - start + skipped, access=mmap.ACCESS_COPY, offset=start - skipped
    )
    return memoryview(mapped)[skipped:]


def _align(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn errors of the operating system into errors with a remedy."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{folder.parent}: a value cannot be kept there ({error.strerror or error}); expected "
            f"a folder with free space, which client and workers may read and write under the same "
            f"path, and which stays as it is during the run; choose another --scratch"
        ) from error
