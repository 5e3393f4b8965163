"""Options that several commands share, and a log on standard input: ``-`` instead of a path."""

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from trajcloak.cli.grouped import (
    COLUMNS,
    REQUESTS,
    F,
    bundle_option,
    column_option,
    combine,
    option,
    place_option,
    request_option,
    row_option,
    time_option,
    work_option,
)
from trajcloak.errors import InputError, OptionError
from trajcloak.options import ALIGNMENTS, CLOAKS, DROPPABLE, MISSING, RARE, TIME_UNITS, LogColumns

PATH = click.Path(path_type=Path)

PUBLISHED = "Request attribute to publish; repeat for more. No other column is ever published."
DASH = Path("-")
STORED = "standard-input"
HEAD_BYTES = 64
STARTS = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\xff\xff\xff\xff": ".arrow"}
PACKED_STARTS = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}


class Numbers(click.ParamType[tuple[float, ...]]):
    """Some numbers, separated by commas, as their names are: ``x_min,y_min,side``."""

    def __init__(self, names: str) -> None:
        self.name = names

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        """Parse the numbers."""
        try:
            numbers = tuple(map(float, str(value).split(",")))
        except ValueError:
            numbers = ()
        expected = len(self.name.split(","))
        if len(numbers) != expected:
            self.fail(f"'{value}' is not {expected} numbers separated by commas", param, ctx)
        return numbers


def name_log(path: Path) -> str:
    """Name a log as the command line does."""
    return str(DASH if path.name.startswith(f"{STORED}.") else path)


def name_in_messages(text: str) -> str:
    """Name standard input in a message, not the file that holds it."""
    return re.sub(rf"\S*/{STORED}[\w.]*", "standard input", text)


def take_standard_input(
    ctx: click.Context, param: click.Parameter, value: tuple[Path, ...]
) -> list[Path]:
    """Put a file with what comes on standard input in the place of ``-``.

    It stands in a private folder, as long as the command runs.
    """
    if DASH not in value or ctx.resilient_parsing:
        return list(value)
    folder = ctx.with_resource(tempfile.TemporaryDirectory(prefix="trajcloak-"))
    file = Path(folder, STORED)
    with file.open("wb") as stored:
        shutil.copyfileobj(sys.stdin.buffer, stored)
    file = _name_by_content(file)
    return [file if path == DASH else path for path in value]


def _name_by_content(file: Path) -> Path:
    """Give a file the suffixes of its kind, and of how it is compressed."""
    from trajcloak.log.formats import open_text

    with file.open("rb") as stored:
        head = stored.read(HEAD_BYTES)
    packed = next((end for end, start in PACKED_STARTS.items() if head.startswith(start)), "")
    if packed:
        file = file.rename(f"{file}{packed}")
        # What is damaged is refused when it is read.
        with suppress(OSError), open_text(file) as unpacked:
            head = unpacked.read(HEAD_BYTES)
    text = ".jsonl" if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else ".csv"
    kind = next((end for start, end in STARTS.items() if head.startswith(start)), text)
    return file.rename(file.with_name(f"{STORED}{kind}{packed}"))


k_option = option(
    "--k", required=True, type=int, help="Least number of users in a bundle; 2 or more."
)

log_argument = click.argument(
    "log", nargs=-1, required=True, type=PATH, callback=take_standard_input
)


def algorithms_option(default: str, help_: str) -> Callable[[F], F]:
    """Build the option that names some algorithms."""

    def split(_ctx: click.Context, _param: click.Parameter, value: str) -> list[str]:
        return [name.strip() for name in value.split(",")]

    return bundle_option("--algorithms", default=default, callback=split, help=help_)


json_option = option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."
)

height_option = place_option(
    "--height",
    type=int,
    help="Split each side of the region into 2^HEIGHT cells.  [default: as many as make cells of "
    "at most 10 m; 16 for planar coordinates]",
)

region_option = place_option(
    "--region",
    type=Numbers("x_min,y_min,side"),
    help="Square to use instead of one fitted to the log, in metres or the log's own units.",
)

rows_alike_option = request_option(
    "--rows-alike",
    is_flag=True,
    help="Say that rows which do not follow the schedule of the others have nothing to do with "
    "requests.",
)

