"""Small streams, drawn at random, and what the library and the slow twin publish of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from reference.online import OnlinePublisher, OnlineRules
from trajcloak.online import OnlineAnonymizer, OnlineOptions, PublishedInstant
from trajcloak.space import Region

EVERY = 10
REGION = Region(0.0, 0.0, 16.0, 4)
NAMES = ["category", "detail"]
VALUES = [("food", None), ("food", "pizza"), ("fuel", None), (None, "pizza")]

Report = tuple[str, int, tuple[int, int]]
Request = tuple[str, int, tuple[str | None, ...]]


@dataclass(frozen=True)
class Stream:
    """Lines by instant, and how to publish them."""

    options: OnlineOptions
    reports: tuple[tuple[Report, ...], ...]
    requests: tuple[tuple[Request, ...], ...]

    @property
    def all_reports(self) -> list[Report]:
        return [report for of_instant in self.reports for report in of_instant]

    @property
    def all_requests(self) -> list[Request]:
        return [request for of_instant in self.requests for request in of_instant]

    def cut(self, length: int) -> "Stream":
        return replace(self, reports=self.reports[:length], requests=self.requests[:length])


@dataclass(frozen=True)
class Run:
    """What was published, and who was in which group at the first instant of an epoch."""

    published: list[PublishedInstant]
    groups: dict[int, list[frozenset[str]]]


@st.composite
def streams(draw: st.DrawFn, one_input: bool | None = None) -> Stream:
    one_input = draw(st.booleans()) if one_input is None else one_input
    epoch = draw(st.sampled_from([1, 2, 3, 5, 8]))
    options = OnlineOptions(
        k=draw(st.integers(2, 3)),
        every=EVERY,
        epoch=epoch,
        lag=draw(st.integers(0, min(2, epoch - 1))),
        one_input=one_input,
        hold=0 if one_input else draw(st.integers(0, 2)),
        predictor=draw(st.sampled_from(["learned", "damped", "hold"])),
        rare_below=draw(st.integers(1, 2)),
    )
    length = draw(st.integers(1, 2 * epoch + 2))
    # Ids that sort in another order than numbers do.
    users = [f"u{n}" for n in range(draw(st.integers(2, 14)))]
    seed = draw(st.integers(0, 2**32 - 1))
    absence = draw(st.sampled_from([0.0, 0.02, 0.2]))
    twice = draw(st.sampled_from([0.0, 0.1]))
    return build_stream(options, length, users, np.random.default_rng(seed), absence, twice)


def build_stream(
    options: OnlineOptions,
    length: int,
    users: list[str],
    random: np.random.Generator,
    absence: float,
    twice: float,
) -> Stream:
    """Let users walk about; some reports are missing, some come twice, some at one time."""
    place = {user: random.integers(0, 16, 2) for user in users}
    reports: list[tuple[Report, ...]] = []
    requests: list[tuple[Request, ...]] = []
    for instant in range(length):
        reported: list[Report] = []
        sent: list[Request] = []
        for user in users:
            place[user] = np.clip(place[user] + random.integers(-2, 3, 2), 0, 15)
            times = [] if random.random() < absence else [_draw_time(random, instant)]
            while times and random.random() < twice:
                times.append(_draw_time(random, instant) if random.random() < 0.5 else times[0])
            x, y = map(int, place[user])
            reported += [(user, time, (x, y)) for time in times]
            if not options.one_input:
                times = [_draw_time(random, instant) for _ in range(random.poisson(0.7))]
            sent += [
                (user, time, VALUES[random.integers(len(VALUES))])
                for time in times
                if random.random() < 0.7
            ]
        reports.append(tuple(reported))
        requests.append(tuple(sent))
    if not options.one_input:
        requests[-1] += (("stranger", EVERY * length - 1, VALUES[0]),)
    return Stream(options, tuple(reports), tuple(requests))


def _draw_time(random: np.random.Generator, instant: int) -> int:
    return int(EVERY * instant + random.integers(EVERY))


def publish(stream: Stream, random: np.random.Generator | None = None) -> Run:
    """Publish a stream instant by instant; with ``random``, lines come in any order."""
    online = OnlineAnonymizer(stream.options, REGION, NAMES, origin=0, threads=1)
    published, groups = [], {}
    for instant in range(len(stream.reports)):
        for batch in _cut_batches(_build_lines(stream, instant), random):
            feed_lines(online, batch)
        for found in online.advance(EVERY * (instant + 1)):
            published.append(found)
            if found.instant % stream.options.epoch == 0:
                groups[found.instant] = list_groups(online.list_members())
    return Run(published, groups)


def publish_at_once(stream: Stream) -> list[PublishedInstant]:
    """Publish a stream all lines of which come before an instant is closed."""
    online = OnlineAnonymizer(stream.options, REGION, NAMES, origin=0, threads=2)
    for instant in range(len(stream.reports)):
        feed_lines(online, _build_lines(stream, instant))
    return online.advance(EVERY * len(stream.reports))


def _build_lines(stream: Stream, instant: int) -> list[dict[str, Any]]:
    """Build the lines of an instant; with one input, requests stand in the rows of reports."""
    requests = [
        {"user_id": user, "time": time, **dict(zip(NAMES, values, strict=True))}
        for user, time, values in stream.requests[instant]
    ]
    lines = []
    for user, time, (x, y) in stream.reports[instant]:
        line = {"user_id": user, "time": time, "x": x + 0.5, "y": y + 0.5}
        if stream.options.one_input:
            line |= dict.fromkeys(NAMES)
            carried = [r for r in requests if (r["user_id"], r["time"]) == (user, time)]
            if carried:
                requests.remove(carried[0])
                line |= carried[0]
        lines.append(line)
    return lines + requests


def _cut_batches(
    lines: list[dict[str, Any]], random: np.random.Generator | None
) -> list[list[dict[str, Any]]]:
    if random is None:
        return [lines]
    lines = [lines[i] for i in random.permutation(len(lines))]
    middle = int(random.integers(len(lines) + 1))
    return [lines[:middle], lines[middle:]]


def feed_lines(online: OnlineAnonymizer, lines: list[dict[str, Any]]) -> None:
    """Hand reports and requests to the library; reports are those with a place."""
    text = {name: pa.string() for name in ["user_id", *NAMES]}
    types = {**text, "time": pa.int64(), "x": pa.float64(), "y": pa.float64()}
    for names, send in (
        ([line for line in lines if "x" in line], online.observe),
        ([line for line in lines if "x" not in line], online.ask),
    ):
        if names:
            columns = {n: pa.array([r[n] for r in names], types[n]) for n in names[0]}
            send(pa.table(columns))


def list_groups(members: pa.Table) -> list[frozenset[str]]:
    """List the groups by number."""
    groups: dict[int, set[str]] = {}
    for row in members.to_pylist():
        groups.setdefault(row["bundle_id"], set()).add(row["user_id"])
    assert sorted(groups) == list(range(len(groups)))
    return [frozenset(groups[number]) for number in range(len(groups))]


def build_twin(stream: Stream, run: Run) -> OnlinePublisher:
    o = stream.options
    rules = OnlineRules(
        o.k, o.every, o.epoch, o.lag, one_input=o.one_input, hold=o.hold, rare_below=o.rare_below
    )
    return OnlinePublisher(stream.all_reports, run.groups, rules)


def read(published: PublishedInstant) -> dict[int, Any]:
    """Read an instant as the twin writes it."""
    kinds = [tuple(row.values()) for row in published.requests.kinds.to_pylist()]
    entries = list(
        zip(published.requests.group.tolist(), published.requests.kind.tolist(), strict=True)
    )
    assert entries == sorted(set(entries)), "sets are not in order"
    assert {group for group, _ in entries} <= set(published.bundle_id.tolist()), "silence is broken"
    return {
        bundle: (
            ((cloak[0], cloak[2]), (cloak[1], cloak[3])),
            users,
            frozenset(kinds[kind] for of_bundle, kind in entries if of_bundle == bundle),
        )
        for bundle, cloak, users in zip(
            published.bundle_id.tolist(),
            published.cloaks.tolist(),
            published.users.tolist(),
            strict=True,
        )
    }


def read_all(published: list[PublishedInstant]) -> list[Any]:
    return [(p.window, p.instant, read(p)) for p in published]
