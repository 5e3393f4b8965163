"""A log as a caller in Python gives it: files, a table or frame, or one that was read before."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

from trajcloak.errors import OptionError
from trajcloak.given_values import Box, Names, to_box, to_names
from trajcloak.log import LogPath, RequestLog, read_in_memory
from trajcloak.log.frames import to_table
from trajcloak.options import LogColumns
from trajcloak.progress import Heard, listening

LogSource: TypeAlias = Any
"""A path, a glob, a folder or a list of these; a table or frame of pandas, polars, Arrow,
GeoPandas, DuckDB or MovingPandas; or a :class:`Log`."""


class ColumnOptions(TypedDict, total=False):
    """How to read a log, as :func:`trajcloak.anonymize` takes it."""

    user: str
    time: str
    lon: str
    lat: str
    x: str
    y: str
    requests: Names
    request_log: LogSource
    is_report: str
    tz: str
    crs: Any
    clip: Box
    max_speed: float
    drop: Names
    delimiter: str
    time_unit: Literal["s", "ms", "us"]
    time_format: str


class LogInput(NamedTuple):
    """A log that is still to be read, in files or Arrow tables."""

    source: LogPath
    columns: LogColumns
    request_log: LogPath | None


@dataclass(frozen=True, repr=False)
class Log:
    """A log that was read and checked, to be used more than once; see :func:`read_log`."""

    _given: LogInput = field(compare=False)
    _rows: RequestLog = field(compare=False)

    @property
    def num_rows(self) -> int:
        """How many location reports there are."""
        return self._rows.num_rows

    @property
    def num_users(self) -> int:
        """How many users there are."""
        return self._rows.num_users

    @property
    def num_requests(self) -> int:
        """How many requests there are."""
        return self._rows.num_requests

    def __repr__(self) -> str:
        """Show counts only: notebook output gets saved, so no ids."""
        return f"Log(rows={self.num_rows}, users={self.num_users}, requests={self.num_requests})"


def read_log(
    source: LogSource,
    *,
    threads: int | None = None,
    progress: Heard = False,
    **columns: Unpack[ColumnOptions],
) -> Log:
    """Read and check a log, to use it more than once.

    Parameters
    ----------
    source
        A path, a glob, a folder or a list of these; or a table or frame of pandas, polars,
        Arrow, GeoPandas, DuckDB or MovingPandas.
    threads, progress, **columns
        As for :func:`trajcloak.anonymize`.

    Raises
    ------
    InputError
        If a file cannot be read, or a row breaks a rule of ``docs/data-model.md``.

    Examples
    --------
    >>> import trajcloak as tc
    >>> log = tc.read_log("log.parquet", requests="category")
    >>> log.num_users
    600
    >>> tc.anonymize(log, k=20).manifest["k"], tc.anonymize(log, k=50).manifest["k"]
    (20, 50)
    """
    return open_log(source, columns, threads, progress)


def find_input(source: LogSource, columns: Mapping[str, Any]) -> LogInput:
    """Find what a log was read from, or is to be read from.

    ``columns`` are :class:`ColumnOptions`, of which None and () count as not given. They must not
    be given for a log that was read already.
    """
    check_keywords(columns, ColumnOptions.__annotations__)
    named = {
        name: value
        for name, value in columns.items()
        if value is not None and not (isinstance(value, tuple) and not value)
    }
    if isinstance(source, Log):
        if listed := ", ".join(f"{name}=" for name in named):
            raise OptionError(
                f"the log was read already, and {listed} is given; expected it where the log is "
                f"read; pass it to read_log, or pass the path of the log"
            )
        return source._given
    request_log = named.pop("request_log", None)
    return LogInput(_take(source), _build_columns(named), _take(request_log))


def check_keywords(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise if there is no keyword argument of a name, as Python itself does."""
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}=?" if close else ""
            raise TypeError(f"got an unexpected keyword argument '{name}'{hint}")


def _build_columns(named: dict[str, Any]) -> LogColumns:
    for name in ("requests", "drop"):
        if name in named:
            named[name] = to_names(named[name])
    if "clip" in named:
        named["clip"] = to_box(named["clip"])
    crs = named.get("crs")
    if isinstance(crs, int):
        named["crs"] = f"EPSG:{crs}"
    elif crs is not None and not isinstance(crs, str):
        # An object of pyproj.
        named["crs"] = str(crs.to_string())
    return LogColumns(**named)


def _take(source: LogSource | None) -> LogPath | None:
    """Turn a frame into an Arrow table, once: some can be read only once."""
    if isinstance(source, Log):
        raise OptionError(
            "a log that was read already is given where one is still to be read; expected a path "
            "or a table; pass what it was read from"
        )
    if source is not None and hasattr(source, "get_fragments"):
        # A dataset of Arrow.
        source = source.to_table()
    table = to_table(source)
    return source if table is None else table


def open_log(
    source: LogSource,
    columns: Mapping[str, Any],
    threads: int | None,
    progress: Heard,
    read: Callable[..., RequestLog] = read_in_memory,
    made: Mapping[str, Any] | None = None,
) -> Log:
    """Take a log that was read, or read one.

    ``made`` are the parameters of its release, which settings that are not given are taken from.
    """
    given = find_input(source, columns)
    if isinstance(source, Log):
        return source
    if made is not None:
        given = given._replace(columns=given.columns.complete(made))
    with listening(progress) as heard:
        rows = read(given.source, given.columns, given.request_log, threads=threads, progress=heard)
    return Log(given, rows)
