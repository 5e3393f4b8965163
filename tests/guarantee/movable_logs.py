"""Logs at random, apart from their requests, so that these can be given to other senders."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.options import ALGORITHMS, LogColumns

ONE_LOG, TWO_INPUTS, MARKED = "one log", "two inputs", "marked reports"
KINDS = (ONE_LOG, TWO_INPUTS, MARKED)
"""Where requests are: in the rows; in a log of their own; in rows that may be no reports."""

NAMES = ("what", "level")
NOTHING = (None, None)
WORDS = ("7", "8", "a", "rare")
"""Often only numbers are shown, which decides about types."""
MORNING = datetime(2024, 3, 4, 8)
FORMATS = ("table", "parquet", "csv")
CENTRE, DEGREES = (10.0, 50.0), 1e-3
"""Where a log with longitude and latitude is, and how many degrees are a unit of a planar one."""

Values = tuple[str | None, int | None]


class Report(NamedTuple):
    """A location report; dirty ones lack something."""

    user: Any
    time: int
    x: float | None
    y: float | None


class Request(NamedTuple):
    """A request; ``row`` is the report that carries it, if there is one."""

    user: Any
    time: int
    values: Values
    row: int | None = None


@dataclass(frozen=True)
class MovableLog:
    """A log without its requests, and how it is to be anonymized."""

    kind: str
    reports: list[Report]
    columns: dict[str, Any]
    k: int
    options: dict[str, Any]
    has_moments: bool
    is_geographic: bool
    format: str
    words: tuple[str, ...] = WORDS

    @property
    def every(self) -> int:
        """Seconds from an instant to the next."""
        return int(self.options["every"].removesuffix("s"))

    def build_time(self, seconds: int) -> Any:
        return MORNING + timedelta(seconds=seconds) if self.has_moments else seconds


def draw_movable(seed: int, kind: str) -> tuple[MovableLog, list[Request]]:
    """Draw a log: users on curved ways, rows at any second, gaps, dirty rows, all options."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    every = int(rng.choice([10, 30]))
    num_instants = int(rng.integers(2, 9))
    reports = _draw_reports(rng, every, num_instants)
    is_geographic = bool(rng.random() < 0.3)
    clip = (-14.0, -20.0, 20.0, 20.0)
    if is_geographic:
        reports = [r._replace(x=_to_degrees(0, r.x), y=_to_degrees(1, r.y)) for r in reports]
        clip = tuple(_to_degrees(side % 2, edge) for side, edge in enumerate(clip))
    drop = _spoil(rng, reports, is_geographic)
    log = MovableLog(
        kind,
        reports,
        {
            "drop": drop,
            "max_speed": (340.0 if is_geographic else 50.0) if "teleport" in drop else None,
            "clip": clip if rng.random() < 0.15 else None,
        },
        int(rng.integers(2, 4)),
        {},
        has_moments=bool(rng.random() < 0.3),
        is_geographic=is_geographic,
        format=str(rng.choice(FORMATS)),
    )
    log.options.update(_draw_options(rng, log, every, num_instants))
    return log, draw_requests(rng, log)


def _to_degrees(axis: int, value: Any) -> float:
    return round(CENTRE[axis] + DEGREES * value, 6)


def _draw_reports(rng: np.random.Generator, every: int, num_instants: int) -> list[Report]:
    """Users on circles around a few centres; on a grid of seconds or not."""
    keep = rng.choice([1.0, 0.9, 0.7, 0.5])
    is_regular = rng.random() < 0.3
    centres = rng.uniform(-10, 10, (3, 2))
    reports = []
    for user in range(int(rng.integers(4, 14))):
        centre, radius = centres[rng.integers(3)], rng.uniform(0.5, 3)
        speed, phase = rng.uniform(0.02, 0.1), rng.uniform(0, 6)
        begin, end = 0, num_instants
        if rng.random() < 0.2:
            begin, end = sorted(rng.integers(0, num_instants + 1, 2).tolist())
        for instant in range(begin, end):
            seconds = rng.choice(every, int(rng.integers(1, 3)), replace=False).tolist()
            for second in [0] if is_regular else seconds:
                if rng.random() < keep:
                    time = instant * every + second
                    angle = speed * time + phase
                    x, y = centre + radius * np.array([np.cos(angle), np.sin(angle)])
                    reports.append(Report(f"u{user}", time, round(x, 3), round(y, 3)))
                    # Rows that differ in what they carry, if at all.
                    reports += reports[-1:] * int(rng.random() < 0.1)
    reports = reports or [Report("u0", 0, 1.0, 1.0)]
    return [reports[i] for i in rng.permutation(len(reports))]


def _spoil(rng: np.random.Generator, reports: list[Report], is_geographic: bool) -> tuple[str, ...]:
    """Add a few dirty rows; says which to drop."""
    unit = DEGREES if is_geographic else 1.0
    spoilt: dict[str, Callable[[Report], Report]] = {
        "empty": lambda r: r._replace(x=None),
        "out-of-range": lambda r: r._replace(y=float("inf")),
        "null-island": lambda r: r._replace(x=0.0, y=0.0, time=r.time + 1),
        "conflict": lambda r: r._replace(x=(r.x or 0) + 0.5 * unit),
        "teleport": lambda r: r._replace(y=(r.y or 0) + 900.0 * unit, time=r.time + 1),
    }
    if is_geographic:
        spoilt["swapped"] = lambda r: r._replace(x=r.y, y=r.x, time=r.time + 1)
    drop = []
    for reason, change in spoilt.items():
        if rng.random() < 0.2:
            chosen = reports[rng.integers(len(reports))]
            if chosen.x is not None:
                reports.insert(int(rng.integers(len(reports) + 1)), change(chosen))
                drop.append(reason)
    return tuple(drop)


