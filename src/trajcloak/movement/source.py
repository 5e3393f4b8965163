"""The files that are read: their bytes, how far reading has got, what was skipped."""

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from trajcloak.errors import InputError
from trajcloak.progress import Progress, silent

STAGE = "converting"
ZIPPED = ".gz"


class Source:
    """The files of one conversion.

    Parameters
    ----------
    files
        The files, in the order in which they are read.
    geographic
        Whether the caller says that planar columns hold longitude and latitude.
    progress
        Told of the stage ``converting``, in bytes.

    Attributes
    ----------
    skipped : Counter
        How many points were skipped, for each reason.
    """

    def __init__(
        self, files: Sequence[Path], *, geographic: bool = False, progress: Progress = silent
    ) -> None:
        self.files = tuple(files)
        self.geographic = geographic
        self.skipped: Counter[str] = Counter()
        self._progress = progress
        self._total = sum(file.stat().st_size for file in files)
        self._done = 0

    def skip(self, reason: str, count: int = 1) -> None:
        """Count points that are not read."""
        if count:
            self.skipped[reason] += count

    def read_chunks(self, file: Path, size: int) -> Iterator[bytes]:
        """Yield the bytes of a file, decompressed, in chunks of ``size``.

        Raises
        ------
        InputError
            If the file cannot be opened, or is damaged.
        """
        try:
            with file.open("rb") as raw, _decompress(file, raw) as stream:
                while chunk := stream.read(size):
                    yield chunk
                    self._progress(STAGE, self._done + raw.tell(), self._total)
        except PermissionError:
            raise InputError(
                f"{file}: cannot be opened; expected permission to read it; ask its owner, or "
                f"change its mode"
            ) from None
        except (OSError, EOFError, zlib.error):
            raise InputError(
                f"{file}: cannot be read to its end; expected a whole file; it is damaged or cut "
                f"off: fetch or make it anew"
            ) from None
        self._done += file.stat().st_size

    def finish(self) -> None:
        """Tell that all has been read."""
        self._progress(STAGE, self._total, self._total)


def strip_suffixes(file: Path) -> str:
    """Name a file without ``.gz`` and without the ending before it."""
    name = file.name
    if name.lower().endswith(ZIPPED):
        name = name[: -len(ZIPPED)]
    return Path(name).stem


def check_one_file_per_user(files: Sequence[Path], name_user: Callable[[Path], str]) -> None:
    """Raise if two files, in folders of their own, name the same user."""
    seen: dict[str, Path] = {}
    for file in files:
        other = seen.setdefault(name_user(file), file)
        if other is not file:
            raise InputError(
                f"{file}: names the same user as {other}; expected one file per user; rename one "
                f"of them, or join them if the user is the same"
            )


def _decompress(file: Path, raw: IO[bytes]) -> IO[bytes] | gzip.GzipFile:
    if file.name.lower().endswith(ZIPPED):
        return gzip.open(raw)
    return raw