seed_option = bundle_option(
    "--seed", default=0, help="For algorithms that draw at random; same seed, same result."
)

cloak_option = bundle_option(
    "--cloak",
    default="mbr",
    type=click.Choice(CLOAKS),
    help="Areas: bounding boxes snapped to cells (mbr), or (semi-)quadrants (quad).",
)

threads_option = work_option(
    "--threads",
    type=click.IntRange(min=1),
    help="Threads to use; never changes the result.  [default: all cores]",
)


parts_options = combine(
    bundle_option(
        "--parts",
        type=int,
        metavar="M",
        help="Show the members of each bundle in parts of at least M users, each with its own "
        "areas; requests stay with the bundle.  [default: one area for all members]",
    ),
    bundle_option(
        "--parts-per",
        default="window",
        type=click.Choice(["window", "instant"]),
        help="Parts keep their members for the whole window, or are made again at every "
        "instant; then refined makes bundles of half as many users again, unless --members "
        "is given.",
    ),
)
"""How members of bundles are shown."""


def log_options(function: Callable[..., Any], *, request_help: str = PUBLISHED) -> Any:
    """Add the options that say how to read a log.

    Passes them on as ``columns`` and ``request_log``.
    """

    def column(name: str, help_: str, *names: str, **settings: Any) -> Any:
        settings = {"group": COLUMNS, **settings}
        return option(f"--{name}", *names, metavar="COLUMN", help=help_, **settings)

    @column("user", "Column of user ids.  [default: user_id, uid, device_id, ...]")
    @column("time", "Column of times.  [default: time, timestamp, datetime, ...]")
    @column("lon", "Column of longitudes (degrees).  [default: lon, lng, longitude, ...]")
    @column("lat", "Column of latitudes (degrees).  [default: lat, latitude]")
    @column("x", "Column of planar x coordinates.  [default: x, easting]")
    @column("y", "Column of planar y coordinates.  [default: y, northing]")
    @column("request", request_help, "requests", multiple=True, group=REQUESTS)
    @request_option(
        "--request-log",
        type=PATH,
        metavar="FILE",
        help="Requests, if LOG has locations only: a file, folder or glob with user, time and "
        "request attributes.  [default: rows of LOG carry them]",
    )
    @column(
        "is-report",
        "Column that says which rows are location reports: true or false. Requests are read from "
        "all rows, and need no place.  [default: all rows are]",
        group=REQUESTS,
    )
    @time_option(
        "--tz",
        metavar="ZONE",
        help="Zone of times that have none, such as Europe/Berlin, and of the clock that windows "
        "follow.  [default: times as they are]",
    )
    @time_option(
        "--time-unit",
        type=click.Choice(list(TIME_UNITS)),
        help="Times are numbers since 1970, UTC, in this unit.  [default: whole numbers are "
        "instants]",
    )
    @time_option(
        "--time-format",
        metavar="FORMAT",
        help="Form of times that are text, such as '%d.%m.%Y %H:%M'.  [default: ISO 8601]",
    )
    @column_option(
        "--delimiter",
        metavar="CHARACTER",
        help="Delimiter of CSV files.  [default: found in the header line]",
    )
    @place_option(
        "--crs",
        metavar="SYSTEM",
        help="Coordinate system of the places, such as EPSG:27700: degrees, or metres, which are "
        "used as they are.  [default: WGS 84 for --lon and --lat]",
    )
    @place_option(
        "--clip",
        type=Numbers("x_min,y_min,x_max,y_max"),
        help="Drop rows outside this rectangle, in degrees or the log's own units.",
    )
    @row_option(
        "--max-speed",
        type=float,
        metavar="SPEED",
        help="Refuse reports that are farther from the one before, in metres per second or the "
        "log's own units.  [default: 340 with --drop teleport]",
    )
    @row_option(
        "--drop",
        multiple=True,
        type=click.Choice(DROPPABLE),
        metavar="WHAT",
        help=f"Drop such rows instead of refusing them; repeat for more: {', '.join(DROPPABLE)}.",
    )
    @wraps(function)
    def wrapped(**given: Any) -> Any:
        columns = {field.name: given.pop(field.name) for field in fields(LogColumns)}
        return function(columns=LogColumns(**columns), **given)

    return wrapped


