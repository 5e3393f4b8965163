"""Text formats with one line per point: Brinkhoff's generator, cab traces, GeoLife."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.movement.movement_source import (
    MovementSource,
    add_user,
    check_one_file_per_user,
    find_bad_place,
    strip_suffixes,
)
from trajcloak.movement.text_lines import BadLine, LineLayout, read_tables

ACTIONS = pa.array(["newpoint", "point", "disappearpoint"])

BRINKHOFF = LineLayout(
    separator="\t",
    fields=("action", "id", "report", "class", "time", "x", "y", "speed", "next_x", "next_y"),
    types={
        "action": pa.string(),
        "id": pa.int64(),
        "class": pa.int64(),
        "time": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "speed": pa.float64(),
    },
)


def read_brinkhoff_points(source: MovementSource) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, which are parts of one run of Brinkhoff's generator.

    One line per object and time, with fields separated by tabs: what happens (``newpoint``,
    ``point``, ``disappearpoint``), id, report number, class, time, x, y, speed, and the
    position of the next node.
    """
    for file in source.files:
        for table in read_tables(source, file, BRINKHOFF, _shape_brinkhoff):
            yield from table.to_batches()


def _shape_brinkhoff(table: pa.Table) -> pa.Table:
    if not pc.all(pc.is_in(table["action"], ACTIONS)).as_py():
        raise BadLine(
            f"field 'action' is not known; expected one of {', '.join(ACTIONS.to_pylist())}"
        )
    if bad := find_bad_place(table, geographic=False):
        raise BadLine(bad[1])
    if not pc.all(pc.is_finite(table["speed"])).as_py():
        raise BadLine("field 'speed' is not finite; expected a number")
    return table.select(["id", "time", "x", "y", "class", "speed"]).rename_columns(
        ["user_id", "time", "x", "y", "class", "speed"]
    )


CAB_PREFIX = "new_"
FIRST_SECOND, LAST_SECOND = 1_000_000_000, 9_999_999_999
"""Times have ten digits: with fewer, a time was cut off; with more, it is in milliseconds."""

CABS = LineLayout(
    separator=" ",
    fields=("lat", "lon", "occupied", "time"),
    types={
        "lat": pa.float64(),
        "lon": pa.float64(),
        "occupied": pa.int64(),
        "time": pa.int64(),
    },
)


def read_cab_points(source: MovementSource) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, each of one cab: ``new_NAME.txt``, ``NAME`` is the user.

    One line per point, newest first or in any other order, with fields separated by single
    spaces: latitude, longitude, whether a passenger was aboard (0 or 1), seconds since 1970.
    """
    check_one_file_per_user(source.files, _name_cab)
    for file in source.files:
        tables = read_tables(source, file, CABS, _shape_cabs)
        yield from add_user(source, _name_cab(file), tables)


def _name_cab(file: Path) -> str:
    user = strip_suffixes(file).removeprefix(CAB_PREFIX)
    if not user:
        raise InputError(
            f"{file}: its name has nothing between '{CAB_PREFIX}' and the ending; expected the "
            f"name of a cab; rename the file"
        )
    return user


def _shape_cabs(table: pa.Table) -> pa.Table:
    if bad := find_bad_place(table, geographic=True):
        raise BadLine(bad[1])
    if not pc.all(pc.is_in(table["occupied"], pa.array([0, 1]))).as_py():
        raise BadLine("field 'occupied' is neither 0 nor 1; expected one of them")
    seconds = table["time"]
    is_good = pc.and_(pc.greater_equal(seconds, FIRST_SECOND), pc.less_equal(seconds, LAST_SECOND))
    if not pc.all(is_good).as_py():
        raise BadLine("field 'time' has not ten digits; expected seconds since 1970")
    return pa.table(
        {
            "time": seconds.cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "UTC")),
            "lon": table["lon"],
            "lat": table["lat"],
            "occupied": table["occupied"].cast(pa.bool_()),
        }
    )


GEOLIFE_FOLDER = "trajectory"
METRES_PER_FOOT = 0.3048
UNKNOWN_FEET = -777

GEOLIFE = LineLayout(
    separator=",",
    fields=("lat", "lon", "zero", "feet", "days", "date", "clock"),
    types={
        "lat": pa.float64(),
        "lon": pa.float64(),
        "feet": pa.float64(),
        "date": pa.string(),
        "clock": pa.string(),
    },
    header_lines=6,
)

_DAY = r"^\d{4}-\d\d-\d\d$"
_CLOCK = r"^\d\d:\d\d:\d\d$"


def read_geolife_points(source: MovementSource) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, ``USER/Trajectory/NAME.plt``; a user may have many.

    Six header lines, then one line per point, with fields separated by commas: latitude,
    longitude, 0, altitude in feet (-777: not known), days since 1899-12-30, date and time in
    GMT.
    """
    users = [_name_geolife_user(file) for file in source.files]
    for file, user in zip(source.files, users, strict=True):
        yield from add_user(source, user, read_tables(source, file, GEOLIFE, _shape_geolife))


def _name_geolife_user(file: Path) -> str:
    folder = file.absolute().parent
    if folder.name.lower() != GEOLIFE_FOLDER or not folder.parent.name:
        raise InputError(
            f"{file}: no folder names its user; expected a path that ends in "
            f"USER/Trajectory/NAME.plt; put the file into such folders"
        )
    return folder.parent.name


def _shape_geolife(table: pa.Table) -> pa.Table:
    if bad := find_bad_place(table, geographic=True):
        raise BadLine(bad[1])
    feet = table["feet"]
    if not pc.all(pc.is_finite(feet)).as_py():
        raise BadLine("field 'feet' is not finite; expected a number")
    metres = pc.multiply(feet, METRES_PER_FOOT)
    return pa.table(
        {
            "time": _to_moments(table["date"], table["clock"]),
            "lon": table["lon"],
            "lat": table["lat"],
            "altitude": pc.if_else(pc.equal(feet, UNKNOWN_FEET), None, metres),
        }
    )


def _to_moments(date: pa.ChunkedArray, clock: pa.ChunkedArray) -> pa.ChunkedArray:
    """Join date and time; strict, because a time that was cut off would be a wrong time."""
    is_whole = pc.and_(
        pc.match_substring_regex(date, _DAY), pc.match_substring_regex(clock, _CLOCK)
    )
    try:
        if not pc.all(is_whole).as_py():
            raise BadLine
        text = pc.binary_join_element_wise(date, clock, "T")
        return pc.assume_timezone(text.cast(pa.timestamp("us")), "UTC")
    except (pa.ArrowInvalid, BadLine):
        raise BadLine(
            "fields 'date' and 'clock' are no moment; expected YYYY-MM-DD and HH:MM:SS"
        ) from None
