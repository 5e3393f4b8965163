"""Studies return tables, and take logs as ``anonymize`` does."""

import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pytest

import trajcloak as tc
from interface.frames import LENGTH, UTM, build_geopandas, build_pandas

K = 4


@pytest.fixture(scope="module")
def log() -> tc.Log:
    return tc.read_log(build_pandas(), requests="service")


def test_inspect_log(log):
    found = tc.inspect_log(log, k=K)
    assert isinstance(found, tc.Inspection)
    choices = found.choices.to_pandas()
    assert choices["varied"].unique().tolist() == [
        "nothing", "every", "max_gap", "length", "members",
    ]  # fmt: skip
    assert choices.loc[0, "every"] == found.proposed.every == "60s"
    assert choices.loc[0, "length"] == found.proposed.length
    renamed = build_pandas().rename(columns={"user_id": "rider"})
    given = tc.inspect_log(renamed, user="rider", every=pd.Timedelta("2min"))
    assert given.proposed.every == "120s"


def test_plan_log(log):
    table = tc.plan_log(log, k=K)
    assert table["k"].unique().to_pylist() == [K]
    assert table["area"].null_count == 0
    renamed = build_pandas().rename(columns={"user_id": "rider"})
    assert tc.plan_log(renamed, k=K, user="rider", requests="service").equals(table)


def test_attack(log):
    found = tc.attack(log, k=K, algorithms="refined")
    assert isinstance(found, pa.Table)
    rows = found.to_pylist()
    assert {row["policy"] for row in rows} == {"k-inside", "bulk-dp", "refined"}
    assert all(row["breaches"] == 0 for row in rows if row["policy"] == "refined")
    assert {row["requests"] for row in rows if row["policy"] == "k-inside"} == {144}
    renamed = build_pandas().rename(columns={"user_id": "rider"})
    again = tc.attack(renamed, k=K, algorithms="refined", user="rider", requests="service")
    assert again.equals(found)


def test_compare(log):
    table = tc.compare(log, k=K, algorithms=["traj-anon", "exact"], every=pd.Timedelta("60s"))
    assert table["algorithm"].to_pylist() == ["traj-anon", "exact"]
    assert table["smallest_bundle"].to_pylist()[0] >= K
    assert table["seconds"].type == pa.float64()


def test_a_script_that_compares_is_run_once(tmp_path):
    """Processes that are started could run it again, without end."""
    build_pandas().to_parquet(tmp_path / "log.parquet")
    (tmp_path / "script.py").write_text(
        "import trajcloak as tc\n"
        "print('run')\n"
        f"print(tc.compare('log.parquet', k={K}, algorithms='baseline')['status'].to_pylist())\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "run\n['ok']\n"


def test_what_is_refused_in_a_comparison_names_keywords():
    frame = pd.concat(
        [build_pandas().assign(user_id=lambda f, n=n: f["user_id"] + str(n)) for n in range(3)]
    )
    (status,) = tc.compare(frame, k=K, algorithms="exact")["status"].to_pylist()
    assert status.startswith("refused: ")
    assert "use another algorithm=" in status


def test_measure_utility(log, tmp_path):
    release = tc.anonymize(log, k=K)
    table = tc.measure_utility(log, release, queries=5)
    assert table["question"].to_pylist() == ["count", "moves", "requests"]
    assert table["within"].to_pylist() == [1.0, 1.0, 1.0]
    release.save(tmp_path / "release", policy=tmp_path / "policy.parquet")
    paths = tmp_path / "release", tmp_path / "policy.parquet"
    assert tc.measure_utility(log, *paths, queries=5).equals(table)
    frame = build_pandas()
    assert tc.measure_utility(frame, *paths, queries=5, requests="service").equals(table)
    # The attributes of the release are the default.
    assert tc.measure_utility(frame, *paths, queries=5).equals(table)
    with pytest.raises(tc.OptionError, match="pass policy="):
        tc.measure_utility(log, paths[0])


def test_write_report(tmp_path):
    frame = build_pandas().rename(columns={"user_id": "rider"})
    frame.to_parquet(tmp_path / "log.parquet")
    release = tc.anonymize(tmp_path / "log.parquet", k=K, user="rider", requests="service")
    release.save(tmp_path / "release", policy=tmp_path / "policy.parquet")
    report = tc.write_report(
        tmp_path / "release",
        tmp_path / "page.html",
        log=tmp_path / "log.parquet",
        policy=tmp_path / "policy.parquet",
        user="rider",
    )
    assert isinstance(report, tc.Report)
    assert report.private
    assert report.passed
    with pytest.raises(tc.OptionError, match="the log is a table in memory; expected files"):
        tc.write_report(tmp_path / "release", tmp_path / "other.html", log=frame, policy="p")


def test_audit_foreign(tmp_path):
    source = build_geopandas(UTM)
    release = tc.anonymize(source, k=K, requests="service")
    cells = release.to_pandas()[["instant", "x_min", "y_min", "x_max", "y_max"]]
    cells.to_csv(tmp_path / "cells.csv", index=False)
    renamed = source.rename(columns={"user_id": "rider"})
    every = pd.Timedelta("60s")
    report = tc.audit_foreign(renamed, tmp_path / "cells.csv", k=2, user="rider", every=every)
    assert isinstance(report, tc.AuditReport)
    assert report["rectangles"].passed
    assert report["candidates"].passed


def test_a_proposal_can_be_passed_on():
    frame = build_pandas()
    found = tc.inspect_log(frame, k=4, requests="service")
    assert repr(found) == (
        f"Inspection(every='60s', max_gap='120s', length={LENGTH}, members=4, refusals=0, doubts=0)"
    )
    release = tc.anonymize(frame, k=4, requests="service", **found.settings)
    assert release.manifest["users"] == found.proposed.most_users


def test_what_would_be_refused_is_inspected_all_the_same():
    frame = build_pandas()
    frame.loc[3, "lat"] = 200.0
    frame.loc[5, "lon"] = None
    found = tc.inspect_log(frame, k=4)
    places, empty = found.refusals
    assert places.startswith("row 4: column 'lat' is out of range")
    assert 'drop="empty"' in empty
    assert found.ingest.rows == len(frame) - 2
    with pytest.raises(tc.RefusedLogError, match="for 2 reasons"):
        tc.anonymize(frame, k=4)


def test_a_region_and_rows_alike_decide_whether_a_log_is_refused():
    frame = build_pandas()
    (reason,) = tc.inspect_log(frame, region=(0, 0, 10)).refusals
    assert "outside the region" in reason
    frame.loc[1, "time"] += pd.Timedelta("7s")
    settings = {"requests": "service", "every": "60s", "k": 4}
    assert len(tc.inspect_log(frame, **settings).refusals) == 1
    assert not tc.inspect_log(frame, rows_alike=True, **settings).refusals
