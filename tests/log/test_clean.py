"""Rows that are dropped or refused; coordinate systems; every release audited."""

import csv
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from runs import anonymize
from trajcloak.auditor import audit_files
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns

DROPPED = ("clip", "empty", "out-of-range", "null-island", "swapped", "conflict", "teleport")


def write(path, rows, names=("user_id", "time", "lon", "lat", "what")):
    """Write rows as CSV or Parquet; times are seconds."""
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows(
                (u, "" if t is None else np.datetime64(int(t), "s"), x, y, w)
                for u, t, x, y, w in rows
            )
        return path
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns["time"] = pa.array(columns["time"], pa.timestamp("s"))
    pq.write_table(pa.table(columns), path)
    return path


def walk(num_users=6, num_reports=8, centre=(13.4, 52.5), size=0.01):
    """Users near each other who report every minute."""
    rng = np.random.default_rng(4)
    return [
        (f"user-{u}", 60 * i, *(rng.random(2) * size + centre).tolist(), f"w{i % 3}")
        for u in range(num_users)
        for i in range(num_reports)
    ]


def run(folder, log, *, k=2, options=None, **reading):
    """Anonymize and audit; the audit reads the log as the manifest says."""
    columns = LogColumns(requests=("what",), **reading)
    result = anonymize(read_in_memory(log, columns), k, **(options or {"every": "60s"}))
    result.write(folder / "release", folder / "policy.parquet")
    names = {name: reading[name] for name in ("x", "y", "lon", "lat") if name in reading}
    report = audit_files(log, folder / "release", folder / "policy.parquet", LogColumns(**names))
    assert report.passed, [check for check in report.checks if not check.passed]
    return result.manifest


CASES = {
    "empty": ("user-1", 100, None, 52.5, "w"),
    "empty user": (None, 100, 13.4, 52.5, "w"),
    "out-of-range": ("user-1", 100, 13.4, 137.2, "w"),
    "out-of-range nan": ("user-1", 100, float("nan"), 52.5, "w"),
    "null-island": ("user-1", 100, 0.0, 0.0, "w"),
    "swapped": ("user-1", 100, 52.502, 13.402, "w"),
    "conflict": ("user-1", 120, 13.4055, 52.5, "w"),
    "teleport": ("user-1", 100, 14.4, 52.5, "w"),
    "teleport first": ("user-1", -10, 14.4, 52.5, "w"),
}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("case", CASES)
def test_rows_are_refused_by_number_or_dropped(tmp_path, case, suffix):
    rows = walk(num_users=60)
    rows.insert(10, CASES[case])
    log = write(tmp_path / f"log{suffix}", rows)
    reason = case.split()[0]
    refuse = {"max_speed": 340.0} if reason == "teleport" else {}
    with pytest.raises(tc.InputError, match=r"row.*\b11\b") as caught:
        run(tmp_path, log, **refuse)
    assert f'drop="{reason}"' in str(caught.value)
    assert "user-1" not in str(caught.value)
    manifest = run(tmp_path, log, drop=(reason,))
    # All rows of a conflict are dropped, since none of them is more likely to be right.
    number = 2 if reason == "conflict" else 1
    assert manifest["ingest"]["dropped"] == {**dict.fromkeys(DROPPED, 0), reason: number}
    assert manifest["ingest"]["rows"] == len(rows)


