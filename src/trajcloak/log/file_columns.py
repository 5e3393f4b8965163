"""The columns of the files of a log: which there are, which are read, what holds for all rows.

User, time and place are recognised by their usual names.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.errors import InputError, OptionError, warn_caller
from trajcloak.log.formats import (
    ARROW,
    CSV,
    JSON,
    NAMES,
    PARQUET,
    WantedColumns,
    find_kind,
    find_partitions,
    read_header,
)
from trajcloak.log.geometry import (
    DEGREES,
    PointColumn,
    choose_system,
    find_geometry,
    name_points,
)
from trajcloak.log.lines import guess_schema
from trajcloak.log.types import find_common_type, list_roots
from trajcloak.options import TIME_UNITS, LogColumns, holds_fixed, marks_and_holds

UNREADABLE = (pa.ArrowException, OSError, csv.Error, UnicodeError)
"""Errors of files that cannot be read; UnicodeError for names of columns."""

LIKE_A_VALUE = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}.*")
"""A name of a column that is probably a number or a time."""

LogPath: TypeAlias = Any
"""A file, a glob, a folder, or a list of those; or a table or frame that supports Arrow."""

LogFile: TypeAlias = Any
"""A part of a log: a path, or an Arrow table."""


class UsualNames(NamedTuple):
    """Usual names of a column, in lower case and with ``_`` between words."""

    what: str  # What the column holds.
    option: str  # The option that names it.
    first: str  # The name that is taken even if others are there, too.
    others: set[str]


USER = UsualNames(
    "the user",
    "--user",
    "user_id",
    {
        "userid", "user", "uid", "device_id", "deviceid", "device", "person_id", "vehicle_id",
        "taxi_id", "cab_id", "agent_id", "customer_id", "client_id", "subscriber_id",
    },
)  # fmt: skip
TIME = UsualNames(
    "the time",
    "--time",
    "time",
    {
        "datetime", "timestamp", "ts", "date_time", "time_stamp", "event_time", "recorded_at", "t",
    },
)  # fmt: skip
LONGITUDE = UsualNames("the longitude", "--lon and --lat", "lon", {"lng", "long", "longitude"})
LATITUDE = UsualNames("the latitude", "--lon and --lat", "lat", {"latitude"})
EASTING = UsualNames("x", "--x and --y", "x", {"easting"})
NORTHING = UsualNames("y", "--x and --y", "y", {"northing"})

EPOCH_SECONDS = 631_152_000, 4_102_444_800
"""Whole numbers from 1990 to 2100 are probably seconds since 1970."""

MOST_DEGREES = 10.0
"""A log in degrees seldom reaches farther."""

FEW_DECIMALS = 3
"""Degrees have more: a thousandth of a degree is a hundred metres."""

NEAR_ZERO = 1.0
"""Degrees near longitude and latitude 0 are in the sea: such places are planar."""


class FileColumns(NamedTuple):
    """The columns of a file: its own, those that names of its folders give, and its points'."""

    file: LogFile
    schema: pa.Schema
    folders: dict[str, str]  # By name, the value in all rows.
    points: PointColumn | None

    @property
    def names(self) -> list[str]:
        """All columns that can be read."""
        axes = () if self.points is None else self.points.axes
        own = self.schema.names
        return [*own, *(name for name in dict.fromkeys([*self.folders, *axes]) if name not in own)]

    @property
    def axes(self) -> list[str]:
        """The columns that may hold a coordinate: those of the points of a file, or else all."""
        return self.names if self.points is None else list(self.points.axes)

    def find_own(self, wanted: Sequence[str]) -> list[str]:
        """List the wanted columns that the file itself has, and its points if they are needed."""
        own = [name for name in wanted if name in self.schema.names]
        if self.points is not None and set(self.points.axes) & set(wanted):
            own.append(self.points.name)
        return own


def read_columns(file: LogFile, delimiter: str | None = None) -> FileColumns:
    """Read the names and types of a file's columns; raises if names are not UTF-8."""
    try:
        schema = _open_schema(file, delimiter)
        for field in schema:
            find_common_type(field.type)
        list(schema.names)
    except UNREADABLE as error:
        raise unreadable(file, error) from None
    folders = find_partitions(file) if isinstance(file, Path) else {}
    return FileColumns(file, schema, folders, find_geometry(schema))


def _open_schema(file: LogFile, delimiter: str | None) -> pa.Schema:
    if isinstance(file, pa.Table):
        return file.schema
    kind = find_kind(file)
    if kind == PARQUET:
        return pq.read_schema(file)
    if kind == ARROW:
        with open_ipc(file) as reader:
            return reader.schema
    if kind == JSON:
        return guess_schema(file)
    names = read_header(file, delimiter)
    if not names:
        raise pa.ArrowInvalid("no header")
    return pa.schema([(name, pa.string()) for name in names])


