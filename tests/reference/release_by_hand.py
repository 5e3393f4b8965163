"""A tiny log with its release and policy, made by plain loops as docs/data-model.md says.

``planar`` and ``geographic`` make two examples; ``make`` makes any other. What they
return is lists of dicts, to be damaged at will before ``write`` puts them into files;
``refresh`` makes all that follows from the tables consistent again.
"""

import json
import random
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyproj

from . import ingest
from .completion import complete

EDGES = ("x_min", "y_min", "x_max", "y_max")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@dataclass
class ByHand:
    """A log, its release and its policy; all rows are dicts."""

    log: list
    columns: dict  # of the log: name -> Arrow type
    attributes: list
    bundles: list
    requests: list
    manifest: dict
    policy: list
    stamped: bool
    extra_metadata: dict = field(default_factory=dict)  # file name -> {key: value}
    extra_columns: dict = field(default_factory=dict)  # file name -> {name: values}


@dataclass(frozen=True)
class Paths:
    """Where the files of an example are."""

    log: Path
    release: Path
    policy: Path


def planar(**changes):
    """36 users with short integer ids at integer instants 0..3, all in one window."""
    rng = random.Random(7)
    rows = []
    for user in range(1, 37):
        x, y = rng.randint(10, 990), rng.randint(10, 990)
        for instant in range(4):
            row = {"user_id": user, "time": instant, "x": float(x), "y": float(y)}
            if rng.random() < 0.6:
                row |= {"category": rng.choice(["food", "fuel", None]), "amount": rng.randint(1, 9)}
            rows.append(row)
            if rng.random() < 0.2:
                rows.append(row | {"category": "second", "amount": None})
            x = min(max(x + rng.randint(-30, 30), 10), 990)
            y = min(max(y + rng.randint(-30, 30), 10), 990)
    columns = {
        "user_id": pa.int64(),
        "time": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "category": pa.string(),
        "amount": pa.int64(),
    }
    options = {
        "k": 3,
        "attributes": ["category", "amount"],
        "every": 1,
        "region": {"x_min": 0.0, "y_min": 0.0, "side": 1024.0},
        "height": 6,
    }
    return make(rows, columns, **(options | changes))


def geographic(**changes):
    """20 users with text ids, UTC timestamps, gaps, and windows of 4, 4 and 3 instants.

    The last window has too few participants; one user of the first is suppressed.
    """
    rng = random.Random(11)
    begin = datetime(2024, 5, 1, 8, 0, 20, tzinfo=UTC)
    rows = []
    for number in range(20):
        user = f"device-{number:04d}"
        lon, lat = 13.3 + rng.random() / 10, 52.4 + rng.random() / 10
        for report in range(11 if number < 2 else 9):
            time = begin + timedelta(seconds=60 * report + rng.randint(-5, 5))
            lon, lat = lon + rng.uniform(-1, 1) / 1000, lat + rng.uniform(-1, 1) / 1000
            if number >= 17 and report in (1, 2, 3):
                continue
            row = {"user_id": user, "time": time, "lon": lon, "lat": lat}
            if rng.random() < 0.5:
                row |= {
                    "query": rng.choice(["café", "bank", "zoo"]),
                    "rate": rng.choice([1.5, None]),
                }
            rows.append(row)
    for number in (0, 1, 2, 17):  # reports before the first instant and on it
        user = f"device-{number:04d}"
        rows.append(
            {"user_id": user, "time": begin - timedelta(seconds=20), "lon": 13.35, "lat": 52.45}
        )
    for number in range(3, 17):
        user = f"device-{number:04d}"
        rows.append(
            {"user_id": user, "time": begin - timedelta(seconds=20), "lon": 13.36, "lat": 52.46}
        )
    columns = {
        "user_id": pa.string(),
        "time": pa.timestamp("ms", "UTC"),
        "lon": pa.float64(),
        "lat": pa.float64(),
        "query": pa.string(),
        "rate": pa.float64(),
    }
    options = {
        "k": 4,
        "attributes": ["query", "rate"],
        "every": "60s",
        "max_gap": "120s",
        "length": 4,
        "suppressed": [("device-0005", 0)],
    }
    return make(rows, columns, **(options | changes))


