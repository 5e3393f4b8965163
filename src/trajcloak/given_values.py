"""Values as callers write them: of pandas, numpy, shapely, PROJ or the standard library.

Objects of the first three are told by what they can do, without an import. A vocabulary, the public
list of values that requests may have, may also come in a file.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from trajcloak.errors import InputError, OptionError

if TYPE_CHECKING:
    import numpy as np
    import pyproj

Names: TypeAlias = str | Sequence[str]
"""One name, or several."""

Duration: TypeAlias = Union[str, int, timedelta, "np.timedelta64"]
"""Text such as ``60s``, a timedelta of Python, pandas or numpy; a whole number for instants."""

Time: TypeAlias = Union[int, str, date, "np.datetime64"]
"""Number of an instant, or a moment: text in ISO 8601, or of Python, pandas or numpy."""


class HasBounds(Protocol):
    """A geometry of shapely, or one of GeoPandas."""

    @property
    def bounds(self) -> Any:
        """Its least and greatest coordinates."""


Box: TypeAlias = Sequence[float] | HasBounds
"""Least x and y, greatest x and y; or a box of shapely."""


def to_names(given: Names) -> tuple[str, ...]:
    """List names; a text is one name, not its letters.

    Examples
    --------
    >>> to_names("service"), to_names(["service", "price"])
    (('service',), ('service', 'price'))
    """
    return (given,) if isinstance(given, str) else tuple(given)


def parse_crs(given: Any) -> "pyproj.CRS | None":
    """Parse what names or describes a coordinate system; None if PROJ does not know it.

    Examples
    --------
    >>> parse_crs("EPSG:27700").is_projected, parse_crs("EPSG:0")
    (True, None)
    """
    # Imported here, since releases in planar coordinates are read without it.
    import pyproj

    try:
        return pyproj.CRS.from_user_input(given)
    except (pyproj.exceptions.CRSError, UnicodeEncodeError):
        # Text of files and command lines may hold halves of characters.
        return None


def to_duration(given: Duration | None) -> str | None:
    """Write a duration as the command line takes it.

    Examples
    --------
    >>> to_duration(timedelta(minutes=1)), to_duration("60s"), to_duration(5)
    ('60000000us', '60s', '5')
    """
    if given is None:
        return None
    taken: Any = given
    if hasattr(taken, "astype"):
        taken = taken.astype("timedelta64[us]").item()
    if isinstance(taken, timedelta):
        return f"{taken // timedelta(microseconds=1)}us"
    return str(taken)


def to_time(given: Time) -> int | str:
    """Write a time as the command line takes it: the number of an instant, or ISO 8601.

    Examples
    --------
    >>> to_time(date(2026, 3, 2)), to_time("2026-03-02T08:00"), to_time(7)
    ('2026-03-02', '2026-03-02T08:00', 7)
    """
    taken: Any = given
    if isinstance(taken, date):
        return taken.isoformat()
    return int(taken) if isinstance(taken, Integral) else str(taken)


def to_box(given: Box) -> tuple[float, ...]:
    """List the edges of a rectangle: least x and y, greatest x and y."""
    shape: Any = given
    if hasattr(shape, "bounds") and hasattr(shape, "envelope"):
        if not shape.equals(shape.envelope):
            raise OptionError(
                f"the region is a {type(shape).__name__} that is no upright rectangle; expected "
                f"one; pass the rectangle around it, its .bounds"
            )
        shape = shape.bounds
    return tuple(_list_numbers(shape))


def to_square(given: Box) -> tuple[float, ...]:
    """List least x, least y and side of the smallest square over a box; or take them as given."""
    if not hasattr(given, "bounds"):
        return tuple(_list_numbers(given))
    x_min, y_min, x_max, y_max = to_box(given)
    return x_min, y_min, max(x_max - x_min, y_max - y_min)


def _list_numbers(given: Any) -> list[float]:
    try:
        return [float(number) for number in given]
    except (TypeError, ValueError):
        raise OptionError(
            f"a region is given as {type(given).__name__}; expected numbers, or a box of shapely; "
            f"pass x_min, y_min, x_max, y_max"
        ) from None


def read_vocabulary(file: Path) -> dict[str, list[str]]:
    """Read a table with a column for each request attribute; empty cells are ignored."""
    try:
        if file.suffix == ".parquet":
            table = pq.read_table(file)
        else:
            with pyarrow.csv.open_csv(file) as reader:
                names = reader.schema.names
            # By default, words such as NA would be taken for empty cells, too.
            options = pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            )
            table = pyarrow.csv.read_csv(file, convert_options=options)
        return {
            name: table[name].cast(pa.string()).drop_null().unique().to_pylist()
            for name in table.column_names
        }
    except (pa.ArrowException, OSError, UnicodeError):
        raise InputError(
            f"{file}: cannot be read; expected a CSV or Parquet table with a column of values for "
            f"each request attribute; check --vocabulary"
        ) from None