def open_ipc(file: Path) -> Any:
    """Open an Arrow file, or else an Arrow stream.

    Not memory-mapped: pages that were read would count as memory in use.
    """
    try:
        return pa.ipc.open_file(pa.OSFile(str(file)))
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(pa.OSFile(str(file)))


def recognise_columns(file: LogFile, columns: LogColumns, *, has_place: bool = True) -> LogColumns:
    """Name the columns of user, time and place that are not named yet.

    ``file`` is the first file of the log, which decides. ``has_place`` is false for a request log,
    whose columns of coordinates are not read.
    """
    taken = {*columns.requests, columns.is_report}
    there = read_columns(file, columns.delimiter)
    names = there.names
    present = [name for name in names if name not in taken]
    found: dict[str, Any] = {}
    # A column that is to hold requests, too, is refused later, by name.
    if columns.user is None:
        found["user"] = _find(USER, present) or _find(USER, names) or USER.first
    if columns.time is None:
        found["time"] = _find(TIME, present) or _find(TIME, names) or TIME.first
    if not has_place:
        columns = columns.without_place()
    elif columns.place is None:
        found |= _find_place([name for name in there.axes if name not in taken])
    return replace(columns, **found)


def _find_place(present: Sequence[str]) -> dict[str, str]:
    lon, lat = _find(LONGITUDE, present), _find(LATITUDE, present)
    x, y = _find(EASTING, present), _find(NORTHING, present)
    is_geographic = lon is not None and lat is not None
    if is_geographic and x is not None and y is not None:
        raise OptionError(
            f"the log has both {lon}/{lat} and {x}/{y} columns; expected to be told which to use; "
            f"pass --lon and --lat, or --x and --y"
        )
    if is_geographic or (x is None and y is None and (lon or lat)):
        return {"lon": lon or LONGITUDE.first, "lat": lat or LATITUDE.first}
    return {"x": x or EASTING.first, "y": y or NORTHING.first}


def _find(names: UsualNames, present: Sequence[str]) -> str | None:
    """Find the column with a usual name; None if there is none."""
    if names.first in present:
        return names.first
    known = {names.first, *names.others}
    found = sorted({name for name in present if _normalise(name) in known})
    if len(found) > 1:
        raise OptionError(
            f"the columns {', '.join(found)} may each be {names.what}; expected to be told which "
            f"to use; pass {names.option}"
        )
    return found[0] if found else None


def _normalise(name: str) -> str:
    return re.sub(r"[\s.-]+", "_", name.strip()).lower()


def find_crs(file: LogFile, columns: LogColumns) -> str | None:
    """Find the coordinate system that the caller states, or else the points of a file."""
    geometry = read_columns(file, columns.delimiter).points
    if columns.crs is not None or geometry is None or columns.place != geometry.axes:
        return columns.crs
    if not geometry.has_system:
        raise InputError(
            f"{_label(file)}: column '{geometry.name}' holds points, and its coordinate system "
            f"is not known; expected one, such as EPSG:4326; set it there, or pass --crs"
        )
    return geometry.crs


def choose_columns(file: LogFile, columns: LogColumns) -> WantedColumns:
    """Choose the columns to read; those of user, time and place are named."""
    assert columns.user is not None
    assert columns.time is not None
    wanted = WantedColumns(
        columns.user,
        columns.time,
        columns.place or (),
        tuple(list_roots(columns.requests, read_columns(file, columns.delimiter).names)),
        columns.is_report,
        columns.time_unit,
        columns.time_format,
        columns.delimiter,
    )
    for name in wanted.names:
        if wanted.names.count(name) > 1:
            if name == columns.is_report:
                raise marks_and_holds(name)
            raise OptionError(
                f"column '{name}' is to hold two of user, time, place and request; expected a "
                f"column for each, and to publish neither user, time nor place; name other columns"
            )
    return wanted


def check_columns(found: FileColumns, wanted: WantedColumns) -> None:
    """Raise unless a file has each column once, and no request column is its points."""
    names = found.names
    points = name_points(found.schema)
    if points in wanted.requests:
        raise holds_fixed(points)
    missing = [name for name in wanted.names if name not in names]
    repeated = [name for name in wanted.names if names.count(name) > 1]
    if missing or repeated:
        raise InputError(
            f"{_label(found.file)}: {_describe_missing(missing, repeated)}"
            f"{_list_found(found.file, names)}{_suggest(missing, names)}; expected each once; name "
            f"the columns to use with --user, --time, --lon, --lat, --x, --y, --request or "
            f"--is-report"
        )