def make(
    rows,
    columns,
    *,
    k,
    attributes,
    every,
    max_gap=None,
    length=None,
    missing="withhold",
    region=None,
    height=10,
    cloak="mbr",
    suppressed=(),
    group=None,
):
    """Make an example; ``group(window number, users)`` lists the users of each bundle."""
    stamped = pa.types.is_timestamp(columns["time"])
    zoned = stamped and columns["time"].tz is not None
    crs, places = _project(rows)
    region = region or _region_around(places)
    step = _ticks(every)
    gap = _ticks(max_gap) if max_gap is not None else 2 * step
    completed = complete(
        [
            (row["user_id"], _tick(row["time"]), *place, _request(row, attributes))
            for row, place in zip(rows, places, strict=True)
        ],
        k=k,
        every=step,
        max_gap=gap,
        length=length,
        missing=missing,
        suppressed=suppressed,
    )
    bundles, requests, policy = [], [], []
    next_id = 0
    for window in completed.windows:
        if not window.is_published:
            continue
        users = [u for u in sorted(window.participants) if (u, window.number) not in suppressed]
        found = []
        for members in (group or _group_by_place(window, k))(window.number, users):
            cloaks = [
                _cover([window.participants[u][i] for u in members], region, height, cloak)
                for i in range(window.stop - window.start)
            ]
            found.append((cloaks, len(members), members))
        for cloaks, size, members in sorted(found):
            for instant, edges in zip(range(window.start, window.stop), cloaks, strict=True):
                row = {"window": window.number, "bundle_id": next_id, "instant": instant}
                if stamped:
                    row["t_start"] = completed.origin + instant * step
                    row["t_end"] = completed.origin + (instant + 1) * step
                bundles.append(row | dict(zip(EDGES, edges, strict=True)) | {"users": size})
                sent = {r for u in members for r in completed.requests.get((u, instant), [])}
                requests += [
                    {"window": window.number, "bundle_id": next_id, "instant": instant}
                    | dict(zip(attributes, request, strict=True))
                    for request in sorted(sent, key=_null_first)
                ]
            policy += [
                {"window": window.number, "user_id": u, "bundle_id": next_id} for u in members
            ]
            next_id += 1
    manifest = {
        "format_version": 1,
        "software": "trajcloak 0.0.0",
        "k": k,
        "algorithm": "refined",
        "parameters": {
            "origin": _iso(completed.origin, zoned) if stamped else completed.origin,
            "every": every,
            "max_gap": max_gap if max_gap is not None else (f"{gap}us" if stamped else gap),
            "length": length,
            "missing": missing,
            "tz": None,
            "log_crs": None,
            "clip": None,
            "max_speed": None,
            "drop": None,
            "align": "none",
            "windows": None,
            "requests": list(attributes),
            "allow": [],
            "rare": "keep",
            "rare_below": k,
            "suppress_above": 1.0 if suppressed else None,
            "max_suppressed": None,
            "tree": "usb",
            "effort": "normal",
            "seed": 0,
        },
        "cloak": cloak,
        "crs": crs,
        "region": region,
        "height": height,
        "withheld": completed.withheld,
        "suppressed": len(suppressed),
        "generalised": 0,
        "ingest": _ingest(rows, places, attributes, completed, gap, missing, stamped, zoned),
    }
    example = ByHand(rows, columns, attributes, bundles, requests, manifest, policy, stamped)
    refresh(example)
    return example


def _ingest(rows, places, attributes, completed, gap, missing, stamped, zoned):
    """Report on a log, with times as the manifest has them."""
    found = ingest.report(
        [
            (row["user_id"], _tick(row["time"]), *place, _request(row, attributes))
            for row, place in zip(rows, places, strict=True)
        ],
        completed,
        gap,
        missing,
    )
    found |= {
        "crs": "OGC:CRS84" if "lon" in rows[0] else None,
        "zone": "UTC" if zoned else None,
    }
    if stamped:
        for name in ("start", "end"):
            found[name] = _iso(found[name], zoned)
        found["interval"] = {name: f"{gap}us" for name, gap in found["interval"].items()}
    return found


def refresh(example):
    """Recompute the geometry, and all counts and costs that follow from the tables."""
    bundles, manifest = example.bundles, example.manifest
    sizes = {}
    for row in example.policy:
        sizes.setdefault(row["bundle_id"], set()).add(row["user_id"])
    areas = [(row["x_max"] - row["x_min"]) * (row["y_max"] - row["y_min"]) for row in bundles]
    for row in bundles:
        row["geometry"] = rectangle_wkb(*(row[edge] for edge in EDGES))
        row["users"] = len(sizes[row["bundle_id"]])
    manifest["windows"] = len({row["window"] for row in bundles})
    manifest["instants"] = len({row["instant"] for row in bundles})
    manifest["users"] = len({row["user_id"] for row in example.policy})
    manifest["bundles"] = len({row["bundle_id"] for row in bundles})
    manifest["smallest_bundle"] = min(len(users) for users in sizes.values())
    manifest["cost"] = sum(a * row["users"] for a, row in zip(areas, bundles, strict=True))
    manifest["mean_cloak_area"] = sum(areas) / len(areas)
    manifest["requests"] = len(example.requests)


