"""GeoLife trajectories: ``NNN/Trajectory/NAME.plt``, where ``NNN`` names the user.

Six header lines, then one line per point, separated by commas: latitude, longitude,
0, altitude in feet (-777: not known), days since 1899-12-30, date and time in GMT.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.movement.places import find_bad_place
from trajcloak.movement.repeats import RepeatFilter
from trajcloak.movement.source import Source
from trajcloak.movement.text import BadLine, Layout, read_tables

FOLDER = "trajectory"
METRES_PER_FOOT = 0.3048
UNKNOWN_FEET = -777

LAYOUT = Layout(
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


def read(source: Source) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files; a user may have many."""
    users = [_name_user(file) for file in source.files]
    for file, user in zip(source.files, users, strict=True):
        repeats = RepeatFilter(source)
        for table in read_tables(source, file, LAYOUT, _shape):
            kept = repeats.filter(table)
            ids = pa.repeat(pa.scalar(user), kept.num_rows)
            yield from kept.add_column(0, "user_id", ids).to_batches()


def _name_user(file: Path) -> str:
    folder = file.absolute().parent
    if folder.name.lower() != FOLDER or not folder.parent.name:
        raise InputError(
            f"{file}: no folder names its user; expected a path that ends in "
            f"USER/Trajectory/NAME.plt; put the file into such folders"
        )
    return folder.parent.name


def _shape(table: pa.Table) -> pa.Table:
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
    """Join date and time; strict, since a time that was cut off would be another time."""
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