@pytest.mark.parametrize("seed", range(12))
def test_the_audit_finds_the_same_rows_to_drop(tmp_path, seed):
    rng = np.random.default_rng(seed)
    clean = walk(num_users=8)
    rows = list(clean)
    for _ in range(12):
        user, time, lon, lat, what = clean[rng.integers(len(clean))]
        kind = rng.integers(7)
        rows.append(
            [
                (user, time, lon + 0.3 * rng.random(), lat, what),
                (user, time + 7, lon + 0.3, lat, what),
                (user, time, None, lat, what),
                (user, time + 3, 200.0, lat, what),
                (user, time + 5, 0.0, 0.0, what),
                (user, time, lon, lat, "again"),
                (user, time, lat, lon, what),
            ][kind]
        )
    order = rng.permutation(len(rows))
    log = write(tmp_path / "log.parquet", [rows[i] for i in order])
    manifest = run(
        tmp_path,
        log,
        drop=("empty", "out-of-range", "null-island", "swapped", "conflict", "teleport"),
        max_speed=50.0,
        options={"every": "60s", "missing": "hold", "rows_alike": True},
    )
    assert sum(manifest["ingest"]["dropped"].values()) > 0
    # The order of rows does not matter.
    again = write(tmp_path / "again.parquet", rows)
    (tmp_path / "2").mkdir()
    other = run(
        tmp_path / "2",
        again,
        drop=("teleport", "conflict", "swapped", "empty", "null-island", "out-of-range"),
        max_speed=50.0,
        options={"every": "60s", "missing": "hold", "rows_alike": True},
    )
    assert manifest == other


@pytest.mark.parametrize("share", [0.01, 0.1, 0.4])
@pytest.mark.parametrize(
    ("reason", "spoil"),
    [("swapped", lambda x, y: (y, x)), ("null-island", lambda x, y: (0.0, 0.0))],
)
def test_many_misplaced_rows(tmp_path, share, reason, spoil):
    """So many that they do not count as outliers of the region."""
    rng = np.random.default_rng(9)
    rows = walk(num_users=25)
    bad = rng.permutation(len(rows))[: int(share * len(rows))]
    for i in bad:
        user, time, x, y, what = rows[i]
        rows[i] = (user, time, *spoil(x, y), what)
    log = write(tmp_path / "log.parquet", rows)
    with pytest.raises(tc.InputError) as caught:
        run(tmp_path, log)
    first = ", ".join(str(i + 1) for i in sorted(bad)[:5])
    assert re.search(rf"log.parquet: (row|\d+ rows) \(?{first}\b", str(caught.value))
    assert f'drop="{reason}"' in str(caught.value)
    options = {"every": "60s", "missing": "hold"}
    manifest = run(tmp_path, log, drop=(reason,), options=options)
    assert manifest["ingest"]["dropped"][reason] == len(bad)
    assert manifest["region"]["side"] < 5000


@pytest.mark.parametrize(
    ("centre", "size"),
    [((0.0, 0.0), 0.01), ((13.4, 13.5), 0.5), ((-30.0, -30.0), 60.0), ((0.2, 0.0), 0.4)],
)
def test_places_that_are_not_misplaced(tmp_path, centre, size):
    """Logs around 0, 0, and logs where swapped rows would be in the bulk, too."""
    rows = [*walk(num_users=25, centre=centre, size=size), ("user-1", 100, *centre, "w")]
    anonymize(read_in_memory(write(tmp_path / "log.parquet", rows)), 2, every="60s")


def test_a_region_keeps_misplaced_rows(tmp_path):
    rows = [*walk(num_users=25), ("user-1", 100, 52.5, 13.4, "w")]
    log = read_in_memory(write(tmp_path / "log.parquet", rows))
    region = (-5_000_000.0, -5_000_000.0, 10_000_000.0)
    assert anonymize(log, 2, every="60s", region=region).manifest["users"] == 25


def test_a_clip_drops_rows_outside(tmp_path):
    rows = walk(num_users=20)
    log = write(tmp_path / "log.parquet", rows)
    clip = (13.4, 52.5, 13.41, 52.5075)
    manifest = run(tmp_path, log, clip=clip, options={"every": "60s", "missing": "hold"})
    outside = sum(lat > clip[3] for _, _, _, lat, _ in rows)
    assert manifest["ingest"]["dropped"]["clip"] == outside > 0
    with pytest.raises(tc.InputError, match="all 160 rows of the log are dropped"):
        read_in_memory(log, LogColumns(clip=(0.0, 0.0, 1.0, 1.0)))


