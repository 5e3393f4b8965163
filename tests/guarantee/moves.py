"""Logs at random, and the same logs with requests that others sent: the bytes must not tell."""

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import trajcloak as tc
from small_logs import new_folder
from trajcloak.options import ALGORITHMS

ONE_LOG, TWO_INPUTS, MARKED = "one log", "two inputs", "marked reports"
KINDS = (ONE_LOG, TWO_INPUTS, MARKED)
"""Where requests are: in the rows; in a log of their own; in rows that may be no reports."""

NAMES = ("what", "level")
NOTHING = (None, None)
WORDS = ("a", "b", "7", "rare")
MORNING = datetime(2024, 3, 4, 8)

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
    is_text: bool

    def build_time(self, seconds: int) -> Any:
        return MORNING + timedelta(seconds=seconds) if self.has_moments else seconds


Anonymize = Callable[..., tc.Release]
"""Takes a source, the columns, the request log, k and options."""


def anonymize_in_memory(
    source: Any, columns: tc.LogColumns, request_log: Any, k: int, options: dict[str, Any]
) -> tc.Release:
    given = {} if request_log is None else {"request_log": request_log}
    return tc.anonymize(source, k, columns=columns, threads=1, **given, **options)


def draw_movable(seed: int, kind: str) -> tuple[MovableLog, list[Request]]:
    """Draw a log: users on curved ways, rows at any second, gaps, dirty rows, all options."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    every = int(rng.choice([10, 30]))
    num_instants = int(rng.integers(2, 9))
    reports = _draw_reports(rng, every, num_instants)
    drop = _spoil(rng, reports)
    log = MovableLog(
        kind,
        reports,
        {
            "drop": drop,
            "max_speed": 50.0 if "teleport" in drop else None,
            "clip": (-14.0, -20.0, 20.0, 20.0) if rng.random() < 0.15 else None,
        },
        int(rng.integers(2, 4)),
        {},
        has_moments=bool(rng.random() < 0.3),
        is_text=bool(rng.random() < 0.3),
    )
    log.options.update(_draw_options(rng, log, every, num_instants))
    return log, _draw_requests(rng, log, every * num_instants)


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
    reports = reports or [Report("u0", 0, 1.0, 1.0)]
    return [reports[i] for i in rng.permutation(len(reports))]


def _spoil(rng: np.random.Generator, reports: list[Report]) -> tuple[str, ...]:
    """Add a few dirty rows; says which to drop."""
    spoilt: dict[str, Callable[[Report], Report]] = {
        "empty": lambda r: r._replace(x=None),
        "out-of-range": lambda r: r._replace(y=float("inf")),
        "null-island": lambda r: r._replace(x=0.0, y=0.0, time=r.time + 1),
        "conflict": lambda r: r._replace(x=(r.x or 0) + 0.5),
        "teleport": lambda r: r._replace(y=(r.y or 0) + 900.0, time=r.time + 1),
    }
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
    options = {
        "every": duration(every),
        "max_gap": duration(int(rng.choice([2, 3, 5])) * every),
        "length": sometimes(0.7, int(rng.integers(1, num_instants + 1))),
        "missing": sometimes(0.6, "hold"),
        "algorithm": algorithm,
        "cloak": str(rng.choice(["mbr", "quad"])),
        "height": 6,
        "max_suppressed": 0.3 if can_suppress and suppress < 0.2 else None,
        "suppress_above": 40.0 if can_suppress and 0.2 <= suppress < 0.3 else None,
        "members": sometimes(0.3, log.k + 1),
        "rare": str(rng.choice(["drop", "other", "keep"])),
        "rare_below": sometimes(0.3, 3),
        "vocabulary": sometimes(0.3, {"what": ["a", "b", "7"], "level": [0, 1]}),
        "link_safe": sometimes(0.5, True),
        "rows_alike": True if log.kind == ONE_LOG and rng.random() < 0.9 else None,
    }
    return {name: value for name, value in options.items() if value is not None}


def draw_values(rng: np.random.Generator) -> Values:
    what = None if rng.random() < 0.1 else str(rng.choice(WORDS, p=[0.4, 0.3, 0.2, 0.1]))
    level = None if what is not None and rng.random() < 0.6 else int(rng.integers(0, 3))
    return what, level


def _draw_requests(rng: np.random.Generator, log: MovableLog, end: int) -> list[Request]:
    share = rng.choice([0.2, 0.5, 0.9])
    if log.kind == ONE_LOG:
        return [
            Request(report.user, report.time, draw_values(rng), row)
            for row, report in enumerate(log.reports)
            if rng.random() < share
        ]
    users = [report.user for report in log.reports]
    return [
        Request(users[rng.integers(len(users))], int(rng.integers(0, end)), draw_values(rng))
        for _ in range(int(share * len(users)))
    ]


class Outcome(NamedTuple):
    """The files of a release, or the error; and the private policy."""

    files: dict[str, bytes] | tuple[str, str]
    policy: list[Any]


def publish(
    log: MovableLog, requests: Sequence[Request], anonymize: Anonymize = anonymize_in_memory
) -> Outcome:
    with new_folder() as folder:
        source, columns, request_log = write_log(log, requests, folder)
        try:
            result = anonymize(source, columns, request_log, log.k, log.options)
            result.write(folder / "release", folder / "policy.parquet")
        except tc.TrajcloakError as error:
            message = str(error).replace(str(folder), "")
            return Outcome((type(error).__name__, message), [])
        return Outcome(
            {file.name: file.read_bytes() for file in sorted((folder / "release").iterdir())},
            pq.read_table(folder / "policy.parquet").to_pylist(),
        )


def write_log(
    log: MovableLog, requests: Sequence[Request], folder: Path
) -> tuple[Any, tc.LogColumns, Any]:
    """Build the inputs of a run: tables, or files of text."""
    columns = tc.LogColumns(requests=NAMES, **log.columns)
    carried = {request.row: request.values for request in requests}
    rows = [(*r, *carried.get(number, NOTHING)) for number, r in enumerate(log.reports)]
    names = ("user_id", "time", "x", "y", *NAMES)
    if log.kind == ONE_LOG:
        return _build(log, names, rows, folder / "log.csv"), columns, None
    if log.kind == MARKED:
        columns = tc.LogColumns(requests=NAMES, is_report="is_report", **log.columns)
        marked = [(*row, True) for row in rows]
        marked += [(*r[:2], None, None, *r.values, False) for r in requests if r.row is None]
        return _build(log, (*names, "is_report"), marked, folder / "log.csv"), columns, None
    sent = [(request.user, request.time, *request.values) for request in requests]
    locations = [tuple(report) for report in log.reports]
    return (
        _build(log, names[:4], locations, folder / "log.csv"),
        columns,
        _build(log, ("user_id", "time", *NAMES), sent, folder / "requests.csv"),
    )


def _build(log: MovableLog, names: Sequence[str], rows: Sequence[Any], path: Path) -> Any:
    columns = {name: [row[number] for row in rows] for number, name in enumerate(names)}
    columns["time"] = [log.build_time(time) for time in columns["time"]]
    if log.is_text:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return path
    types = {
        "user_id": pa.string(),
        "time": pa.timestamp("s") if log.has_moments else pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "what": pa.string(),
        "level": pa.int64(),
        "is_report": pa.bool_(),
    }
    return pa.table({name: pa.array(column, types[name]) for name, column in columns.items()})


@dataclass(frozen=True)
class Sets:
    """Where requests can be published, from a release without any.

    Attributes
    ----------
    start
        When each instant starts, in seconds.
    every
        How long it lasts.
    window
        The window of each instant.
    members
        The users of each bundle.
    bundle
        The bundle of each window and user.
    """

    start: dict[int, int]
    every: int
    window: dict[int, int]
    members: dict[int, list[Any]]
    bundle: dict[tuple[int, Any], int]

    def find(self, user: Any, time: int) -> tuple[int, int] | None:
        """Find the bundle and the instant of a user and a time, if there is a set."""
        for instant, start in self.start.items():
            if start <= time < start + self.every:
                bundle = self.bundle.get((self.window[instant], user))
                return None if bundle is None else (bundle, instant)
        return None


def find_sets(log: MovableLog, blank: Outcome) -> Sets:
    assert isinstance(blank.files, dict)
    table = pq.read_table(pa.BufferReader(blank.files["bundles.parquet"])).to_pylist()
    every = int(log.options["every"].removesuffix("s"))
    origin = json.loads(blank.files["manifest.json"])["parameters"]["origin"]
    if log.has_moments:
        origin = int((datetime.fromisoformat(origin) - MORNING).total_seconds())
    members = defaultdict(list)
    for row in blank.policy:
        members[row["bundle_id"]].append(row["user_id"])
    return Sets(
        {row["instant"]: origin + row["instant"] * every for row in table},
        every,
        {row["instant"]: row["window"] for row in table},
        members,
        {(row["window"], row["user_id"]): row["bundle_id"] for row in blank.policy},
    )


def find_rows(log: MovableLog, sets: Sets) -> dict[tuple[int, int], list[int]]:
    """One log: list the reports of each eligible set that survive cleaning."""
    with new_folder() as folder:
        source, columns, _ = write_log(log, [], folder)
        read = tc.read_log(source, columns, threads=1)
    surviving = range(read.num_rows) if read.file_row is None else read.file_row.tolist()
    rows = defaultdict(list)
    for row in surviving:
        place = sets.find(*log.reports[row][:2])
        if place is not None:
            rows[place].append(row)
    return {
        place: found
        for place, found in rows.items()
        if len({log.reports[row].user for row in found}) >= log.k
    }


def swap_two(
    log: MovableLog,
    requests: Sequence[Request],
    rows: dict[tuple[int, int], list[int]],
    rng: np.random.Generator,
) -> list[Request]:
    """One log: swap the contents of two rows of two users, in one eligible set."""
    contents = {request.row: request.values for request in requests}
    pairs = [
        (one, other)
        for of_set in rows.values()
        for one in of_set
        for other in of_set
        if log.reports[one].user != log.reports[other].user
        and contents.get(one, NOTHING) != contents.get(other, NOTHING)
    ]
    if pairs:
        one, other = pairs[rng.integers(len(pairs))]
        swapped = contents.get(other, NOTHING), contents.get(one, NOTHING)
        contents[one], contents[other] = swapped
    return _carry(log, contents)


def rewrite_rows(
    log: MovableLog,
    requests: Sequence[Request],
    rows: dict[tuple[int, int], list[int]],
    rng: np.random.Generator,
) -> list[Request]:
    """One log: the same eligible sets, otherwise any contents of any rows.

    Those in an eligible set carry its requests, in any order and number; all other rows,
    dropped ones among them, carry anything.
    """
    before = {request.row: request.values for request in requests}
    contents = {
        row: NOTHING if rng.random() < 0.4 else draw_values(rng) for row in range(len(log.reports))
    }
    for of_set in rows.values():
        sent = sorted({before[row] for row in of_set if row in before}, key=repr)
        more = [*sent, NOTHING]
        filled = [more[rng.integers(len(more))] for _ in of_set[len(sent) :]]
        for row, values in zip(rng.permutation(of_set).tolist(), sent + filled, strict=True):
            contents[row] = values
    return _carry(log, contents)


def _carry(log: MovableLog, contents: dict[Any, Values]) -> list[Request]:
    return [
        Request(*log.reports[row][:2], values, row)
        for row, values in contents.items()
        if values != NOTHING
    ]


def give_to_another(
    requests: Sequence[Request], sets: Sets, rng: np.random.Generator
) -> list[Request]:
    """Two inputs: give one request to another member of its bundle, at any second."""
    moved = list(requests)
    numbers = [n for n, request in enumerate(requests) if sets.find(*request[:2])]
    if numbers:
        number = numbers[rng.integers(len(numbers))]
        user, time, values, _ = requests[number]
        bundle, instant = sets.find(user, time) or (0, 0)
        others = [member for member in sets.members[bundle] if member != user]
        second = sets.start[instant] + int(rng.integers(sets.every))
        moved[number] = Request(others[rng.integers(len(others))], second, values)
    return moved


def rewrite_requests(
    log: MovableLog, requests: Sequence[Request], sets: Sets, rng: np.random.Generator
) -> list[Request]:
    """Two inputs: the same sets, sent by any members, any number of times; else anything.

    With marked reports, some requests are carried by a report.
    """
    sent = {(sets.find(*request[:2]), request.values) for request in requests}
    new = []
    for place, values in sorted(sent, key=repr):
        if place is not None:
            bundle, instant = place
            members = sets.members[bundle]
            for _ in range(int(rng.integers(1, 4))):
                second = sets.start[instant] + int(rng.integers(sets.every))
                new.append(Request(members[rng.integers(len(members))], second, values))
    end = max(report.time for report in log.reports) + 3 * sets.every
    users = sorted({report.user for report in log.reports if report.user}) + ["stranger"]
    for _ in range(int(rng.integers(0, 10))):
        user, time = users[rng.integers(len(users))], int(rng.integers(-sets.every, end))
        if sets.find(user, time) is None:
            new.append(Request(user, time, draw_values(rng)))
    if log.kind == MARKED:
        at = {report[:2]: row for row, report in enumerate(log.reports) if report.x is not None}
        carried: dict[int, Request] = {}
        for number, request in enumerate(new):
            row = at.get(request[:2])
            if row is not None and row not in carried:
                carried[row] = new[number] = request._replace(row=row)
    return [new[i] for i in rng.permutation(len(new))]


def check_moves(
    log: MovableLog,
    requests: list[Request],
    seed: int,
    anonymize: Anonymize = anonymize_in_memory,
    rounds: int = 2,
) -> bool:
    """Check that nothing published tells who sent requests; returns whether there is a release.

    An error must not depend on requests at all.
    """
    rng = np.random.default_rng(seed)
    blank, expected = publish(log, [], anonymize), publish(log, requests, anonymize)
    require(blank.policy == expected.policy, "requests decide who is bundled with whom")
    if not isinstance(blank.files, dict):
        require(expected.files == blank.files, "requests decide whether a run stops")
        return False
    sets = find_sets(log, blank)
    rows = find_rows(log, sets) if log.kind == ONE_LOG else {}
    for number in range(rounds):
        if log.kind == ONE_LOG:
            change = (swap_two, rewrite_rows)[number % 2]
            moved = change(log, requests, rows, rng)
        elif number % 2:
            moved = rewrite_requests(log, requests, sets, rng)
        else:
            moved = give_to_another(requests, sets, rng)
        require(publish(log, moved, anonymize) == expected, "bytes depend on who sent a request")
    return True


def require(condition: bool, message: str) -> None:
    """Fail with a message that tests can tell from that of other failures."""
    if not condition:
        raise AssertionError(f"moved requests: {message}")
