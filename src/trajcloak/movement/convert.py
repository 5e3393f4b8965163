"""From other people's movement data to a log on disk."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError, OptionError
from trajcloak.log.files import LogPath
from trajcloak.log.write import ROWS_PER_GROUP, check_log_path, log_writer
from trajcloak.movement.formats import (
    FORMATS,
    GEOGRAPHIC_BY_OPTION,
    check_source,
    choose_format,
    list_files,
)
from trajcloak.movement.source import Source
from trajcloak.progress import Progress, silent


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
        Rows of the log, and how many users they are of.
    skipped
        Points that were not taken, by reason; none with a count of 0.
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
    progress: Progress = silent,
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
        ``brinkhoff``, ``sumo``, ``geolife``, ``cabs`` or ``gpx``. Default: as the
        names of the files tell.
    geographic
        Whether x and y of ``sumo`` are longitude and latitude. Default: as the
        comment at the top of the file says; planar if it says nothing.
    progress
        Told of the stage ``converting``, in bytes.

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
        If the format is not known or not told, or ``path`` has another ending.
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
    check_source(source)
    name = choose_format(source, format)
    if geographic and name not in GEOGRAPHIC_BY_OPTION:
        raise OptionError(
            f"geographic is asked for with format '{name}', whose coordinates are always of one "
            f"kind; expected it with {', '.join(GEOGRAPHIC_BY_OPTION)} only; leave it out"
        )
    reading = Source(list_files(source, name), geographic=geographic, progress=progress)
    return _write_log(path, name, reading)


def _write_log(path: Path, name: str, source: Source) -> ConvertedLog:
    tables = _join_batches(FORMATS[name].read(source))
    first = next(tables, None)
    if first is None:
        raise InputError(
            f"{source.files[0]}: no points found in {len(source.files)} files; expected at least "
            f"one ({_list_reasons(source)}); check the files, or pass another --format"
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


def _list_reasons(source: Source) -> str:
    skipped = [f"{reason.replace('_', ' ')}: {n:,}" for reason, n in source.skipped.items()]
    return f"skipped: {', '.join(skipped) or 'none'}"
