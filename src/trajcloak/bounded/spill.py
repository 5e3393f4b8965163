"""Rows on disk: files that rows are appended to, and that are read as a whole."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.errors import OutputError

Columns = dict[str, npt.NDArray[Any]]


class Spill:
    """Some files of rows, all with the same columns.

    A file is a sequence of blocks: how many rows, and then column after column.

    Parameters
    ----------
    folder
        Empty, or filled before.
    types
        The columns of a row.
    sizes
        How many rows each file has.
    """

    def __init__(
        self, folder: Path, types: Mapping[str, npt.DTypeLike], sizes: Sequence[int]
    ) -> None:
        self.folder = folder
        self._types = {name: np.dtype(type_) for name, type_ in types.items()}
        self.sizes = list(sizes)

    def append(self, number: int, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Append rows to a file."""
        size = len(next(iter(columns.values())))
        if not size:
            return
        with self._path(number).open("ab") as file:
            file.write(np.int64(size).tobytes())
            for name, type_ in self._types.items():
                file.write(np.ascontiguousarray(columns[name], type_).data)
        self.sizes[number] += size

    def load(self, number: int) -> Columns:
        """Read all rows of a file."""
        size = self.sizes[number]
        columns: Columns = {name: np.empty(size, type_) for name, type_ in self._types.items()}
        if not size:
            return columns
        start = 0
        with self._path(number).open("rb") as file:
            while start < size:
                rows = int(np.frombuffer(file.read(8), np.int64)[0])
                for column in columns.values():
                    part = column[start : start + rows]
                    if file.readinto(part.view(np.uint8)) != part.nbytes:  # type: ignore[arg-type]
                        raise self._damaged(number)
                start += rows
        return columns

    def check(self) -> None:
        """Raise unless all files are as long as they should be."""
        row = sum(type_.itemsize for type_ in self._types.values())
        for number, size in enumerate(self.sizes):
            found = self._path(number).stat().st_size if size else 0
            if found < size * row:
                raise self._damaged(number)

    def _damaged(self, number: int) -> OutputError:
        return OutputError(
            f"{self._path(number)}: is shorter than it was; expected the work of the interrupted "
            f"run; remove the folder {self.folder.parent}, and start anew"
        )

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.rows"
