"""Options, progress bars and output that several commands share."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.text import Text

from trajcloak.errors import InputError, OptionError
from trajcloak.options import DROPPABLE, LogColumns
from trajcloak.progress import Progress as Listener
from trajcloak.progress_bars import draw_bars

F = TypeVar("F", bound=Callable[..., Any])

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

PATH = click.Path(path_type=Path)

PUBLISHED = "Request attribute to publish; repeat for more. No other column is ever published."
TIME_DEFAULTS = {
    "align": "none",
    "windows": "all day",
    "every": "the log's own",
    "length": "the whole log",
    "max_gap": "twice --every",
    "missing": "withhold",
}
"""What holds where a time option is not given."""


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """Some numbers, separated by commas."""

    def __init__(self, count: int, name: str) -> None:
        self.name = name
        self._count = count

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        """Parse the numbers."""
        try:
            numbers = tuple(map(float, str(value).split(",")))
        except ValueError:
            numbers = ()
        if len(numbers) != self._count:
            self.fail(f"'{value}' is not {self._count} numbers separated by commas", param, ctx)
        return numbers


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."
)

height_option = click.option(
    "--height",
    type=int,
    help="Split each side of the region into 2^HEIGHT cells.  [default: as many as make cells of "
    "at most 10 m; 16 for planar coordinates]",
)

threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Threads to use; never changes the result.  [default: all cores]",
)


def parts_options(function: F) -> F:
    """Add the options that say how members of bundles are shown."""
    for option in (
        click.option(
            "--parts-per",
            default="window",
            show_default=True,
            type=click.Choice(["window", "instant"]),
            help="Parts keep their members for the whole window, or are made anew at every "
            "instant.",
        ),
        click.option(
            "--parts",
            type=int,
            metavar="M",
            help="Show the members of each bundle in parts of at least M users, each with its own "
            "areas; requests stay with the bundle.  [default: one area for all members]",
        ),
    ):
        function = option(function)
    return function


def log_options(function: F, *, request_help: str = PUBLISHED) -> F:
    """Add the options that say how to read a log.

    Passes them on as ``columns`` and ``request_log``.
    """

    def column(
        name: str, help_: str, *names: str, **settings: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return click.option(f"--{name}", *names, metavar="COLUMN", help=help_, **settings)

    @column("user", "Column of user ids.", default="user_id", show_default=True)
    @column("time", "Column of times.", default="time", show_default=True)
    @column("lon", "Column of longitudes (degrees).  [default: lon]")
    @column("lat", "Column of latitudes (degrees).  [default: lat]")
    @column("x", "Column of planar x coordinates.  [default: x]")
    @column("y", "Column of planar y coordinates.  [default: y]")
    @column("request", request_help, "requests", multiple=True)
    @click.option(
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
    )
    @click.option(
        "--tz",
        metavar="ZONE",
        help="Zone of times that have none, such as Europe/Berlin, and of the clock that windows "
        "follow.  [default: times as they are]",
    )
    @click.option(
        "--delimiter",
        metavar="CHARACTER",
        help="Delimiter of CSV files.  [default: found in the header line]",
    )
    @click.option(
        "--crs",
        metavar="SYSTEM",
        help="Coordinate system of the place, such as EPSG:27700: degrees, or metres, which are "
        "used as they are.  [default: WGS 84 for --lon and --lat]",
    )
    @click.option(
        "--clip",
        type=Numbers(4, "x_min,y_min,x_max,y_max"),
        help="Drop rows outside this rectangle, in degrees or the log's own units.",
    )
    @click.option(
        "--max-speed",
        type=float,
        metavar="SPEED",
        help="Refuse reports that are farther from the one before, in metres per second or the "
        "log's own units.  [default: 340 with --drop teleport]",
    )
    @click.option(
        "--drop",
        multiple=True,
        type=click.Choice(DROPPABLE),
        metavar="WHAT",
        help=f"Drop such rows instead of refusing them; repeat for more: {', '.join(DROPPABLE)}.",
    )
    @wraps(function)
    def wrapped(
        user: str,
        time: str,
        lon: str | None,
        lat: str | None,
        x: str | None,
        y: str | None,
        requests: tuple[str, ...],
        is_report: str | None,
        tz: str | None,
        crs: str | None,
        clip: tuple[float, float, float, float] | None,
        max_speed: float | None,
        drop: tuple[str, ...],
        delimiter: str | None,
        **rest: Any,
    ) -> Any:
        columns = LogColumns(
            user, time, lon, lat, x, y, requests, is_report, tz, crs, clip, max_speed, drop,
            delimiter,
        )  # fmt: skip
        return function(columns=columns, **rest)

    return wrapped  # type: ignore[return-value]


def time_options(function: F, *, defaults: Mapping[str, str] = TIME_DEFAULTS) -> F:
    """Add the options that divide the time of a log into instants and windows."""
    for option in (
        click.option(
            "--windows",
            metavar="HOURS",
            help="Hours of the day to publish, such as 07:00-10:00,16:00-19:00.  "
            f"[default: {defaults['windows']}]",
        ),
        click.option(
            "--align",
            type=click.Choice(["none", "day"]),
            help="Let windows start anew at midnight of --tz: none or day.  "
            f"[default: {defaults['align']}]",
        ),
        click.option(
            "--missing",
            type=click.Choice(["withhold", "hold"]),
            help="Users whose location is not always known: leave out, or hold their nearest "
            f"known location.  [default: {defaults['missing']}]",
        ),
        click.option(
            "--max-gap",
            metavar="DURATION",
            help=f"Longest gap to interpolate.  [default: {defaults['max_gap']}]",
        ),
        click.option(
            "--length", type=int, help=f"Instants in a window.  [default: {defaults['length']}]"
        ),
        click.option(
            "--every",
            metavar="DURATION",
            help="Time from one instant to the next, such as 60s or 5m.  "
            f"[default: {defaults['every']}]",
        ),
    ):
        function = option(function)
    return function


def request_options(function: F) -> F:
    """Add the options that say which requests are published.

    The file of the vocabulary is read before the command runs.
    """

    @click.option(
        "--members",
        type=int,
        metavar="N",
        help="Form bundles of at least N users, if users report seldom: a set of requests is "
        "published only if K of them have a row at its instant.  [default: K]",
    )
    @click.option(
        "--vocabulary",
        type=PATH,
        help="Table with a column for each request attribute: the values that may be published. "
        "Requests with another value are withheld.",
    )
    @click.option(
        "--rare",
        default="drop",
        show_default=True,
        type=click.Choice(["drop", "other", "keep"]),
        metavar="RULE",
        help="Requests that few bundles of a window show: drop them, replace their rare values by "
        "'(other)' first, or keep all.",
    )
    @click.option(
        "--rare-below",
        type=int,
        default=2,
        show_default=True,
        metavar="N",
        help="A request or value is rare if fewer than N bundles of the window show it.",
    )
    @click.option(
        "--link-safe",
        is_flag=True,
        help="Withhold requests that recur over windows where fewer than K users could have sent "
        "them all.",
    )
    @click.option(
        "--allow",
        multiple=True,
        metavar="COLUMN",
        help="With --rare keep: attribute to publish although it looks like identifiers or places; "
        "repeat for more.",
    )
    @wraps(function)
    def wrapped(vocabulary: Path | None, **rest: Any) -> Any:
        from trajcloak.requests.vocabulary import read_vocabulary

        return function(vocabulary=vocabulary and read_vocabulary(vocabulary), **rest)

    return wrapped  # type: ignore[return-value]


def check_release_time(release: Path, asked: Mapping[str, Any]) -> None:
    """Raise if a time option that is given is not the one that a release was made with.

    What cannot be read in the manifest is left to the audit to find.
    """
    from trajcloak.release.reading import read_manifest

    try:
        made: Mapping[str, Any] = read_manifest(release)["parameters"]
    except InputError:
        return
    for name, value in asked.items():
        if value is not None and not _is_same(name, value, made[name]):
            option = name.replace("_", "-")
            shown = "the whole log" if made[name] is None else made[name]
            raise OptionError(
                f"{release}: the release was made with {option} = {shown}; expected {value}, as "
                f"--{option} says; leave --{option} out, or check the path of the release"
            )


def _is_same(name: str, asked: Any, made: Any) -> bool:
    """Compare a time option with the manifest, durations by their value."""
    if name not in ("every", "max_gap"):
        return bool(asked == made)
    from trajcloak.trajectories import parse_duration

    read = partial(
        parse_duration, has_timestamps=isinstance(made, str), name=name.replace("_", "-")
    )
    try:
        found = read(str(made))
    except OptionError:
        return True
    return bool(read(asked) == found)


@contextmanager
def progress_bars(*, hidden: bool = False, transient: bool = False) -> Iterator[Listener]:
    """Draw a bar per stage on a terminal; yields the function that moves them.

    ``transient`` bars are taken away when all is done.
    """
    is_shown = err.is_terminal and not hidden
    with draw_bars(err, disable=not is_shown, transient=transient) as listen:
        yield listen


def print_error(message: str) -> None:
    """Print an error: words wrapped on a terminal, one line in a file."""
    text = Text.assemble(("Error:", "bold red"), " ", message)
    err.print(text, soft_wrap=not err.is_terminal)


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    click.echo(json.dumps(content, indent=2))


def ingest_facts(ingest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List what was read of a log, and how many locations are known; zeros are left out."""
    interval = ingest["interval"]
    located = ingest["user_instants"]
    everywhere = sum(located.values()) or 1
    return [
        ("rows read", f"{ingest['rows']:,}"),
        *chain.from_iterable(
            _unless_zero(f"rows dropped ({reason.replace('_', ' ')})", number)
            for reason, number in ingest["dropped"].items()
        ),
        *_unless_zero(
            "repeated times", ingest["repeated"], "{:,} rows (one location, all requests kept)"
        ),
        ("users", f"{ingest['users']:,}"),
        ("from", show_time(ingest["start"])),
        ("to", show_time(ingest["end"])),
        ("instants", f"{ingest['instants']:,}"),
        ("time between reports", "none" if interval is None else _quantiles(interval)),
        *_unless_zero("longer than max-gap", ingest["long_gaps"]),
        *(
            (f"locations {how}", f"{number / everywhere:.1%} ({number:,})")
            for how, number in located.items()
            if number or how == "missing"
        ),
        ("coordinates", ingest["crs"] or "planar"),
        ("time zone", ingest["zone"] or "none"),
        *chain.from_iterable(
            _unless_zero(f"{what} local times", ingest[what])
            for what in ("ambiguous", "nonexistent")
        ),
    ]


def _unless_zero(name: str, number: int, text: str = "{:,}") -> list[tuple[str, str]]:
    return [(name, text.format(number))] if number else []


def show_time(time: int | str) -> str:
    """Write a time of a manifest for people: ``2024-05-06 08:00:00``."""
    return re.sub(r"\.0+(?=Z|$)", "", str(time)).replace("T", " ", 1)


def _quantiles(interval: Mapping[str, Any]) -> str:
    return f"{interval['median']} (90% from {interval['p5']} to {interval['p95']})"
