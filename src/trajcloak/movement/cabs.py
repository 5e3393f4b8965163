"""Cab traces: one file per cab, ``new_NAME.txt``, where ``NAME`` names the user.

One line per point, newest first or in any other order, separated by single spaces:
latitude, longitude, whether a passenger was aboard (0 or 1), seconds since 1970.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.movement.places import find_bad_place
from trajcloak.movement.repeats import RepeatFilter
from trajcloak.movement.source import Source, check_one_file_per_user, strip_suffixes
from trajcloak.movement.text import BadLine, Layout, read_tables

PREFIX = "new_"
FIRST_SECOND, LAST_SECOND = 1_000_000_000, 9_999_999_999
"""Times have ten digits: one with fewer was cut off, one with more counts milliseconds."""

LAYOUT = Layout(
    separator=" ",
    fields=("lat", "lon", "occupied", "time"),
    types={
        "lat": pa.float64(),
        "lon": pa.float64(),
        "occupied": pa.int64(),
        "time": pa.int64(),
    },
)


def read(source: Source) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, each of which is a cab."""
    check_one_file_per_user(source.files, _name_user)
    for file in source.files:
        user = pa.scalar(_name_user(file))
        repeats = RepeatFilter(source)
        for table in read_tables(source, file, LAYOUT, _shape):
            kept = repeats.filter(table)
            ids = pa.repeat(user, kept.num_rows)
            yield from kept.add_column(0, "user_id", ids).to_batches()


def _name_user(file: Path) -> str:
    user = strip_suffixes(file).removeprefix(PREFIX)
    if not user:
        raise InputError(
            f"{file}: its name has nothing between '{PREFIX}' and the ending; expected the name of "
            f"a cab; rename the file"
        )
    return user


def _shape(table: pa.Table) -> pa.Table:
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