TIME_OPTIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "every": (
        "Time from one instant to the next, such as 60s or 5m.",
        "the log's own",
        {"metavar": "DURATION"},
    ),
    "length": ("Instants in a window.", "the whole log", {"type": click.IntRange(min=1)}),
    "max_gap": ("Longest gap to interpolate.", "twice --every", {"metavar": "DURATION"}),
    "missing": (
        "Users whose location is not always known: leave out, or hold their nearest known "
        "location.",
        "withhold",
        {"type": click.Choice(MISSING)},
    ),
    "align": (
        "Start a new window at midnight of --tz: none or day.",
        "none",
        {"type": click.Choice(ALIGNMENTS)},
    ),
    "windows": (
        "Hours of the day to publish, such as 07:00-10:00,16:00-19:00.",
        "all day",
        {"metavar": "HOURS"},
    ),
}
"""How the time of a log is divided: help, what holds without the option, and its settings."""


def build_time_options(
    default: str | None = None, names: Collection[str] = tuple(TIME_OPTIONS)
) -> Callable[[F], F]:
    """Build time options, with another ``default`` in their help if one is given."""
    return combine(
        *(
            time_option(
                f"--{name.replace('_', '-')}",
                help=f"{text}  [default: {default or own}]",
                **settings,
            )
            for name, (text, own, settings) in TIME_OPTIONS.items()
            if name in names
        )
    )


time_options = build_time_options()

released_log_options = combine(
    partial(
        log_options,
        request_help="Request attribute of the release; repeat for more.  "
        "[default: those of the release]",
    ),
    build_time_options("as the release says"),
)
"""How to read, and to divide, the log of a release."""


def take_vocabulary(
    ctx: click.Context, param: click.Parameter, value: Path | None
) -> dict[str, list[str]] | None:
    """Read the file of a vocabulary, if one is given."""
    from trajcloak.given_values import read_vocabulary

    return None if value is None else read_vocabulary(value)


vocabulary_option = request_option(
    "--vocabulary",
    type=PATH,
    callback=take_vocabulary,
    metavar="FILE",
    help="Table with a column for each request attribute: the only values that are published.",
)

request_options = combine(
    bundle_option(
        "--members",
        type=int,
        metavar="N",
        help="Form bundles of at least N users, if users report seldom: a set of requests is "
        "published only if K of them have a row at its instant.  [default: K]",
    ),
    vocabulary_option,
    request_option(
        "--rare",
        default="drop",
        type=click.Choice(RARE),
        metavar="RULE",
        help="Requests that few bundles of a window show: drop them, replace their rare values by "
        "'(other)' first, or keep all.",
    ),
    request_option(
        "--rare-below",
        default=2,
        metavar="N",
        help="A request or value is rare if fewer than N bundles of the window show it.",
    ),
    request_option(
        "--link-safe",
        is_flag=True,
        help="Withhold requests that recur over windows where fewer than K users could have sent "
        "them all.",
    ),
    request_option(
        "--allow",
        multiple=True,
        metavar="COLUMN",
        help="With --rare keep: attribute to publish although it looks like identifiers or places; "
        "repeat for more.",
    ),
)
"""Which requests are published."""


def check_release_time(release: Path, asked: Mapping[str, Any]) -> None:
    """Raise if a time option that is given is not the one that a release was made with.

    A manifest that cannot be read is left to the audit to find.
    """
    from trajcloak.release.reading import read_manifest
    from trajcloak.trajectories import parse_duration

    try:
        parameters: Mapping[str, Any] = read_manifest(release)["parameters"]
    except InputError:
        return
    for name, value in asked.items():
        option, made = name.replace("_", "-"), parameters[name]
        if value is None or value == made:
            continue
        if name in ("every", "max_gap"):
            read = partial(parse_duration, has_timestamps=isinstance(made, str), name=option)
            if read(value) == read(str(made)):
                continue
        shown = "the whole log" if made is None else made
        raise OptionError(
            f"{release}: the release was made with {option} = {shown}; expected {value}, as "
            f"--{option} says; leave --{option} out, or check the path of the release"
        )
