"""Streams as files: lines drawn at random, runs of the command, and audits of what they leave."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from trajcloak.auditor import audit_files
from trajcloak.online.online_options import OnlineOptions
from trajcloak.online.stream_lines import LineParser, cut_lines
from trajcloak.online.stream_run import Stream
from trajcloak.online.stream_state import open_state
from trajcloak.options import LogColumns

SECOND = 10**6
START = 1_772_438_400
"""2026-03-02T08:00:00Z, in seconds since 1970."""

EVERY = 10
BOX = (-100.0, -100.0, 200.0, 200.0)


@dataclass(frozen=True)
class Walk:
    """Users who walk about; some are absent at some instants, some send requests."""

    users: int
    instants: int
    seed: int
    absence: float = 0.0
    values: tuple[str, ...] = ("food", "fuel")
    share: float = 0.6
    ids: Sequence[str] = field(default=())

    def list_lines(self, first: int = 0) -> list[dict]:
        """List the lines of all instants, as dictionaries; ``first`` is the number of the first."""
        random = np.random.default_rng(self.seed)
        place = random.uniform(0, 100, (self.users, 2))
        lines = []
        for instant in range(first, first + self.instants):
            place += random.normal(0, 3, place.shape)
            is_absent = random.random(self.users) < self.absence
            for user in random.permutation(self.users):
                name = self.ids[user] if self.ids else f"user {user}"
                time = START + EVERY * instant + float(random.integers(EVERY))
                asks, value = random.random() < self.share, random.choice(self.values)
                x, y = place[user].round(2).tolist()
                if not is_absent[user]:
                    report = {"kind": "report", "user_id": name, "time": time, "x": x, "y": y}
                    lines.append(report)
                if asks:
                    request = {"kind": "request", "user_id": name, "time": time}
                    lines.append({**request, "category": str(value)})
        return lines


def encode(lines: Iterable[dict]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@dataclass(frozen=True)
class StreamRun:
    """What a run of a stream left."""

    folder: Path
    published: list[dict]
    counts: dict[str, int]

    @property
    def release(self) -> Path:
        return self.folder / "release"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def audit(self, **options):
        return audit_stream(self.folder, **options)

    def read_files(self) -> dict[str, bytes]:
        """Read all bytes of the release, and of the policy files."""
        files = [*self.release.iterdir(), *self.state.glob("policy*")]
        return {file.name: file.read_bytes() for file in files}


def audit_stream(folder: Path, **options):
    state = folder / "state"
    return audit_files(
        str(state / "finished" / "*" / "locations.parquet"),
        folder / "release",
        state / "policy.parquet",
        LogColumns(),
        request_log=str(state / "finished" / "*" / "requests.parquet"),
        **options,
    )


def run_stream(
    folder: Path,
    lines: Sequence[dict] | bytes,
    pieces: Sequence[int] = (),
    printed: Path | None = None,
    box: tuple[float, float, float, float] | None = BOX,
    policy: Path | None = None,
    **options,
) -> StreamRun:
    """Run a stream in this process.

    ``pieces`` is where its text is cut; what is published is also written to ``printed``, line by
    line.
    """
    settings = {"k": 3, "epoch": 3, "every": EVERY * SECOND, **options}
    asked = OnlineOptions(**settings)
    text = lines if isinstance(lines, bytes) else encode(lines)
    edges = [0, *sorted(min(place, len(text)) for place in pieces), len(text)]
    parser = LineParser(["category"])
    published = []
    folder.mkdir(exist_ok=True)
    with open_state(folder / "state", settings) as state:
        stream = Stream(
            state,
            folder / "release",
            policy or folder / "state" / "policy.parquet",
            asked,
            ["category"],
            box=box,
            threads=1,
        )
        cut = (text[start:stop] for start, stop in pairwise(edges))
        for some in cut_lines(cut, parser.skipped):
            for one in some:
                line = parser.parse(one)
                if line is None:
                    continue
                for text_out in stream.take(line):
                    published.append(json.loads(text_out))
                    if printed is not None:
                        with printed.open("a") as file:
                            file.write(text_out + "\n")
    return StreamRun(folder, published, dict(stream.counts + parser.skipped))
