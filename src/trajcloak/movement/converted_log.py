"""Convert movement data to a log: find the format, list the files, write the rows."""

import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError, OptionError
from trajcloak.log.file_columns import LogPath
from trajcloak.log.write import ROWS_PER_GROUP, check_log_path, log_writer
from trajcloak.movement.movement_source import ZIPPED, MovementSource
from trajcloak.movement.text_formats import (
    read_brinkhoff_points,
    read_cab_points,
    read_geolife_points,
)
from trajcloak.movement.xml_formats import read_gpx_points, read_sumo_points
from trajcloak.progress import Heard, listening


@dataclass(frozen=True)
class Format:
    """A format of movement data."""

    # Names of its files, in lower case and without ``.gz``; only such files of a folder are read.
    patterns: tuple[str, ...]
    has_unique_names: bool  # Whether a file with such a name can only be of this format.
    read: Callable[[MovementSource], Iterator[pa.RecordBatch]]  # Yields batches of the log's rows.

    def fits(self, file: Path) -> bool:
        """Whether a file's name matches one of the patterns."""
        name = file.name.lower().removesuffix(ZIPPED)
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


FORMATS = {
    "brinkhoff": Format(("*.txt", "*.dat"), False, read_brinkhoff_points),
    "sumo": Format(("*.xml",), True, read_sumo_points),
    "geolife": Format(("*.plt",), True, read_geolife_points),
    "cabs": Format(("new_*.txt",), True, read_cab_points),
    "gpx": Format(("*.gpx",), True, read_gpx_points),
}


@dataclass(frozen=True)
class ConvertedLog:
    """What a converted log holds, and what was left out.

    Parameters
    ----------
    format
        Name of the format that was read.
    files
        Number of files that were read.
    rows, users
        How many rows and users the log has.
    skipped
        Points that were skipped, by reason; reasons without any are left out.
    columns
        The columns of the log.
    """

    format: str
    files: int
    rows: int
    users: int
    skipped: Mapping[str, int]
    columns: tuple[str, ...]


def convert_log(
    source: LogPath,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    geographic: bool = False,
    progress: Heard = False,
) -> ConvertedLog:
    r"""Write movement data of another format as a log.

    The formats, and the columns that each gives, are listed in
    ``docs/data-model.md``. Rows come in the order of the files.

    Parameters
    ----------
    source
        A file, a glob, a folder (with the folders in it), or a list of those;
        files may be compressed (``.gz``).
    path
        The file to write: ``.parquet`` or ``.csv``. It must not exist; it
        appears complete or not at all.
    format
        ``brinkhoff``, ``sumo``, ``geolife``, ``cabs`` or ``gpx``. Default: found from the
        names of the files.
    geographic
        Whether x and y of ``sumo`` are longitude and latitude. Default: what the comment
        at the top of the file says; planar if it says nothing.
    progress
        True: show bars; or a function that is called with the stage ``converting``, in bytes.

    Returns
    -------
    ConvertedLog
        The counts.

    Raises
    ------
    InputError
        If a file cannot be read or a point breaks a rule of its format; nothing
        is written.
    OptionError
        If the format is not known or cannot be found, or ``path`` has an unknown ending.
    OutputError
        If ``path`` exists or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cab = Path(folder, "new_ab.txt")
    ...     _ = cab.write_text("45.25 -93.25 0 1500000087\n45.26 -93.26 1 1500000059\n")
    ...     log = convert_log(cab, f"{folder}/log.parquet")
    >>> log.format, log.rows, log.users
    ('cabs', 2, 1)
    """
    path = Path(path)
    check_log_path(path)
    name = choose_format(source, format)
    if geographic and name != "sumo":
        raise OptionError(
            f"geographic is asked for with format '{name}', whose coordinates are always of one "
            "kind; expected it with sumo only; leave it out"
        )
    files = list_movement_files(source, name)
    with listening(progress) as heard:
        return _write_log(path, name, MovementSource(files, geographic=geographic, progress=heard))


def _write_log(path: Path, name: str, source: MovementSource) -> ConvertedLog:
    tables = _join_batches(FORMATS[name].read(source))
    first = next(tables, None)
    if first is None:
        skipped = [f"{reason.replace('_', ' ')}: {n:,}" for reason, n in source.skipped.items()]
        raise InputError(
            f"{source.files[0]}: no points found in {len(source.files)} files; expected at least "
            f"one (skipped: {', '.join(skipped) or 'none'}); check the files, or pass another "
            f"--format"
        )
    rows = 0
    users: set[int | str] = set()
    with log_writer(path, first.schema, quoting="needed") as append:
        for table in chain([first], tables):
            append(table)
            rows += table.num_rows
            users.update(pc.unique(table["user_id"]).to_pylist())
        source.finish()
    return ConvertedLog(
        format=name,
        files=len(source.files),
        rows=rows,
        users=len(users),
        skipped=dict(source.skipped),
        columns=tuple(first.schema.names),
    )


def _join_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join small batches, so that small files do not make small row groups."""
    waiting: list[pa.RecordBatch] = []
    num_rows = 0
    for batch in batches:
        waiting.append(batch)
        num_rows += batch.num_rows
        if num_rows >= ROWS_PER_GROUP:
            yield pa.Table.from_batches(waiting)
            waiting, num_rows = [], 0
    if num_rows:
        yield pa.Table.from_batches(waiting)


def choose_format(source: LogPath, name: str | None) -> str:
    """Check the name of a format, or find the format from the names of the files."""
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
        if format_.has_unique_names and any(map(format_.fits, files))
    ]
    if len(found) != 1:
        what = f"fit several formats ({', '.join(found)})" if found else "do not tell their format"
        raise OptionError(
            f"{_show(source)}: the names of the files {what}; expected to be told one of "
            f"{', '.join(FORMATS)}; pass --format"
        )
    return found[0]


def list_movement_files(source: LogPath, name: str) -> list[Path]:
    """List the files to read, the files of a folder in order of their names.

    Folders are searched recursively for files with a name of the format. A file that is
    given itself, or by a glob, is read whatever its name.
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
