"""The auditor's own reading of a log: rows by user and time, requests apart."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyproj

from trajcloak.auditor.audited_files import (
    LogPaths,
    count_parquet_rows,
    expand_names,
    find_points_crs,
    holds_text,
    list_columns,
    list_log_files,
    read_batches,
)
from trajcloak.auditor.audited_manifest import REASONS_TO_DROP
from trajcloak.auditor.audited_rows import (
    FASTEST,
    CheckedRows,
    mark_conflicts,
    mark_swapped,
    mark_teleports,
    try_cast,
)
from trajcloak.auditor.audited_values import local_to_utc
from trajcloak.auditor.search import sort_by
from trajcloak.errors import InputError, OptionError
from trajcloak.options import LogColumns
from trajcloak.progress import Progress

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]

PLAIN_WHOLE_NUMBER = "^(0|-?[1-9][0-9]*)$"
"""Text that is taken as an integer id: one notation for each number."""

STAGE = "reading log"


@dataclass(frozen=True)
class Log:
    """A log, its rows in order of user and time.

    Attributes
    ----------
    ids
        Arrow array of the distinct user ids: int64 or text.
    user
        Of each row, the index of its user in ``ids``; ascending.
    time
        Of each row, in ticks; ascending for each user.
    x, y
        Of each row: the coordinates as the log has them.
    row
        Of each row, its number in the files, from 0, without those that were dropped.
    dropped
        How many rows were dropped, by reason.
    crs
        Coordinate system of the log; None if it has none.
    stamped
        Whether times are timestamps, in microseconds; otherwise integer instants.
    zoned
        Whether the timestamps have a zone, and so are in UTC.
    clock
        Name of the zone whose clock windows follow; None: the log's own times.
    ambiguous, nonexistent
        How many local times come twice, or are skipped.
    geographic
        Whether the coordinates are longitude and latitude.
    request_row
        Row numbers (in the files, from 0) of the rows with a request; ascending.
    requests
        By attribute: a chunked array, one value for each of ``request_row``; text
        where a file is CSV.
    request_types
        By attribute: its type; None where it follows from text, as in CSV.
    """

    ids: Any
    user: Codes
    time: Ints
    x: Floats
    y: Floats
    row: Ints
    dropped: dict[str, int]
    crs: str | None
    stamped: bool
    zoned: bool
    clock: str | None
    ambiguous: int
    nonexistent: int
    geographic: bool
    request_row: Ints
    requests: dict[str, Any]
    request_types: dict[str, Any]

    @property
    def num_users(self) -> int:
        """How many users the log has."""
        return len(self.ids)


def read_audited_log(
    paths: LogPaths, columns: LogColumns, requests: tuple[str, ...], progress: Progress
) -> Log:
    """Read a log, and check its rows as ``docs/data-model.md`` says.

    Raises
    ------
    InputError
        If a file or a row breaks a rule.
    """
    files = list_log_files(paths)
    headers = [list_columns(file, columns.delimiter) for file in files]
    x_name, y_name, geographic = columns.place(headers[0])
    requests = expand_names(requests, headers[0])
    names = [columns.user, columns.time, x_name, y_name, *requests]
    for file, present in zip(files, headers, strict=True):
        for name in names:
            if present.count(name) != 1:
                raise InputError(
                    f"{file}: has {present.count(name)} columns '{name}'; expected one; "
                    f"name the column that holds it by option"
                )

    system = find_points_crs(files[0]) if columns.crs is None else columns.crs
    crs, geographic = _choose_log_crs(system, geographic)
    batches = CheckedRows(
        columns.user, columns.time, (x_name, y_name), geographic, requests, columns
    )
    num_rows = count_parquet_rows(files)
    for file in files:
        for batch in read_batches(file, names, columns.delimiter):
            batches.add(batch, holds_text(file))
            # Sorting is still to come, so that the stage ends only after it.
            progress(STAGE, batches.num_rows, num_rows + 1 if num_rows else 0)
    log = _drop_rows(_join_batches(batches, columns.tz, crs), columns)
    _check_agreement(log)
    progress(STAGE, len(log.row), len(log.row))
    return log


def _join_batches(batches: CheckedRows, clock: str | None, crs: str | None) -> Log:
    if not batches.num_rows:
        raise InputError(
            "the log has no rows; expected at least one that is not dropped; check the path"
        )
    user, ids = _encode_users(batches)
    stamped, zoned = batches.times[0].stamped, batches.times[0].zoned
    time = np.concatenate([part.ticks for part in batches.times])
    batches.times.clear()
    ambiguous = nonexistent = 0
    if clock is not None and not stamped:
        raise OptionError(
            "a time zone is given for a log with integer times; expected timestamps; leave it out"
        )
    if clock is not None and not zoned:
        time, ambiguous, nonexistent = local_to_utc(time, clock)
        zoned = True
    order = sort_by(user, time)
    user, time = user[order], time[order]
    places = []
    for parts in batches.coordinates:
        places.append(np.concatenate(parts)[order])
        parts.clear()
    x, y = places
    request_row = np.zeros(0, np.int64)
    if batches.request_rows:
        request_row = np.concatenate(batches.request_rows)
    return Log(
        ids=ids,
        user=user,
        time=time,
        x=x,
        y=y,
        row=order,
        dropped={reason: batches.dropped.get(reason, 0) for reason in REASONS_TO_DROP},
        crs=crs,
        stamped=stamped,
        zoned=zoned,
        clock=clock,
        ambiguous=ambiguous,
        nonexistent=nonexistent,
        geographic=batches.geographic,
        request_row=request_row,
        requests={
            name: pa.chunked_array(_one_type(parts)) for name, parts in batches.requests.items()
        },
        request_types={
            name: None if "csv" in batches.request_kinds[name] else _find_type(parts)
            for name, parts in batches.requests.items()
        },
    )


def _drop_rows(log: Log, columns: LogColumns) -> Log:
    """Leave out the rows that contradict others, if they are to be dropped."""
    if "swapped" in columns.drop and log.geographic:
        log = _without(log, mark_swapped(log.x, log.y), "swapped")
    if "conflict" in columns.drop:
        bad = mark_conflicts(log.user, log.time, log.x, log.y)
        log = _without(log, bad, "conflict")
    if "teleport" in columns.drop:
        speed = (columns.max_speed or FASTEST) / (1e6 if log.stamped else 1.0)
        bad = mark_teleports(log.user, log.time, log.x, log.y, speed, log.geographic)
        log = _without(log, bad, "teleport")
    return log


def _without(log: Log, bad: npt.NDArray[np.bool_], reason: str) -> Log:
    if not bad.any():
        return log
    if bad.all():
        raise InputError("all rows of the log are dropped; expected some to be left; drop less")
    is_left = np.zeros(len(bad), dtype=bool)
    is_left[log.row[~bad]] = True
    number = np.cumsum(is_left) - 1
    users, user = np.unique(log.user[~bad], return_inverse=True)
    kept = is_left[log.request_row]
    return replace(
        log,
        ids=log.ids.take(pa.array(users)),
        user=user.astype(log.user.dtype),
        time=log.time[~bad],
        x=log.x[~bad],
        y=log.y[~bad],
        row=number[log.row[~bad]],
        dropped={**log.dropped, reason: int(bad.sum())},
        request_row=number[log.request_row[kept]],
        requests={name: part.filter(pa.array(kept)) for name, part in log.requests.items()},
    )


def _encode_users(batches: CheckedRows) -> tuple[Codes, Any]:
    """Give each user a number.

    Ids of CSV files are text; if all are plain whole numbers they become integers,
    which keeps the numbering, since each number has one plain notation.
    """
    encoded = pa.chunked_array(_one_type(batches.users)).dictionary_encode()
    batches.users.clear()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    ids = encoded.chunk(0).dictionary
    if "csv" in batches.user_kinds:
        whole = pc.all(pc.match_substring_regex(ids, PLAIN_WHOLE_NUMBER)).as_py()
        numbers = try_cast(ids, pa.int64()) if whole else None
        if numbers is None and "integer" in batches.user_kinds:
            raise InputError(
                f"log: column '{batches.user}' holds integers in a Parquet file and text in a "
                f"CSV file; expected one type; convert one of them"
            )
        ids = ids if numbers is None else numbers
    return codes, ids


def _check_agreement(log: Log) -> None:
    user, time, x, y, row = log.user, log.time, log.x, log.y, log.row
    same = (user[1:] == user[:-1]) & (time[1:] == time[:-1])
    moved = np.flatnonzero(same & ((x[1:] != x[:-1]) | (y[1:] != y[:-1])))
    if len(moved):
        one, other = int(row[moved[0]]) + 1, int(row[moved[0] + 1]) + 1
        raise InputError(
            f"log, rows {one} and {other}: one user is at two places at the same time; "
            f"expected one place; remove one of the rows"
        )


def _find_type(parts: list[Any]) -> Any:
    """Find the widest type of arrays; None if only text is wide enough."""
    schemas = [pa.schema([("values", part.type)]) for part in parts]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").types[0]
    except pa.ArrowException:
        return None


def _one_type(parts: list[Any]) -> list[Any]:
    """Turn arrays of several types into text; leave those of one type."""
    if len({str(part.type) for part in parts}) > 1:
        return [pc.cast(part, pa.string()) for part in parts]
    return parts


def _choose_log_crs(name: str | None, degrees: bool) -> tuple[str | None, bool]:
    """Choose the coordinate system of a log; returns it, and whether coordinates are degrees.

    ``degrees`` is what the names of the columns say.
    """
    if name is None:
        return ("OGC:CRS84" if degrees else None), degrees
    try:
        crs = pyproj.CRS.from_user_input(name)
    except pyproj.exceptions.CRSError:
        raise OptionError(
            f"'{name}' is no coordinate system; expected one such as EPSG:27700; check --crs"
        ) from None
    return name, bool(crs.is_geographic)


def continue_longitudes(longitude: Floats) -> Floats:
    """Add 360 to negative longitudes of a log that then spans at most 180 degrees."""
    if longitude.max() - longitude.min() <= 180.0:
        return longitude
    turned = np.where(longitude < 0, longitude + 360.0, longitude)
    return turned if turned.max() - turned.min() <= 180.0 else longitude