def _describe_missing(missing: Sequence[str], repeated: Sequence[str]) -> str:
    if repeated:
        return f"there are several columns '{repeated[0]}'"
    listed = " and ".join(f"'{name}'" for name in missing)
    return f"there is no column {listed}" if len(missing) == 1 else f"there are no columns {listed}"


def _list_found(file: LogFile, names: Sequence[str]) -> str:
    """List the columns of a file, unless its first line seems to be a user's row."""
    is_csv = isinstance(file, Path) and find_kind(file) == CSV
    if is_csv and any(LIKE_A_VALUE.fullmatch(name.strip()) for name in names):
        return " in its first line, which looks like a row and not like a header"
    return f" among {', '.join(names)}"


def _suggest(missing: Sequence[str], names: Sequence[str]) -> str:
    """Suggest columns of similar names, or another delimiter."""
    # A column whose name has those of several columns was not cut.
    if any(sum(part in re.split(r"\W", name) for part in missing) > 1 for name in names):
        return " (are they separated otherwise? pass --delimiter)"
    close = [match for name in missing for match in get_close_matches(name, names, 1)]
    return f" (did you mean {' and '.join(map(repr, close))}?)" if close else ""


def _label(file: LogFile) -> str:
    return str(file) if isinstance(file, Path) else "the table"


def unreadable(file: LogFile, error: Exception) -> InputError:
    """Build the error for a file that cannot be read."""
    if isinstance(file, pa.Table):
        return InputError(
            "the table cannot be read; expected columns of plain types; write it to a .parquet file"
        )
    if isinstance(error, PermissionError):
        return InputError(
            f"{file}: cannot be opened; expected permission to read it; ask its owner, or change "
            f"its mode"
        )
    if file.is_file() and file.stat().st_size == 0:
        return InputError(f"{file}: the file is empty; expected a header and rows; make it again")
    kind = find_kind(file)
    assert kind is not None
    return InputError(
        f"{file}: cannot be read; expected {NAMES[kind]}; the file is damaged or of another kind: "
        f"make it again, or rename it"
    )


@dataclass(frozen=True)
class LogSystem:
    """What holds for all rows of a log, as its files say."""

    crs: str | None  # Coordinate system; None if it is not known.
    geographic: bool  # Whether coordinates are degrees.
    has_text: bool  # Whether a file is text: CSV or JSON lines. Then all request values are text.
    # Whether ids may be numbers written as text: in CSV files or in names of folders.
    has_text_ids: bool


def find_system(files: Sequence[LogFile], columns: LogColumns) -> LogSystem:
    """Find what holds for all rows of a log; the first file decides the coordinate system."""
    paths = [file for file in files if isinstance(file, Path)]
    kinds = {find_kind(file) for file in paths}
    has_text_ids = CSV in kinds or any(find_partitions(file) for file in paths)
    crs, geographic = None, False
    if columns.place is not None:
        crs, geographic = choose_system(
            find_crs(files[0], columns), geographic=columns.lon is not None
        )
    return LogSystem(crs, geographic, bool(kinds & {CSV, JSON}), has_text_ids)


def notice_degrees(bounds: tuple[float, float, float, float], columns: LogColumns) -> None:
    """Warn if planar coordinates are probably degrees."""
    low_x, low_y, high_x, high_y = bounds
    (limit_x, limit_y), (name_x, name_y) = DEGREES, columns.place or ("x", "y")
    is_small = (
        max(-low_x, high_x) <= limit_x
        and max(-low_y, high_y) <= limit_y
        and max(high_x - low_x, high_y - low_y) <= MOST_DEGREES
    )
    is_at_zero = (
        low_x <= NEAR_ZERO and high_x >= -NEAR_ZERO and low_y <= NEAR_ZERO and high_y >= -NEAR_ZERO
    )
    is_fine = all(value != round(value, FEW_DECIMALS) for value in bounds)
    if is_small and is_fine and not is_at_zero:
        warn_caller(
            f"columns '{name_x}' and '{name_y}' look like longitude and latitude in degrees, and "
            f"are taken as planar coordinates; if they are degrees, pass --lon={name_x} "
            f"--lat={name_y}"
        )


def notice_epochs(time_range: tuple[int, int], columns: LogColumns) -> None:
    """Warn if whole numbers are probably times since 1970."""
    first, last = EPOCH_SECONDS
    for unit, microseconds in TIME_UNITS.items():
        per_second = 10**6 // microseconds
        if first * per_second <= time_range[0] and time_range[1] < last * per_second:
            warn_caller(
                f"column '{columns.time}' holds whole numbers that look like times since 1970, "
                f"and they are taken as instants; if they are times, pass --time-unit={unit}"
            )
