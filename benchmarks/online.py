"""Streams: how long an instant takes with many users, and whether memory grows over a day.

Users walk about at random. With ``--users`` of them the anonymizer gets all reports of an instant
at once, and the time until the instant is published is measured, at the start of an epoch and
within. A whole stream of a day, with its files and its release, shows how much memory it takes in
the end, of what it took after six hours. ``make bench`` runs both. A run that misses a target ends
with exit code 1.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from run import K, console, print_targets
from trajcloak.online import OnlineAnonymizer, OnlineOptions
from trajcloak.online.stream_lines import ReportLine, RequestLine
from trajcloak.online.stream_run import Stream
from trajcloak.online.stream_state import open_state
from trajcloak.space import fit_region

USERS, EPOCH, WARM_UP, EPOCHS = 2_000_000, 5, 5, 2
DAY_USERS, DAY, DAY_EPOCH = 20_000, 1_440, 30
HOUR = 60
GIB = 2**30
EVERY = 60 * 10**6
"""A minute, in microseconds."""

EXTENT = 40_000.0
STEP = 300.0
"""Metres: the side of the square in which users begin, and how far they go in a minute."""

AT_START, LATER, MOST_GIB, GROWTH = 20.0, 5.0, 4.0, 1.1
"""Targets: seconds at the first instant of an epoch and at others, memory, and its growth."""

Targets = list[tuple[str, float, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=USERS, help="0: time no instants")
    parser.add_argument("--day-users", type=int, default=DAY_USERS)
    parser.add_argument("--day", type=int, default=DAY, help="instants of the day; 0: no day")
    parser.add_argument("--day-epoch", type=int, default=DAY_EPOCH, help="instants in its epochs")
    asked = parser.parse_args()
    targets: Targets = []
    if asked.users:
        time_instants(asked.users, targets)
    if asked.day:
        run_day(asked.day_users, asked.day, asked.day_epoch, targets)
    sys.exit(print_targets(targets))


def walk(users: int, instants: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield where users are at each instant; most keep their heading."""
    rng = np.random.default_rng(9)
    place = rng.uniform(0, EXTENT, (2, users))
    heading = rng.uniform(0, 2 * np.pi, users)
    for _ in range(instants):
        turns = rng.random(users) < 0.1
        heading[turns] = rng.uniform(0, 2 * np.pi, int(turns.sum()))
        place += STEP * np.stack([np.cos(heading), np.sin(heading)])
        np.clip(place, 0, EXTENT, out=place)
        yield place[0], place[1]


def time_instants(users: int, targets: Targets) -> None:
    """Time instants at the start of an epoch, and within."""
    options = OnlineOptions(k=K, every=EVERY, epoch=EPOCH)
    region = fit_region((0.0, 0.0, EXTENT, EXTENT), None, in_metres=True)
    online = OnlineAnonymizer(options, region, [], origin=0)
    ids = pa.array(np.arange(users)).cast(pa.string())
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for instant, (x, y) in enumerate(walk(users, WARM_UP + EPOCHS * EPOCH)):
        when = np.full(users, instant * EVERY)
        reports = pa.table({"user_id": ids, "time": when, "x": x, "y": y})
        begin = time.perf_counter()
        online.observe(reports)
        (published,) = online.advance((instant + 1) * EVERY)
        if instant >= WARM_UP:
            seconds[instant % EPOCH == 0].append(time.perf_counter() - begin)
        assert int(published.users.sum()) == users
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
    console.print(f"{users:,} users, {EPOCH} instants in an epoch.")
    targets += [
        ("seconds at the start of an epoch", max(seconds[True]), AT_START),
        ("seconds at other instants", max(seconds[False]), LATER),
        ("peak memory in GiB", peak, MOST_GIB),
    ]


def run_day(users: int, instants: int, epoch: int, targets: Targets) -> None:
    """Run a stream with all its files, and see whether memory grows."""
    settings = {"k": K, "every": EVERY, "epoch": epoch}
    sizes = []
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, open_state(Path(folder) / "state", {}) as state:
        stream = Stream(
            state,
            Path(folder) / "release",
            Path(folder) / "policy.parquet",
            OnlineOptions(**settings),
            ["category"],
            box=(0.0, 0.0, EXTENT, EXTENT),
        )
        for instant, (x, y) in enumerate(walk(users, instants)):
            for line in list_lines(instant, x, y):
                for _ in stream.take(line, geographic=False):
                    pass
            if (instant + 1) % HOUR == 0 or instant + 1 == instants:
                pa.default_memory_pool().release_unused()
                sizes.append(read_memory())
                console.print(
                    f"instant {instant + 1:,}: {sizes[-1]:.2f} GiB, "
                    f"{time.perf_counter() - begin:,.0f} s"
                )
    early = max(sizes[: max(1, len(sizes) // 4)])
    late = max(sizes[len(sizes) // 4 :])
    console.print(f"{users:,} users, a day of {instants:,} instants.")
    targets.append(("memory of a day, late / first quarter", late / early, GROWTH))


def list_lines(instant: int, x: np.ndarray, y: np.ndarray) -> Iterator[ReportLine | RequestLine]:
    """List the lines of an instant: a report of each user, and requests of some."""
    now = instant * EVERY
    reports = (
        ReportLine(f"user {n}", now, px, py)
        for n, (px, py) in enumerate(zip(x.tolist(), y.tolist(), strict=True))
    )
    words = ("food", "fuel", "taxi")
    requests = (
        RequestLine(f"user {n}", now, (words[(n + instant) % 3],)) for n in range(0, len(x), 5)
    )
    return chain(requests, reports)


def read_memory() -> float:
    """Read how much memory this process takes, in GiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / GIB


if __name__ == "__main__":
    main()
