"""The formats, by name: which files are theirs, and who reads them."""

import glob
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pyarrow as pa

from trajcloak.errors import InputError, OptionError
from trajcloak.log.files import LogPath
from trajcloak.movement import brinkhoff, cabs, geolife, gpx, sumo
from trajcloak.movement.source import ZIPPED, Source


@dataclass(frozen=True)
class Format:
    """A format of movement data.

    Parameters
    ----------
    patterns
        Names of its files, in small letters and without ``.gz``; which files of a
        folder are read.
    is_told_by_name
        Whether a file of such a name can only be of this format.
    read
        Yields the columns of a log, some rows at a time.
    """

    patterns: tuple[str, ...]
    is_told_by_name: bool
    read: Callable[[Source], Iterator[pa.RecordBatch]]

    def fits(self, file: Path) -> bool:
        """Whether a file has such a name."""
        name = file.name.lower().removesuffix(ZIPPED)
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


FORMATS = {
    "brinkhoff": Format(("*.txt", "*.dat"), False, brinkhoff.read),
    "sumo": Format(("*.xml",), True, sumo.read),
    "geolife": Format(("*.plt",), True, geolife.read),
    "cabs": Format(("new_*.txt",), True, cabs.read),
    "gpx": Format(("*.gpx",), True, gpx.read),
}
GEOGRAPHIC_BY_OPTION = ("sumo",)
"""Formats whose coordinates are of a kind that the caller may have to tell."""


def check_source(source: LogPath) -> None:
    """Raise unless something is named to read."""
    if not isinstance(source, str | Path | Sequence):
        raise OptionError(
            f"the source is given as {type(source).__name__}; expected paths of files; write it "
            f"to a file first"
        )
    if not isinstance(source, str | Path) and not source:
        raise InputError("no source is given; expected a file, a folder or a glob; name one")


def choose_format(source: LogPath, name: str | None) -> str:
    """Check the name of a format, or tell the format by the names of the files.

    Raises
    ------
    OptionError
        If the format is not known, or the names do not tell it.
    """
    if name is not None:
        if name not in FORMATS:
            raise OptionError(
                f"format '{name}' is not known; expected one of {', '.join(FORMATS)}; pass --format"
            )
        return name
    files = _walk(source)
    found = [
        name
        for name, format_ in FORMATS.items()
        if format_.is_told_by_name and any(map(format_.fits, files))
    ]
    if len(found) != 1:
        what = f"fit several formats ({', '.join(found)})" if found else "do not tell their format"
        raise OptionError(
            f"{_show(source)}: the names of the files {what}; expected to be told one of "
            f"{', '.join(FORMATS)}; pass --format"
        )
    return found[0]


def list_files(source: LogPath, name: str) -> list[Path]:
    """List the files to read, folders in order of their names.

    Of a folder, and the folders in it, those with a name of the format; a file that
    is named itself, or by a glob, whatever it is called.
    """
    files = _walk(source, FORMATS[name])
    if not files:
        raise InputError(
            f"{_show(source)}: no files of the format '{name}' found; expected names such as "
            f"{' or '.join(FORMATS[name].patterns)}; name the files, or check the path"
        )
    return files


def _walk(source: LogPath, format_: Format | None = None) -> list[Path]:
    if not isinstance(source, str | Path):
        return [file for part in source for file in _walk(part, format_)]
    path = Path(source)
    if path.is_dir():
        return sorted(
            file
            for file in path.rglob("*")
            if (format_ is None or format_.fits(file))
            and file.is_file()
            and not any(part.startswith(".") for part in file.relative_to(path).parts)
        )
    if path.exists():
        return [path]
    found = sorted(glob.glob(str(source), recursive=True))
    if not found:
        raise InputError(
            f"{source}: nothing found; expected a file, a folder or a glob; check the path"
        )
    return [file for name in found for file in _walk(Path(name), format_)]


def _show(source: LogPath) -> str:
    parts: Sequence[str | Path] = [source] if isinstance(source, str | Path) else source
    return ", ".join(map(str, parts[:3])) + (", ..." if len(parts) > 3 else "")
