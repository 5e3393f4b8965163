"""A log like that of a fleet of taxis, through the commands, without a cleaning script."""

import json
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajcloak.cli import main

pytestmark = pytest.mark.slow

NUM_CABS = 500
NUM_DAYS = 21
PER_DAY = 20
NUM_REPORTS = NUM_DAYS * PER_DAY
OPTIONS = ["--every", "60s", "--max-gap", "5m", "--length", "10", "--tz", "America/Los_Angeles",
           "--align", "day", "--request", "ride"]  # fmt: skip
DROPPED = ["--drop", "teleport", "--drop", "null-island", "--drop", "empty", "--drop", "conflict"]


def write_taxis(path):
    """Irregular reports of three weeks of evenings, 60 s apart in the median."""
    rng = np.random.default_rng(17)
    shape = NUM_CABS, NUM_REPORTS
    gaps = rng.lognormal(np.log(57), 0.5, shape)
    gaps[:, ::PER_DAY] = rng.random((NUM_CABS, NUM_DAYS)) * 600
    gaps[rng.random(shape) < 0.01] = 600
    evening = np.cumsum(gaps.reshape(NUM_CABS, NUM_DAYS, PER_DAY), axis=2)
    evening += 86_400 * np.arange(NUM_DAYS)[:, None]
    seconds = (1_210_000_000 + evening.reshape(shape)).astype(np.int64)
    lon = -122.42 + np.cumsum(rng.normal(0, 3e-4, shape), axis=1)
    lat = 37.77 + np.cumsum(rng.normal(0, 3e-4, shape), axis=1)
    spoilt = rng.random(shape)
    lat[spoilt < 0.001] += 1.5
    lon[(spoilt > 0.001) & (spoilt < 0.002)] = lat[(spoilt > 0.001) & (spoilt < 0.002)] = 0
    lon, lat = lon.ravel(), lat.ravel()
    columns = {
        "user_id": np.repeat([f"cab-{cab:04d}" for cab in range(NUM_CABS)], NUM_REPORTS),
        "time": pa.array(seconds.ravel()).cast(pa.timestamp("s")),
        "lon": pa.array(lon, mask=rng.random(lon.size) < 0.0005),
        "lat": lat,
        "ride": pa.array(np.where(rng.random(lon.size) < 0.2, "hailed", None), pa.string()),
    }
    table = pa.table(columns)
    # Late rows, and some that came twice.
    order = np.concatenate([rng.permutation(len(table)), rng.integers(0, len(table), 200)])
    pq.write_table(table.take(pa.array(order)), path)


def run(capsys, *args):
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main([str(arg) for arg in args])
    printed = capsys.readouterr()
    return stopped.value.code, printed.out


def test_a_fleet_of_taxis(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_taxis("taxis.parquet")
    code, _ = run(capsys, "inspect", "taxis.parquet", "--drop", "empty")
    assert code == 2, "anonymize would refuse it, too"
    code, printed = run(capsys, "inspect", "taxis.parquet", "--k", "5", "--json", *DROPPED)
    assert code == 0
    _, *proposed = shlex.split(json.loads(printed)["command"])
    code, _ = run(capsys, *proposed)
    assert code == 0, "the command to copy"
    assert proposed[proposed.index("--every") + 1] == "60s"
    for left in ("release", "policy.parquet"):
        Path(left).rename(f"proposed-{left}")
    code, printed = run(
        capsys, "anonymize", "taxis.parquet", "-o", "release", "--k", "5", "--policy",
        "policy.parquet", "--json", *OPTIONS, *DROPPED,
    )  # fmt: skip
    assert code == 0
    told = json.loads(printed)
    manifest, private = told["manifest"], told["private"]
    ingest = manifest["ingest"]
    assert ingest["rows"] == NUM_CABS * NUM_REPORTS + 200
    assert all(ingest["dropped"][reason] > 10 for reason in ("empty", "null-island", "teleport"))
    assert ingest["repeated"] > 100
    assert ingest["users"] == NUM_CABS
    assert ingest["interval"]["median"] in ("58s", "59s", "60s")
    span = np.datetime64(ingest["end"][:19]) - np.datetime64(ingest["start"][:19])
    assert span > np.timedelta64(20, "D")
    assert manifest["windows"] > 20
    # Every cab and every request is somewhere: published, or withheld and counted.
    withheld = sum(private["withheld"].values())
    assert withheld > 0
    assert private["published"] + private["equal"] + withheld == private["requests"]
    assert manifest["requests"] == private["published"] > 100
    code, printed = run(
        capsys, "audit", "taxis.parquet", "release", "--policy", "policy.parquet", "--json"
    )
    failed = [check for check in json.loads(printed)["checks"] if not check["passed"]]
    assert (code, failed) == (0, [])
