"""Streams: how long an instant takes with many users, and whether memory grows over a day.

With ``--users`` of them, who walk about at random, the anonymizer gets all reports of an instant at
once, and the time until the instant is published is measured, at the start of an epoch and within.
A day goes through the command ``trajcloak stream`` itself, on one core: JSON lines of people who go
from place to place are made while it reads them, and its memory is looked at when it has read those
of an instant. ``make bench`` runs both. A run that misses a target ends with exit code 1.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from run import K, console, print_targets
from trajcloak.online import OnlineAnonymizer, OnlineOptions
from trajcloak.space import fit_region

USERS, EPOCH, WARM_UP, EPOCHS = 2_000_000, 5, 5, 2
DAY_USERS, DAY = 20_000, 1_440
HOUR = 60
GIB = 2**30
EVERY = 60 * 10**6
"""A minute, in microseconds."""

EXTENT = 40_000.0
STEP = 300.0
"""Metres: the side of the square in which users are, and how far they go in a minute."""

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
QUARTERS, ABSENT, ASKING = 92, 0.01, 0.05
"""Of the day: quarters in which people live and work, and the shares of them who do not report, and
who ask for something, in a minute."""

AT_START, LATER, MOST_GIB, GROWTH = 20.0, 5.0, 4.0, 1.1
"""Targets: seconds at the first instant of an epoch and at others, memory, and its growth."""

Targets = list[tuple[str, float, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=USERS, help="0: time no instants")
    parser.add_argument("--day-users", type=int, default=DAY_USERS)
    parser.add_argument("--day", type=int, default=DAY, help="instants of the day; 0: no day")
    parser.add_argument("--day-epoch", type=int, default=EPOCH, help="instants in its epochs")
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
    """Send a day through the command, and see whether its memory grows."""
    sizes: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        release = Path(folder) / "release"
        words = f"stream --k {K} --every 60s --epoch {epoch} --request category --threads 1"
        box = f"0,0,{EXTENT},{EXTENT}"
        command = [sys.executable, "-m", "trajcloak", *words.split(), "--region", box]
        begin = time.perf_counter()
        with subprocess.Popen(
            [*command, "-o", release], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        ) as process:
            assert process.stdin is not None
            # An instant is over when reports of the next one arrive.
            for instant, lines in enumerate(commute(users, instants + 1)):
                process.stdin.write(lines)
                process.stdin.flush()
                memory, seconds = read_process(process.pid)
                sizes.append(memory)
                if (instant + 1) % HOUR == 0:
                    console.print(
                        f"instant {instant + 1:,}: {max(sizes[-HOUR:]):.2f} GiB, "
                        f"{seconds:,.0f} s of processor time, "
                        f"{time.perf_counter() - begin:,.0f} s in all"
                    )
            process.stdin.close()
        assert process.returncode == 0
        manifest = json.loads((release / "manifest.json").read_text())
    console.print(
        f"{users:,} users, a day of {instants:,} instants, {manifest['instants']:,} in the release."
    )
    quarters = [max(part) for part in np.array_split(sizes[:instants], 4)]
    listed = ", ".join(f"{size:.3f}" for size in quarters)
    console.print(f"Most memory in each quarter: {listed} GiB.")
    targets.append(("memory of a day, late / first quarter", max(quarters) / quarters[0], GROWTH))


def commute(users: int, instants: int) -> Iterator[bytes]:
    """Yield the lines of each instant: reports of people, and requests of some.

    Everybody has a home, a place of work and another place, each in some quarter; most set out at
    the usual hours, and go along streets: first east or west, then north or south.
    """
    rng = np.random.default_rng(9)
    middle = rng.uniform(0.1 * EXTENT, 0.9 * EXTENT, (QUARTERS, 2))
    quarter = rng.integers(QUARTERS, size=(3, users))
    stops = middle[quarter] + rng.normal(0, 800.0, (3, users, 2))
    speed = rng.choice([80.0, 250.0, 500.0], users)
    place, goal = stops[0].copy(), np.zeros(users, np.int64)
    second = np.arange(users) * 60 // users
    for instant in range(instants):
        hour = instant / HOUR % 24
        leaving = 0.02 if 7 <= hour < 9 or 16 <= hour < 19 else 0.004 if 6 <= hour < 23 else 0.0005
        is_there = (place == stops[goal, np.arange(users)]).all(axis=1)
        leaves = is_there & (rng.random(users) < leaving)
        goal[leaves] = (goal[leaves] + rng.integers(1, 3, int(leaves.sum()))) % 3
        way = stops[goal, np.arange(users)] - place
        east = np.clip(way[:, 0], -speed, speed)
        rest = speed - np.abs(east)
        place += np.column_stack([east, np.clip(way[:, 1], -rest, rest)])
        seen = np.clip(place + rng.normal(0, 5.0, place.shape), 0, EXTENT).round(1)
        minute = (MIDNIGHT + timedelta(minutes=instant)).strftime("%Y-%m-%dT%H:%M:")
        yield spell_lines(minute, second, seen, rng)


def spell_lines(
    minute: str, second: np.ndarray, seen: np.ndarray, rng: np.random.Generator
) -> bytes:
    """Spell the reports and requests of a minute as JSON lines."""
    categories = ("food", "fuel", "taxi", "bus", "park", "shop")
    draw = rng.random(len(second))
    chosen = rng.integers(len(categories), size=len(second))
    lines = []
    for n, (s, (x, y), r) in enumerate(zip(second, seen.tolist(), draw, strict=True)):
        about = f'"user_id": "user {n}", "time": "{minute}{s:02}Z"'
        if r >= ABSENT:
            lines.append(f'{{"kind": "report", {about}, "x": {x}, "y": {y}}}\n')
        if r >= 1 - ASKING:
            category = categories[chosen[n]]
            lines.append(f'{{"kind": "request", {about}, "category": "{category}"}}\n')
    return "".join(lines).encode()


def read_process(pid: int) -> tuple[float, float]:
    """Read how much memory a process holds, in GiB, and how many seconds of processor it took."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    seconds = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return pages * resource.getpagesize() / GIB, seconds


if __name__ == "__main__":
    main()
