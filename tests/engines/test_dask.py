"""The plan on a real cluster of two worker processes."""

import os
import signal
import sys
from functools import partial

import dask.dataframe
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client

import trajcloak as tc
from clusters import write_certificates
from engines.releases import SKEWS, compare, draw_skewed, run, write_log
from small_logs import COLUMNS, UNIT_CELLS, Row, clustered_rows, draw_log, list_tree
from trajcloak.engines import anonymize_on
from trajcloak.engines.clusters import connect, open_dask
from trajcloak.engines.plan import Sizes

OPTIONS = {"algorithm": "traj-anon", **UNIT_CELLS}


@pytest.mark.parametrize("skew", SKEWS)
def test_skewed_logs(engine, skew):
    rows = draw_skewed(SKEWS.index(skew), skew, 90, 3)
    outcome = compare(rows, 4, engine=engine, sizes=Sizes(90, 60))
    assert outcome.error is None


@pytest.mark.parametrize("seed", range(4))
def test_logs_with_gaps_and_windows(engine, seed):
    drawn = draw_log(seed)
    compare(drawn.rows, drawn.k, engine=engine, sizes=Sizes(9, 9), **drawn.run_options)


def test_empty_parts_and_ranges(engine):
    """Two users in nine parts, all of them in one place."""
    rows = [Row(user, t, 1, 1, "x") for t in range(9) for user in range(2)]
    assert compare(rows, 2, engine=engine, sizes=Sizes(2, 1)).error is None


def test_fewer_than_k_users(engine):
    outcome = compare(clustered_rows(), 50, engine=engine)
    assert outcome.error is not None
    assert outcome.error[0] == "NotEnoughUsersError"


def test_a_bad_row_is_named_and_no_value_is_logged(engine, capfd):
    rows = clustered_rows()
    rows[20] = rows[20]._replace(x=float("nan"))
    outcome = compare(rows, 3, engine=engine)
    assert outcome.error is not None
    assert "row 21" in outcome.error[1]
    printed = "".join(capfd.readouterr())
    assert "u0" not in printed
    assert "array" not in printed


def test_conflicts_of_several_parts_are_counted_together(engine):
    rows = clustered_rows()
    rows += [row._replace(x=9) for row in rows[3:30:4]]
    outcome = compare(rows, 3, engine=engine, sizes=Sizes(5, 5))
    assert outcome.error is not None
    assert "7 such pairs in the log" in outcome.error[1]


def test_rows_at_zero_are_judged_by_the_whole_log(engine, tmp_path):
    places = [(0.0, 0.0) if i % 9 == 4 else (-8 - i / 999, 40 + i / 999) for i in range(40)]
    rows = [Row(user, 0, *place) for user, place in enumerate(places)]
    path = write_log(tmp_path, rows)
    pq.write_table(pq.read_table(path).rename_columns({"x": "lon", "y": "lat"}), path)
    options = {"sizes": Sizes(5, 5), "region": None, "height": None}
    outcome = compare(path, 3, engine=engine, columns=tc.LogColumns(), **options)
    assert outcome.error is not None
    assert "4 rows (5, 14, 23, 32) are" in outcome.error[1]


@pytest.mark.parametrize("stage", ["bundling", "writing release"])
def test_a_worker_killed_in_mid_run(tmp_path, engine, stage):
    """What it was doing is done again."""
    path = write_log(tmp_path, draw_skewed(3, "even", 90, 3))
    pids = list(engine.client.run(os.getpid).values())
    killed = []

    def kill(name: str, done: int, total: int) -> None:
        if name == stage and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    def work() -> object:
        return anonymize_on(
            engine, path, COLUMNS, tc.Options(k=4, **OPTIONS),
            sizes=Sizes(60, 60), progress=kill,
        )  # fmt: skip

    class Writing:
        """Passes the listener on to the writing, too."""

        def __init__(self) -> None:
            self.result = work()
            self.rare = self.result.rare

        def write(self, *paths: object) -> None:
            self.result.write(*paths, progress=kill)

    actual = run(Writing, tmp_path / "killed")
    expected = run(
        lambda: tc.anonymize(tc.read_log(path, COLUMNS), 4, **OPTIONS), tmp_path / "whole"
    )
    assert killed
    assert actual == expected


def test_a_run_whose_values_go_away_leaves_nothing(tmp_path, engine):
    path = write_log(tmp_path, clustered_rows())
    before = list_tree(tmp_path)
    result = anonymize_on(engine, path, COLUMNS, tc.Options(k=3, **OPTIONS))
    engine.scratch.close()
    with pytest.raises(tc.OutputError, match="--scratch"):
        result.write(tmp_path / "release", tmp_path / "policy.parquet")
    assert list_tree(tmp_path) == before


def test_a_client_and_a_folder_or_a_frame(tmp_path, client):
    folder = tmp_path / "log"
    folder.mkdir()
    table = pq.read_table(write_log(tmp_path, draw_skewed(1, "even", 60, 3)))
    for part in range(3):
        pq.write_table(table.slice(part * 70, 70), folder / f"{part}.parquet")
    frame = dask.dataframe.read_parquet(folder)
    for number, (source, in_memory) in enumerate(((folder, folder), (frame, frame.compute()))):
        actual, expected = (
            run(make, tmp_path / f"{name}{number}")
            for name, make in (
                ("dask", partial(tc.anonymize, source, engine=client, columns=COLUMNS)),
                ("memory", partial(tc.anonymize, tc.read_log(in_memory, COLUMNS))),
            )
            for make in [partial(make, k=4, **OPTIONS)]
        )
        assert actual.error is None
        assert actual == expected


def test_connections_without_the_right_certificate_are_refused(cluster):
    with pytest.raises(tc.OptionError, match="no scheduler answers"):
        connect(cluster.scheduler_address, (None, None, None))


def test_certificates_are_taken_from_files(tmp_path, cluster, scratch):
    files = write_certificates(cluster, tmp_path)
    with open_dask(scratch, cluster.scheduler_address, None, files) as engine:
        assert engine.ask(len, [([1, 2],)]) == [2]


def test_a_missing_dask_is_named(monkeypatch, scratch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(tc.OptionError, match=r"pip install 'trajcloak\[dask\]'"):
        with open_dask(scratch):
            pass


def test_a_log_in_memory_is_refused(client):
    places = {"user_id": [1, 2], "time": [0, 0], "x": [0.0, 1.0], "y": [0.0, 1.0]}
    log = tc.read_log(pa.table(places))
    with pytest.raises(tc.OptionError, match="in memory"):
        tc.anonymize(log, 2, engine=client)
    with pytest.raises(tc.OptionError, match="not read yet"):
        tc.anonymize("log.parquet", 2)