def test_row_numbers_are_those_of_the_files_after_rows_were_dropped(tmp_path):
    rows = walk(num_users=60)
    rows.insert(3, ("user-0", 1, None, 52.5, "w"))
    rows.insert(200, ("user-9", 1, 13.4, 95.0, "w"))
    log = write(tmp_path / "log.parquet", rows)
    with pytest.raises(tc.InputError, match=r"log.parquet: row 201: column 'lat' is out of range"):
        read_in_memory(log, LogColumns(drop=("empty",)))
    rows[200] = ("user-9", 1, 93.4, 52.5, "w")
    log = write(tmp_path / "log2.parquet", rows)
    with pytest.raises(tc.InputError, match=r"log2.parquet: row 201 is far from all others"):
        anonymize(read_in_memory(log, LogColumns(drop=("empty",))), 2, every="60s")


@pytest.mark.parametrize("side", [179.995, -180.0])
def test_a_log_may_cross_the_180th_meridian(tmp_path, side):
    rows = [
        (u, t, (lon + 180) % 360 - 180, lat, w) for u, t, lon, lat, w in walk(centre=(side, -17.0))
    ]
    manifest = run(tmp_path, write(tmp_path / "log.parquet", rows))
    assert manifest["region"]["side"] < 5000
    assert "lon_0=180" in manifest["crs"] or "lon_0=-179" in manifest["crs"]


def test_a_log_around_the_globe_is_refused(tmp_path):
    rows = walk() + [("user-1", 7, lon, 10.0, "w") for lon in (-100.0, 0.0, 100.0)]
    log = write(tmp_path / "log.parquet", rows)
    with pytest.raises(tc.InputError, match=r"spans more than 180 degrees .* clip="):
        anonymize(read_in_memory(log), 2, every="60s")


def test_near_a_pole(tmp_path):
    rows = walk(centre=(20.0, 89.9))
    assert run(tmp_path, write(tmp_path / "log.parquet", rows))["region"]["side"] < 5000


NATIONAL = ("user_id", "time", "x", "y", "what")


def test_metres_of_a_national_grid_are_used_as_they_are(tmp_path):
    rows = walk(centre=(530_000.0, 180_000.0), size=800.0)
    log = write(tmp_path / "log.parquet", rows, NATIONAL)
    manifest = run(tmp_path, log, crs="EPSG:27700")
    assert manifest["crs"] == manifest["ingest"]["crs"] == "EPSG:27700"
    assert manifest["height"] == 7
    assert 529_000 < manifest["region"]["x_min"] < 530_100


def test_degrees_of_another_datum_are_projected(tmp_path):
    log = write(tmp_path / "log.parquet", walk(), NATIONAL)
    manifest = run(tmp_path, log, crs="EPSG:4258")
    assert manifest["ingest"]["crs"] == "EPSG:4258"
    assert "+proj=laea" in manifest["crs"]


@pytest.mark.parametrize("crs", ["EPSG:2225", "EPSG:4978", "EPSG:1", "nonsense", ""])
def test_other_coordinate_systems_are_refused(tmp_path, crs):
    log = write(tmp_path / "log.parquet", walk())
    with pytest.raises(tc.OptionError, match=r"expected a coordinate system .*crs="):
        read_in_memory(log, LogColumns(crs=crs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": ("everything",)}, "drop="),
        ({"clip": (1.0, 2.0)}, "clip="),
        ({"clip": (1.0, 2.0, 0.0, 3.0)}, "clip="),
        ({"clip": (1.0, 2.0, 3.0, float("nan"))}, "clip="),
        ({"max_speed": 0.0}, "max_speed="),
        ({"max_speed": float("inf")}, "max_speed="),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(tc.OptionError, match=message):
        LogColumns(**options)


def test_a_speed_needs_a_unit(tmp_path):
    log = write(tmp_path / "log.parquet", walk(), NATIONAL)
    with pytest.raises(tc.OptionError, match="pass max_speed="):
        read_in_memory(log, LogColumns(drop=("teleport",)))