def write(example, folder):
    """Write all files of an example into a folder; returns their paths."""
    paths = Paths(folder / "log.parquet", folder / "release", folder / "policy.parquet")
    paths.release.mkdir(parents=True)
    write_log(example, paths.log)
    moment = pa.timestamp("us", example.columns["time"].tz) if example.stamped else None
    keys = [("window", pa.int32()), ("bundle_id", pa.int64()), ("instant", pa.int32())]
    _write_table(
        example,
        paths.release / "bundles.parquet",
        example.bundles,
        [
            *keys,
            *([("t_start", moment), ("t_end", moment)] if example.stamped else []),
            *((edge, pa.float64()) for edge in EDGES),
            ("users", pa.int32()),
            ("geometry", pa.binary()),
        ],
        {"geo": json.dumps(_geo(example))},
    )
    _write_table(
        example,
        paths.release / "requests.parquet",
        example.requests,
        [*keys, *((name, example.columns[name]) for name in example.attributes)],
        {},
    )
    text = json.dumps(example.manifest, sort_keys=True, indent=2, ensure_ascii=False)
    (paths.release / "manifest.json").write_text(text + "\n", encoding="utf-8")
    _write_table(
        example,
        paths.policy,
        example.policy,
        [
            ("window", pa.int32()),
            ("user_id", example.columns["user_id"]),
            ("bundle_id", pa.int64()),
        ],
        {},
    )
    paths.policy.chmod(0o600)
    return paths


def write_log(example, path):
    """Write the log alone."""
    pq.write_table(pa.Table.from_pylist(example.log, schema=pa.schema(example.columns)), path)


def rectangle_wkb(x_min, y_min, x_max, y_max):
    """Spell a rectangle as well-known binary."""
    corners = (x_min, y_min, x_max, y_min, x_max, y_max, x_min, y_max, x_min, y_min)
    return struct.pack("<BIII10d", 1, 3, 1, 5, *corners)


def _write_table(example, path, rows, columns, metadata):
    table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    for name, values in example.extra_columns.get(path.name, {}).items():
        table = table.append_column(name, [values])
    metadata = metadata | example.extra_metadata.get(path.name, {})
    pq.write_table(table.replace_schema_metadata(metadata or None), path)


def _geo(example):
    crs = example.manifest["crs"]
    bbox = [
        *(min(row[edge] for row in example.bundles) for edge in EDGES[:2]),
        *(max(row[edge] for row in example.bundles) for edge in EDGES[2:]),
    ]
    column = {
        "encoding": "WKB",
        "geometry_types": ["Polygon"],
        "crs": None if crs is None else pyproj.CRS(crs).to_json_dict(),
        "bbox": bbox,
    }
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}


def _project(rows):
    if "x" in rows[0]:
        return None, [(row["x"], row["y"]) for row in rows]
    lons, lats = [row["lon"] for row in rows], [row["lat"] for row in rows]
    lon, lat = (round((min(values) + max(values)) / 2, 2) for values in (lons, lats))
    crs = f"+proj=laea +lat_0={lat} +lon_0={lon} +datum=WGS84 +units=m +no_defs"
    transformer = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True)
    return crs, [transformer.transform(*place) for place in zip(lons, lats, strict=True)]


def _region_around(places):
    low = float(min(min(place) for place in places)) // 100 * 100 - 100
    high = float(max(max(place) for place in places))
    return {"x_min": low, "y_min": low, "side": (high - low) // 100 * 100 + 200}


def _cover(places, region, height, cloak):
    """Find the smallest cloak of a kind that holds some places."""
    num_cells = 2**height
    cell = region["side"] / num_cells
    edges = [[region[low] + i * cell for i in range(num_cells + 1)] for low in ("x_min", "y_min")]
    if cloak == "mbr":
        found = []
        for axis in (0, 1):
            values = [place[axis] for place in places]
            low = max(i for i in range(num_cells) if edges[axis][i] <= min(values))
            high = min(i for i in range(low + 1, num_cells + 1) if edges[axis][i] >= max(values))
            found.append((edges[axis][low], edges[axis][high]))
        (x_min, x_max), (y_min, y_max) = found
        return x_min, y_min, x_max, y_max
    cells = [
        [max(i for i in range(num_cells) if edges[axis][i] <= place[axis]) for axis in (0, 1)]
        for place in places
    ]
    size = 1
    while True:
        for width in (max(size // 2, 1), size):
            blocks = {(i // width, j // size) for i, j in cells}
            if len(blocks) == 1:
                i, j = blocks.pop()
                x_edges, y_edges = edges[0][i * width :], edges[1][j * size :]
                return x_edges[0], y_edges[0], x_edges[width], y_edges[size]
        size *= 2


def _group_by_place(window, k):
    def group(_, users):
        users = sorted(users, key=lambda u: (window.participants[u][0], u))
        groups = [users[start : start + k] for start in range(0, len(users), k)]
        if groups and len(groups[-1]) < k:
            last = groups.pop()
            groups[-1] += last
        return groups

    return group


def _request(row, attributes):
    values = tuple(row.get(name) for name in attributes)
    return None if all(value is None for value in values) else values


def _null_first(values):
    return [(value is not None, value) for value in values]


def _tick(time):
    return time if isinstance(time, int) else (time.replace(tzinfo=UTC) - EPOCH) // MICROSECOND


def _ticks(duration):
    return duration if isinstance(duration, int) else int(duration.removesuffix("s")) * 10**6


def _iso(ticks, zoned):
    moment = EPOCH + ticks * MICROSECOND
    return moment.isoformat() if zoned else moment.replace(tzinfo=None).isoformat()
