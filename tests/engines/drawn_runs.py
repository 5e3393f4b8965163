"""Random logs of all kinds, and what to ask of them, for runs on every engine."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from runs import anonymize
from trajcloak.engines.engine import Engine, Sizes
from trajcloak.engines.folder import FolderEngine
from trajcloak.log import read_in_memory
from trajcloak.options import ALGORITHMS, PARTS_PER, LogColumns, Options
from trajcloak.pipeline import anonymize_files, anonymize_on

NIGHT = datetime(2024, 3, 30, 21)
"""Before clocks are put forward in Berlin, early on the next day."""

WORDS = ["a", "b", "c", "rare"]


@dataclass(frozen=True)
class Run:
    """A log in files, and a call of ``anonymize``."""

    source: Path
    columns: LogColumns
    k: int
    options: dict[str, Any]
    request_log: Path | None = None

    @property
    def asked(self) -> Options:
        return Options(k=self.k, **self.options)

    def in_memory(self, release: Path, policy: Path) -> Any:
        """Hold the log in memory; returns the private figures."""
        log = read_in_memory(self.source, self.columns, self.request_log, threads=1)
        made = anonymize(log, self.k, threads=1, **self.options)
        made.write(release, policy)
        return made.figures

    def on(self, engine: Engine, release: Path, policy: Path) -> Any:
        """Work on an engine; returns the private figures."""
        made = anonymize_on(engine, self.source, self.columns, self.asked, self.request_log)
        made.write(release, policy)
        return made.figures

    def in_bounded_memory(self, release: Path, policy: Path, **more: Any) -> Any:
        """Work in a folder, in a run that can be continued; returns the private figures."""
        more = {"memory": "1GiB", "request_log": self.request_log, **more}
        return anonymize_files(
            self.source, release, policy, self.columns, self.asked, threads=1, **more
        ).figures


def draw_run(seed: int, folder: Path) -> Run:
    """Draw a log, write it into a folder, and draw what to ask of it."""
    rng = np.random.default_rng(seed)
    is_geographic, has_moments = rng.random(2) < 0.5
    step = int(rng.choice([1, 10, 60]))
    rows = _draw_rows(rng, is_geographic, step)
    if rng.random() < 0.5:
        rng.shuffle(rows)  # type: ignore[arg-type]
    drop = _spoil(rng, rows, is_geographic)
    has_zone = rng.random() < 0.4
    times = [_to_moment(row["time"], has_zone) if has_moments else row["time"] for row in rows]
    has_text_ids = rng.random() < 0.5
    ids = [
        row["user"] if row["user"] is None or not has_text_ids else f"u{row['user']:03}"
        for row in rows
    ]
    first, second = ("lon", "lat") if is_geographic else ("x", "y")
    content = {
        "user_id": ids,
        "time": times,
        first: [row["x"] for row in rows],
        second: [row["y"] for row in rows],
        "what": [row["what"] for row in rows],
        "level": [row["level"] for row in rows],
    }
    requests = [(), ("what",), ("what", "level")][rng.integers(3)]
    columns = LogColumns(
        requests=requests,
        tz="Europe/Berlin" if has_moments and rng.random() < 0.5 else None,
        clip=(-100.0, -80.0, 60.0, 80.0) if rng.random() < 0.2 else None,
        max_speed=float(rng.choice([0.5, 50.0])) if rng.random() < 0.15 else None,
        drop=drop,
    )
    options = _draw_options(rng, step, has_moments, is_geographic)
    k = int(rng.integers(2, 4))
    setting = rng.choice(["one log", "request log", "is report"])
    if setting == "one log":
        return Run(_write(rng, folder, content), columns, k, options)
    if setting == "request log":
        (folder / "requests").mkdir()
        requests = {n: c for n, c in content.items() if n not in (first, second)}
        sent = _write(rng, folder / "requests", _move_rows(rng, requests))
        locations = {n: c for n, c in content.items() if n not in ("what", "level")}
        return Run(_write(rng, folder, locations), columns, k, options, sent)
    is_report = [bool(one) for one in rng.random(len(rows)) < 0.8]
    for name in (first, second):
        content[name] = [
            place if report else None
            for place, report in zip(content[name], is_report, strict=True)
        ]
    source = _write(rng, folder, {**content, "is_report": is_report})
    return Run(source, replace(columns, is_report="is_report"), k, options)


def _move_rows(
    rng: np.random.Generator, content: dict[str, Sequence[Any]]
) -> dict[str, Sequence[Any]]:
    """Draw some rows, some of them several times, and give them other times."""
    chosen = rng.integers(0, len(content["time"]), int(rng.integers(0, 40)))
    others = rng.permutation(chosen)
    rows = {name: [column[i] for i in chosen] for name, column in content.items()}
    return {**rows, "time": [content["time"][i] for i in others]}


def _draw_rows(rng: np.random.Generator, is_geographic: bool, step: int) -> list[dict[str, Any]]:
    num_users, num_times = int(rng.integers(3, 10)), int(rng.integers(1, 14))
    is_irregular = rng.random() < 0.4
    keep = rng.choice([1.0, 1.0, 0.9, 0.6])
    centre = (13.4, 52.5) if is_geographic else (5.0, 5.0)
    if is_geographic and rng.random() < 0.15:
        centre = (179.99, -16.0)
    rows = []
    for user in range(num_users):
        begin, end = 0, num_times
        if rng.random() < 0.3:
            begin, end = sorted(rng.integers(0, num_times + 1, size=2).tolist())
        x, y = centre + rng.normal(0, 0.01 if is_geographic else 2.0, 2)
        for number in range(begin, end):
            if rng.random() > keep:
                continue
            x, y = np.array([x, y]) + rng.normal(0, 1e-4, 2)
            time = number * step + (int(rng.integers(0, step)) if is_irregular else 0)
            lon = (x + 180) % 360 - 180 if is_geographic else x
            row = {"user": user, "time": time, "x": float(lon), "y": float(y)}
            rows.append({**row, **_draw_request(rng)})
            while rng.random() < 0.1:
                rows.append({**row, **_draw_request(rng)})
    return rows or [{"user": 1, "time": 0, "x": 1.0, "y": 1.0, "what": None, "level": None}]


def _draw_request(rng: np.random.Generator) -> dict[str, Any]:
    what = None if rng.random() < 0.4 else str(rng.choice(WORDS, p=[0.4, 0.3, 0.25, 0.05]))
    return {"what": what, "level": None if rng.random() < 0.6 else int(rng.integers(0, 5))}


def _spoil(
    rng: np.random.Generator, rows: list[dict[str, Any]], is_geographic: bool
) -> tuple[str, ...]:
    """Make a few rows dirty; says which to drop, mostly those that are there."""
    drop = []
    spoilt: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "empty": lambda row: {**row, str(rng.choice(["user", "x"])): None},
        "out-of-range": lambda row: {**row, "y": float("nan")},
        "null-island": lambda row: {**row, "x": 0.0, "y": 0.0},
        "conflict": lambda row: {**row, "x": row["x"] + 0.001},
        "teleport": lambda row: {**row, "time": row["time"] + 1, "y": row["y"] + 1.0},
        "swapped": lambda row: {**row, "x": row["y"], "y": row["x"]},
    }
    for reason, change in spoilt.items():
        if reason == "swapped" and not is_geographic:
            continue
        if rng.random() < 0.12:
            row = rows[rng.integers(len(rows))]
            if row["x"] is not None and row["user"] is not None:
                rows.insert(int(rng.integers(len(rows) + 1)), change(row))
                drop += [reason] if rng.random() < 0.85 else []
        elif rng.random() < 0.05:
            drop.append(reason)
    return tuple(drop)


def _draw_options(
    rng: np.random.Generator, step: int, has_moments: bool, is_geographic: bool
) -> dict[str, Any]:
    def duration(steps: float) -> str:
        return f"{max(1, round(steps * step))}" + ("m" if has_moments else "")

    def sometimes(share: float, value: Any) -> Any:
        return value if rng.random() < share else None

    algorithm = str(rng.choice(["auto", "auto", *(a for a in ALGORITHMS if a != "exact")]))
    options = {
        "every": sometimes(0.6, duration(rng.choice([1, 1, 2, 0.7]))),
        "max_gap": sometimes(0.5, duration(rng.integers(1, 6))),
        "length": sometimes(0.7, int(rng.integers(1, 8))),
        "missing": sometimes(0.4, "hold"),
        "align": sometimes(0.3, "day") if has_moments else None,
        "windows": sometimes(0.2, "22:00-23:30,01:00-04:00") if has_moments else None,
        "algorithm": algorithm,
        "cloak": str(rng.choice(["mbr", "quad"])),
        "height": sometimes(0.3, 6),
        "region": sometimes(0.2, (-40.0, -40.0, 90.0)) if not is_geographic else None,
        "rare": str(rng.choice(["keep", "drop", "other"])),
        "rare_below": sometimes(0.3, 3),
        "members": sometimes(0.3, 5),
        "link_safe": sometimes(0.3, True),
        "rows_alike": sometimes(0.9, True),
        "max_suppressed": sometimes(0.15, 0.2)
        if algorithm in ("auto", "refined", "traj-anon")
        else None,
        "parts": sometimes(0.4, 2),
    }
    if options["parts"]:
        options["parts_per"] = str(rng.choice(PARTS_PER))
    return {name: value for name, value in options.items() if value is not None}


def _to_moment(minutes: int, has_zone: bool) -> datetime:
    moment = NIGHT + timedelta(minutes=minutes)
    return moment.replace(tzinfo=UTC) if has_zone else moment


def _write(rng: np.random.Generator, folder: Path, content: dict[str, Sequence[Any]]) -> Path:
    kind = str(rng.choice(["parquet", "folder", "folder", "csv", "jsonl", "arrow"]))
    table = pa.table(content)
    if kind == "parquet":
        pq.write_table(table, folder / "log.parquet", row_group_size=5)
        return folder / "log.parquet"
    if kind == "arrow":
        with pa.ipc.new_file(folder / "log.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
        return folder / "log.arrow"
    if kind == "csv":
        with (folder / "log.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(content)
            writer.writerows(
                ["" if value is None else _spell(value) for value in row]
                for row in zip(*content.values(), strict=True)
            )
        return folder / "log.csv"
    if kind == "jsonl":
        lines = (
            json.dumps(dict(zip(content, map(_spell, row), strict=True)))
            for row in zip(*content.values(), strict=True)
        )
        (folder / "log.jsonl").write_text("\n".join(lines) + "\n")
        return folder / "log.jsonl"
    (folder / "log").mkdir()
    middle = int(rng.integers(0, table.num_rows + 1))
    for number, part in enumerate((table[:middle], table[middle:])):
        pq.write_table(part, folder / "log" / f"part-{number}.parquet")
    return folder / "log"


def _spell(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def draw_sizes(seed: int) -> Sizes:
    """Cut even small logs into several shards, runs of windows, and parts of windows.

    ``refined`` is given large blocks, since it bundles otherwise in several of them.
    """
    rows, cells = np.random.default_rng(seed).integers(1, 20, 2).tolist()
    return Sizes(rows, cells, bundles=10**6)


def build_folder_engine(folder: Path, sizes: Sizes) -> FolderEngine:
    """Build an engine that keeps shards of such sizes in a folder."""
    engine = FolderEngine(folder, 1 << 30, 1)
    engine._sizes = sizes
    return engine
