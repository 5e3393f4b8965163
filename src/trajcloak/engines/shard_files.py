"""Files in which shards wait for the next stage.

A call writes one file, which holds the pieces that it made, followed by an index::

    piece | piece | ... | where each piece starts | pieces per chunk | number of starts

A piece is a pickle and, apart from it, the arrays of the value: those of a large piece are
mapped into memory, so that only what is used is loaded. A function that yields several
chunks of pieces writes them one after another and never holds more than one. A file appears
complete or not at all, and a call that is repeated writes the same values again.
"""

import mmap
import os
import pickle
import secrets
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from trajcloak.errors import OutputError
from trajcloak.output import explaining

ALIGNMENT = 64
"""Arrays start at multiples of so many bytes, which compiled code expects."""

MAPPED = 1 << 22
"""Pieces of so many bytes are mapped. Each needs an open file, so smaller ones are read."""

SHORTER = "a file is shorter than it was"
WORD = 8
TAIL_WORDS = 2


@dataclass(frozen=True)
class Piece:
    """Handle of one piece that one call made."""

    stage: Path
    job: int
    number: int

    def read(self) -> Any:
        """Read the value."""
        return next(read_pieces(self.stage / str(self.job), self.number))


@dataclass(frozen=True)
class Pieces(Sequence[Piece]):
    """Handle of the same piece of every call of a stage: a list of values."""

    stage: Path
    num_jobs: int
    number: int

    def __len__(self) -> int:
        return self.num_jobs

    def __getitem__(self, job: Any) -> Any:
        if isinstance(job, slice):
            return [self[i] for i in range(*job.indices(self.num_jobs))]
        return Piece(self.stage, range(self.num_jobs)[job], self.number)

    def read(self) -> list[Any]:
        """Read the values of all calls, chunk after chunk."""
        return [
            value
            for job in range(self.num_jobs)
            for value in read_pieces(self.stage / str(job), self.number)
        ]


def write_chunks(chunks: Iterable[Sequence[Any]], path: Path, *, synced: bool = False) -> None:
    """Write chunks of pieces; each chunk has the same number of them.

    Another try of the same call may be writing the same file. ``synced``: the file survives
    a machine that goes down right after this.
    """
    staging = path.with_name(f"{path.name}.{secrets.token_hex(8)}.unfinished")
    with explained(path.parent):
        try:
            with staging.open("xb") as file:
                _write(chunks, file)
                if synced:
                    file.flush()
                    os.fsync(file.fileno())
            staging.replace(path)
        except BaseException:
            with suppress(OSError):
                staging.unlink()
            raise


def _write(chunks: Iterable[Sequence[Any]], file: BinaryIO) -> None:
    starts = [0]
    width = 0
    for chunk in chunks:
        width = len(chunk)
        for piece in chunk:
            starts.append(_write_piece(piece, file, starts[-1]))
    file.seek(starts[-1])
    file.write(np.array([*starts, width, len(starts)], np.int64).data)


def _write_piece(piece: Any, file: BinaryIO, position: int) -> int:
    """Write a pickle and its arrays at a position; returns where the next piece starts."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(piece, protocol=5, buffer_callback=buffers.append)
    frames = [memoryview(pickled), *(buffer.raw() for buffer in buffers)]
    sizes = np.array([len(frames), *(frame.nbytes for frame in frames)], np.int64)
    for frame in (sizes.data, *frames):
        file.seek(position)
        file.write(frame)
        position = _align(position + frame.nbytes)
    return position


def is_whole(path: Path) -> bool:
    """Whether a file is there, with its index."""
    try:
        with path.open("rb") as file:
            _read_index(file)
    except OSError:
        return False
    return True


def read_pieces(path: Path, number: int) -> Iterator[Any]:
    """Yield a piece of every chunk of a file."""
    with explained(path.parent), path.open("rb") as file:
        starts, width = _read_index(file)
        for place in range(number, len(starts) - 1, width):
            yield _read_piece(file, int(starts[place]), int(starts[place + 1]))


def _read_index(file: BinaryIO) -> tuple[npt.NDArray[np.int64], int]:
    size = os.fstat(file.fileno()).st_size
    file.seek(max(0, size - TAIL_WORDS * WORD))
    tail = np.frombuffer(file.read(TAIL_WORDS * WORD).ljust(TAIL_WORDS * WORD), np.int64)
    width, count = tail.tolist()
    index = size - WORD * (count + TAIL_WORDS)
    if size % WORD or count < 1 or width < 0 or index < 0:
        raise OSError(None, SHORTER)
    file.seek(index)
    starts = np.frombuffer(file.read(WORD * count), np.int64)
    if starts[-1] != index:
        raise OSError(None, SHORTER)
    return starts, max(1, width)


def _read_piece(file: BinaryIO, start: int, stop: int) -> Any:
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
    """Take a part of a file as memory that can be written to without changing the file."""
    if stop - start < MAPPED:
        content = np.empty(stop - start, np.uint8).data
        file.seek(start)
        if file.readinto(content) < stop - start:  # type: ignore[attr-defined]
            raise OSError(None, SHORTER)
        return content
    skipped = start % mmap.ALLOCATIONGRANULARITY
    mapped = mmap.mmap(
        file.fileno(), stop - start + skipped, access=mmap.ACCESS_COPY, offset=start - skipped
    )
    return memoryview(mapped)[skipped:]


def _align(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def remove_folder(folder: Path, *, waits: bool = True) -> None:
    """Remove a folder that a worker may still be writing to: first its name, then its files.

    ``waits``: return when the files are gone. Otherwise a thread removes them: the system takes
    long to free many pages.
    """
    gone = folder.with_name(f"{folder.name}.removed")
    with suppress(OSError):
        folder.rename(gone)
        if waits:
            shutil.rmtree(gone, ignore_errors=True)
        else:
            threading.Thread(target=shutil.rmtree, args=(gone, True)).start()


class Scratch:
    """A private folder, removed when it is closed, garbage collected, or at exit.

    ``parent`` is where to make it: a folder that the workers see under the same path.
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


def explained(folder: Path) -> AbstractContextManager[None]:
    """Turn errors of the operating system into errors with a remedy."""
    return explaining(
        f"{folder.parent}: a value cannot be kept there",
        "expected a folder with free space, which client and workers may read and write under the "
        "same path, and which stays as it is during the run; choose another --scratch",
    )
