"""Recognise the columns of a log by their usual names, and say what they probably hold."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from trajcloak.errors import OptionError, warn_caller
from trajcloak.log.file_columns import LogFile, LogPath, read_columns
from trajcloak.log.files import has_decimal_commas, list_files
from trajcloak.options import TIME_UNITS, LogColumns


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

DEGREES = 180.0, 90.0
MOST_DEGREES = 10.0
"""A log in degrees seldom reaches farther."""

FEW_DECIMALS = 3
"""Degrees have more: a thousandth of a degree is a hundred metres."""

NEAR_ZERO = 1.0
"""Degrees near longitude and latitude 0 are in the sea: such places are planar."""


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


def describe_columns(source: LogPath, columns: LogColumns) -> dict[str, str]:
    """Say which columns of a log are taken for what, and how they are read."""
    file = list_files(source)[0]
    named = recognise_columns(file, columns)
    kind = "degrees" if named.lon is not None else "planar"
    if has_decimal_commas(file, named):
        kind += ", decimal commas"
    place = " and ".join(named.place or ())
    return {"user": named.user or "", "time": named.time or "", "place": f"{place} ({kind})"}


def list_other_columns(source: LogPath, columns: LogColumns) -> list[str]:
    """List the columns of a log that are not used."""
    file = list_files(source)[0]
    named = recognise_columns(file, columns)
    used = {named.user, named.time, named.is_report, *(named.place or ()), *named.requests}
    return [name for name in read_columns(file, columns.delimiter).names if name not in used]


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
