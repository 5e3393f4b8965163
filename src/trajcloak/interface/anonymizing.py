"""From a log to a release, in one call."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from trajcloak.algorithms import Algorithm
from trajcloak.algorithms.group_algorithm import CustomAlgorithm, wrap_custom
from trajcloak.algorithms.refined import Refined
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.engines import open_engine
from trajcloak.errors import OptionError
from trajcloak.given_values import Box, Duration, Names, to_duration, to_names, to_square
from trajcloak.interface.logs import ColumnOptions, Log, LogSource, find_input
from trajcloak.interface.releases import Made, Release
from trajcloak.options import Options
from trajcloak.pipeline import anonymize_log, anonymize_on
from trajcloak.progress import Heard, listening

AlgorithmName = Literal[
    "auto",
    "traj-anon",
    "refined",
    "baseline",
    "fast-clustering",
    "slow-clustering",
    "hilbert-clustering",
    "exact",
]


def anonymize(
    source: LogSource,
    *,
    k: int,
    user: str | None = None,
    time: str | None = None,
    lon: str | None = None,
    lat: str | None = None,
    x: str | None = None,
    y: str | None = None,
    requests: Names = (),
    request_log: LogSource | None = None,
    is_report: str | None = None,
    tz: str | None = None,
    crs: Any = None,
    clip: Box | None = None,
    max_speed: float | None = None,
    drop: Names = (),
    delimiter: str | None = None,
    time_unit: Literal["s", "ms", "us"] | None = None,
    time_format: str | None = None,
    every: Duration | None = None,
    length: int | None = None,
    max_gap: Duration | None = None,
    missing: Literal["withhold", "hold"] = "withhold",
    align: Literal["none", "day"] = "none",
    windows: str | None = None,
    height: int | None = None,
    region: Box | None = None,
    algorithm: AlgorithmName | Refined | TrajAnon | CustomAlgorithm = "auto",
    cloak: Literal["mbr", "quad"] = "mbr",
    tree: Literal["usb", "usb-instant", "us", "u"] = "usb",
    effort: Literal["low", "normal", "high"] = "normal",
    seed: int = 0,
    suppress_above: float | None = None,
    max_suppressed: float | None = None,
    members: int | None = None,
    parts: int | None = None,
    parts_per: Literal["window", "instant"] = "window",
    rows_alike: bool = False,
    vocabulary: Mapping[str, Sequence[Any]] | None = None,
    rare: Literal["drop", "other", "keep"] = "drop",
    rare_below: int = 2,
    link_safe: bool = False,
    allow: Names = (),
    memory: str | int | None = None,
    engine: Any = None,
    scratch: str | Path | None = None,
    threads: int | None = None,
    progress: Heard = False,
) -> Release:
    """Bundle the users of a log so that every request has at least k possible senders.

    Parameters
    ----------
    source
        A path, a glob, a folder or a list of these; a table or frame of pandas, polars, Arrow,
        GeoPandas, DuckDB or MovingPandas; with a client of dask's, also one of dask; or a log
        that :func:`read_log` has read. Points of GeoPandas come with their coordinate system;
        an index of times is the column ``time``.
    k
        Least number of users in a bundle; at least 2.
    user, time
        Columns: who, and when. Columns that are not named are recognised by their usual names,
        such as ``uid``, ``timestamp`` or ``lng``.
    lon, lat
        Columns: degrees on WGS 84.
    x, y
        Columns: planar coordinates.
    requests
        Columns: the request attributes. No other column is ever published.
    request_log
        The requests, if ``source`` has locations only: files or a table with user, time and
        request attributes.
    is_report
        Column that says which rows are location reports: true or false. Requests are read from
        all rows, and need no place. Default: all rows are.
    tz
        Time zone, such as ``Europe/Berlin``, of times without one, and of the clock that windows
        follow.
    crs
        Coordinate system of the places, such as ``EPSG:27700``: in degrees, or in metres, which
        are not projected. Default: WGS 84, or not known for ``x``, ``y``.
    clip
        Rectangle: rows outside are dropped. Numbers in the log's own units, or a box of shapely.
    max_speed
        Reports that would need a higher speed are refused: in metres per second, or the log's
        own units.
    drop
        Rows to drop instead of refusing the log: ``empty`` (no user, time or place),
        ``out-of-range`` (impossible coordinates), ``null-island`` (exactly 0, 0), ``swapped`` (far
        from most rows, but among them with longitude and latitude swapped), ``conflict`` (two
        places at one time), ``teleport`` (faster than ``max_speed``, by default 340 m/s).
    delimiter
        Delimiter of CSV files; default: the one of ``,``, ``;``, tab and ``|`` that cuts the
        header line into most columns.
    time_unit
        Times are numbers since 1970, UTC, in this unit. Default: whole numbers are instants.
    time_format
        Form of times that are text, such as ``%d.%m.%Y %H:%M``. Default: ISO 8601.
    every
        Time from one instant to the next: ``60s``, a timedelta of Python, pandas or numpy, or a
        whole number for integer times. Default: the log's own, if it has one.
    length
        Instants in a window; default: the whole log is one window.
    max_gap
        Longest gap between reports to interpolate; default: twice ``every``.
    missing
        Users whose location is not known at all instants of a window: leave them out, or hold
        their nearest known location.
    align
        ``day``: a new window starts at each midnight.
    windows
        Hours of the day to publish, such as ``07:00-10:00,16:00-19:00``.
    height
        The region's side has ``2**height`` cells.
    region
        Square to use instead of one fitted to the log: least x, least y and side; or a box of
        shapely, for the smallest square over it.
    algorithm
        ``auto`` is ``refined`` for ``mbr`` cloaks and ``traj-anon`` for ``quad``; or one with
        settings, such as ``tc.Refined(effort="high")``; or one of your own, see
        :class:`CustomAlgorithm`.
    cloak
        Areas to publish: bounding boxes snapped to cells, or (semi-)quadrants.
    tree
        Tree of the paper that ``traj-anon`` searches.
    effort
        How hard ``refined`` tries.
    seed
        For algorithms that draw at random.
    suppress_above
        Leave out users whose cloaks would sum to this area or more in a window.
    max_suppressed
        Leave out at most this share of users, where it saves most area.
    members
        Least number of users in a bundle, if it is to be more than k: where users report seldom,
        more sets of requests then have k users who reported.
    parts
        Show the members of each bundle in parts of at least so many users, each with its own
        areas; requests stay with the bundle.
    parts_per
        Whether a part keeps its members for the whole window, or members are divided again at
        every instant.
    rows_alike
        Whether rows that do not follow the schedule of the others have nothing to do with
        requests. Only the owner of the log can know.
    vocabulary
        For each request attribute the values that may be published; requests with another value
        are withheld.
    rare
        Requests that few bundles of a window show: withhold them; replace their rare values by
        ``(other)`` first; or publish all.
    rare_below
        A request, or a value, is rare if fewer bundles of the window show it.
    link_safe
        Withhold requests that recur in several windows where fewer than k users could have sent
        all of them.
    allow
        With ``rare="keep"``: attributes to publish although they look like identifiers.
    memory
        Most memory that this process may take, such as ``4GiB``; the log may be larger.
    engine
        The cluster to work on: a ``distributed.Client`` or a ``SparkSession``.
    scratch
        With ``engine`` or ``memory``: a folder, as private as the log, in which shards wait as
        long as the release is there; workers must see it, too.
    threads
        In this process; default: all cores. Never changes the result.
    progress
        True: show bars; or a function that is called as work is done.

    Raises
    ------
    OptionError
        If an argument cannot be used.
    InputError
        If the log breaks a rule, or a request attribute looks like identifiers or places and
        is not allowed.
    NotEnoughUsersError
        If no window has k users whose location is known throughout.
    OutputError
        If something cannot be written into the scratch folder.

    Examples
    --------
    >>> import trajcloak as tc
    >>> release = tc.anonymize("log.parquet", k=50, requests=["category", "detail"])
    >>> release.save("anonymized", policy="who-is-where.parquet")

    With a cluster: ``tc.anonymize("logs/", k=50, engine=Client("tls://scheduler:8786"),
    scratch="/shared/private")``.
    """
    arguments = locals()
    columns = {name: arguments[name] for name in ColumnOptions.__annotations__}
    asked = {field.name: arguments[field.name] for field in fields(Options)}
    named, settings, other = _take_algorithm(algorithm)
    asked |= {"algorithm": named, **settings, "allow": to_names(allow)}
    asked |= {"every": to_duration(every), "max_gap": to_duration(max_gap)}
    if region is not None:
        asked["region"] = to_square(region)
    options = Options(**asked)
    if other is not None and (suppress_above is not None or max_suppressed is not None):
        raise OptionError(
            "an algorithm of your own suppresses nobody; expected no --suppress-above and no "
            "--max-suppressed with it; leave them out"
        )
    given = find_input(source, columns)
    with listening(progress) as heard:
        if isinstance(source, Log):
            where = {"engine": engine, "memory": memory, "scratch": scratch}
            if unfit := [f"{name}=" for name, value in where.items() if value is not None]:
                raise OptionError(
                    f"the log was read already, and {', '.join(unfit)} is given; expected a log "
                    f"that is still to be read; pass the path of the log"
                )
            run = anonymize_log(source._rows, options, other, threads=threads, progress=heard)
        else:
            opened = open_engine(
                engine, memory=memory, scratch=scratch, threads=threads, progress=heard
            )
            try:
                run = anonymize_on(
                    opened, given.source, given.columns, options, given.request_log, other
                )
            except BaseException:
                opened.close()
                raise
    manifest: Any = run.manifest
    return Release(manifest, made=Made(run, given, vocabulary))


def _take_algorithm(given: Any) -> tuple[str, dict[str, Any], Algorithm | None]:
    """Find the name of an algorithm, its settings, and what to run if it is none of ours."""
    if isinstance(given, str):
        return given, {}, None
    if isinstance(given, Refined | TrajAnon):
        setting = "effort" if isinstance(given, Refined) else "tree"
        others = {one.name for one in fields(given) if getattr(given, one.name) != one.default}
        others.discard(setting)
        if others:
            raise OptionError(
                f"{type(given).__name__} is given {', '.join(sorted(others))}; expected {setting} "
                f"alone; pass the others to anonymize itself"
            )
        return given.name, {setting: getattr(given, setting)}, None
    if not isinstance(given, CustomAlgorithm):
        raise OptionError(
            f"algorithm is a {type(given).__name__}; expected a name, or an object with a name and "
            f"a method group(cells, k); pass another --algorithm"
        )
    checked = wrap_custom(given)
    return checked.name, {}, checked