def _draw_options(
    rng: np.random.Generator, log: MovableLog, every: int, num_instants: int
) -> dict[str, Any]:
    def sometimes(share: float, value: Any) -> Any:
        return value if rng.random() < share else None

    def duration(seconds: int) -> str:
        return f"{seconds}s" if log.has_moments else str(seconds)

    algorithm = str(rng.choice(["traj-anon", "auto", *(a for a in ALGORITHMS if a != "exact")]))
    can_suppress = algorithm in ("auto", "refined", "traj-anon")
    suppress = rng.random()
    price = 5e5 if log.is_geographic else 40.0
    has_parts = rng.random() < 0.2
    options = {
        "every": duration(every),
        "max_gap": duration(int(rng.choice([2, 3, 5])) * every),
        "length": sometimes(0.7, int(rng.integers(1, num_instants + 1))),
        "missing": sometimes(0.6, "hold"),
        "algorithm": algorithm,
        "cloak": str(rng.choice(["mbr", "quad"])),
        "height": 6,
        "max_suppressed": 0.3 if can_suppress and suppress < 0.2 else None,
        "suppress_above": price if can_suppress and 0.2 <= suppress < 0.3 else None,
        "windows": sometimes(0.2, "08:00-08:01,08:02-09:00") if log.has_moments else None,
        "members": sometimes(0.3, log.k + 1),
        "parts": 2 if has_parts else None,
        "parts_per": str(rng.choice(["window", "instant"])) if has_parts else None,
        "rare": str(rng.choice(["drop", "other", "keep"])),
        "rare_below": sometimes(0.3, 3),
        "vocabulary": sometimes(0.3, {"what": ["7", "8", "a"], "level": [0, 1]}),
        "link_safe": sometimes(0.5, True),
        "rows_alike": True if log.kind == ONE_LOG and rng.random() < 0.9 else None,
    }
    return {name: value for name, value in options.items() if value is not None}


def draw_values(rng: np.random.Generator, log: MovableLog) -> Values:
    """Draw what a request holds: each word half as often as the one before."""
    share = 0.5 ** np.arange(len(log.words))
    what = None if rng.random() < 0.1 else str(rng.choice(log.words, p=share / share.sum()))
    level = None if what is not None and rng.random() < 0.6 else int(rng.integers(0, 3))
    return what, level


def draw_requests(rng: np.random.Generator, log: MovableLog) -> list[Request]:
    """One log: some rows carry one. Otherwise at any second, also before and after all reports."""
    share = rng.choice([0.2, 0.5, 0.9])
    if log.kind == ONE_LOG:
        return [
            Request(report.user, report.time, draw_values(rng, log), row)
            for row, report in enumerate(log.reports)
            if rng.random() < share
        ]
    users = [*(report.user for report in log.reports), "stranger"]
    end = max(report.time for report in log.reports)
    times = rng.integers(-log.every, end + 2 * log.every, int(share * len(users))).tolist()
    return [Request(users[rng.integers(len(users))], time, draw_values(rng, log)) for time in times]


class Inputs(NamedTuple):
    """What a run is given; ``request_log`` is None where rows of the source carry requests."""

    source: Any
    columns: LogColumns
    request_log: Any
    k: int
    options: dict[str, Any]


def write_log(log: MovableLog, requests: Sequence[Request], folder: Path) -> Inputs:
    """Write a log with its requests, or build tables of it."""
    source, columns, request_log = _write_parts(log, requests, folder)
    return Inputs(source, columns, request_log, log.k, log.options)


def _write_parts(
    log: MovableLog, requests: Sequence[Request], folder: Path
) -> tuple[Any, LogColumns, Any]:
    columns = LogColumns(requests=NAMES, **log.columns)
    carried = {request.row: request.values for request in requests}
    rows = [(*r, *carried.get(number, NOTHING)) for number, r in enumerate(log.reports)]
    places = ("lon", "lat") if log.is_geographic else ("x", "y")
    names = ("user_id", "time", *places, *NAMES)
    if log.kind == ONE_LOG:
        return _write(log, names, rows, folder / "log"), columns, None
    if log.kind == MARKED:
        columns = LogColumns(requests=NAMES, is_report="is_report", **log.columns)
        marked = [(*row, True) for row in rows]
        marked += [
            # A place that is no place: nobody may look at it.
            (*r[:2], None, float("inf"), *r.values, False)
            for r in requests
            if r.row is None
        ]
        return _write(log, (*names, "is_report"), marked, folder / "log"), columns, None
    sent = [(request.user, request.time, *request.values) for request in requests]
    locations = [tuple(report) for report in log.reports]
    return (
        _write(log, names[:4], locations, folder / "log"),
        columns,
        _write(log, ("user_id", "time", *NAMES), sent, folder / "requests"),
    )


def _write(log: MovableLog, names: Sequence[str], rows: Sequence[Any], path: Path) -> Any:
    """Build a table, or write a file of the log's format."""
    columns = {name: [row[number] for row in rows] for number, name in enumerate(names)}
    columns["time"] = [log.build_time(time) for time in columns["time"]]
    if log.format == "csv":
        path = path.with_suffix(".csv")
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return path
    types = {
        "user_id": pa.string(),
        "time": pa.timestamp("s") if log.has_moments else pa.int64(),
        "what": pa.string(),
        "level": pa.int64(),
        "is_report": pa.bool_(),
    }
    table = pa.table(
        {name: pa.array(column, types.get(name, pa.float64())) for name, column in columns.items()}
    )
    if log.format == "table":
        return table
    path = path.with_suffix(".parquet")
    pq.write_table(table, path, row_group_size=7)
    return path
