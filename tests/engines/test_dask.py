"""The plan on a real cluster of two worker processes."""

import os
import resource
import shutil
import signal
import stat
import tempfile
from functools import partial
from typing import BinaryIO

import dask.dataframe
import pyarrow.parquet as pq
import pytest
from distributed import Client, Future

import trajcloak as tc
from engines.releases import SKEWS, compare, draw_skewed, run, write_log
from runs import anonymize
from small_logs import COLUMNS, UNIT_CELLS, Row, clustered_rows, draw_log, list_tree
from trajcloak.engines import shard_files
from trajcloak.engines.engine import Sizes
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import anonymize_on

OPTIONS = {"algorithm": "traj-anon", **UNIT_CELLS}


@pytest.mark.parametrize("skew", SKEWS)
def test_skewed_logs(dask_engine, skew):
    rows = draw_skewed(SKEWS.index(skew), skew, 90, 3)
    outcome = compare(rows, 4, engine=dask_engine, sizes=Sizes(90, 60))
    assert outcome.error is None


@pytest.mark.parametrize("seed", range(4))
def test_logs_with_gaps_and_windows(dask_engine, seed):
    drawn = draw_log(seed)
    compare(drawn.rows, drawn.k, engine=dask_engine, sizes=Sizes(9, 9), **drawn.run_options)


def test_empty_parts_and_ranges(dask_engine):
    """Two users in nine parts, all of them in one place."""
    rows = [Row(user, t, 1, 1, "x") for t in range(9) for user in range(2)]
    assert compare(rows, 2, engine=dask_engine, sizes=Sizes(2, 1)).error is None


def test_fewer_than_k_users(dask_engine):
    outcome = compare(clustered_rows(), 50, engine=dask_engine)
    assert outcome.error is not None
    assert outcome.error[0] == "NotEnoughUsersError"


def test_a_bad_row_is_named_and_no_value_is_logged(dask_engine, capfd):
    rows = clustered_rows()
    rows[20] = rows[20]._replace(x=float("nan"))
    outcome = compare(rows, 3, engine=dask_engine)
    assert outcome.error is not None
    assert "row 21" in outcome.error[1]
    printed = "".join(capfd.readouterr())
    assert "u0" not in printed
    assert "array" not in printed


def test_a_call_that_fails_is_finished_to_dask(dask_engine, monkeypatch):
    """A worker logs the arguments of calls that are not."""
    gather = dask_engine.client.gather
    states = []

    def look(futures: list[Future]) -> object:
        states.extend(future.status for future in futures)
        return gather(futures)

    monkeypatch.setattr(dask_engine.client, "gather", look)
    for method in (dask_engine.ask, dask_engine.derive):
        with pytest.raises(ValueError, match="invalid literal"):
            method(int, [("1",), ("x",)])
    assert states == ["finished"] * 4


def test_conflicts_of_several_parts_are_counted_together(dask_engine):
    rows = clustered_rows()
    rows += [row._replace(x=9) for row in rows[3:30:4]]
    outcome = compare(rows, 3, engine=dask_engine, sizes=Sizes(5, 5))
    assert outcome.error is not None
    assert "7 such pairs in the log" in outcome.error[1]


def test_rows_at_zero_are_judged_by_the_whole_log(dask_engine, tmp_path):
    places = [(0.0, 0.0) if i % 9 == 4 else (-8 - i / 999, 40 + i / 999) for i in range(40)]
    rows = [Row(user, 0, *place) for user, place in enumerate(places)]
    path = write_log(tmp_path, rows)
    pq.write_table(pq.read_table(path).rename_columns({"x": "lon", "y": "lat"}), path)
    options = {"sizes": Sizes(5, 5), "region": None, "height": None}
    outcome = compare(path, 3, engine=dask_engine, columns=LogColumns(), **options)
    assert outcome.error is not None
    assert "4 rows (5, 14, 23, 32) are" in outcome.error[1]


@pytest.mark.parametrize("stage", ["bundling windows", "writing release"])
def test_a_worker_killed_in_mid_run(tmp_path, dask_engine, stage):
    """What it was doing is done again."""
    path = write_log(tmp_path, draw_skewed(3, "even", 90, 3))
    pids = list(dask_engine.client.run(os.getpid).values())
    killed = []
    dask_engine._sizes = Sizes(60, 60)

    def kill(name: str, done: int, total: int) -> None:
        if name == stage and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    dask_engine.progress = kill

    def work() -> object:
        return anonymize_on(dask_engine, path, COLUMNS, Options(k=4, **OPTIONS))

    class Writing:
        """Passes the listener on to the writing, too."""

        def __init__(self) -> None:
            self.result = work()
            self.figures = self.result.figures

        def write(self, *paths: object) -> None:
            self.result.write(*paths, progress=kill)

    actual = run(Writing, tmp_path / "killed")
    expected = run(
        lambda: anonymize(read_in_memory(path, COLUMNS), 4, **OPTIONS), tmp_path / "whole"
    )
    assert killed
    assert actual == expected


def kill_while_writing() -> None:
    """Let the next file that this process writes be its last, and unfinished."""

    def write_half(pieces: object, file: BinaryIO) -> None:
        file.write(b"half of it")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    shard_files._write = write_half


def test_a_worker_killed_while_it_writes_a_file(tmp_path, dask_engine):
    path = write_log(tmp_path, draw_skewed(3, "even", 90, 3))
    dask_engine._sizes = Sizes(60, 60)
    workers = dask_engine.client.run(os.getpid)
    dask_engine.client.run(kill_while_writing, workers=[min(workers)])
    actual = run(
        lambda: anonymize_on(dask_engine, path, COLUMNS, Options(k=4, **OPTIONS)),
        tmp_path / "killed",
    )
    expected = run(
        lambda: anonymize(read_in_memory(path, COLUMNS), 4, **OPTIONS), tmp_path / "whole"
    )
    dask_engine.client.wait_for_workers(2, timeout=300)
    assert workers[min(workers)] not in dask_engine.client.run(os.getpid).values()
    assert actual == expected


def end_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_are_lost_again_and_again(dask_engine, cluster, monkeypatch):
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(tc.OptionError, match="give them more of it, or fewer threads"):
        dask_engine.ask(end_this_process, [()])


def limit_files(size: int) -> None:
    """Let this process write files of so many bytes at most, as on a disk that is full."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


def test_a_full_scratch_folder_is_named(tmp_path, dask_engine):
    path = write_log(tmp_path, draw_skewed(3, "even", 90, 3))
    before = list_tree(tmp_path)
    dask_engine.client.run(limit_files, 1000)
    try:
        with pytest.raises(tc.OutputError, match=r"File too large.*choose another scratch="):
            anonymize_on(dask_engine, path, COLUMNS, Options(k=4, **OPTIONS)).write(tmp_path / "r")
    finally:
        dask_engine.client.run(limit_files, -1)
    assert list_tree(tmp_path) == before
    assert not list(dask_engine.folder.rglob("*.unfinished"))


def test_a_scratch_folder_that_goes_away_in_mid_run_is_named(tmp_path, dask_engine):
    path = write_log(tmp_path, draw_skewed(3, "even", 90, 3))
    before = list_tree(tmp_path)

    def remove(stage: str, done: int, total: int) -> None:
        if stage == "bundling windows":
            shutil.rmtree(dask_engine.folder, ignore_errors=True)

    dask_engine.progress = remove
    with pytest.raises(tc.OutputError, match=r"No such file.*choose another scratch="):
        anonymize_on(dask_engine, path, COLUMNS, Options(k=4, **OPTIONS))
    assert list_tree(tmp_path) == before


def test_shards_stay_in_files_and_are_dropped_when_nobody_needs_them(tmp_path, dask_engine):
    path = write_log(tmp_path, draw_skewed(3, "even", 90, 3))
    dask_engine._sizes = Sizes(60, 60)
    made = anonymize_on(dask_engine, path, COLUMNS, Options(k=4, **OPTIONS))
    folder = dask_engine.folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    made.write(tmp_path / "release")
    left = {stage.name.split("-", 1)[1] for stage in folder.iterdir()}
    assert not left & {"read_rows", "join_shard", "cut_shard", "split_by_key"}
    # The scheduler may be late to let go of the last call, which has no value.
    held = dask_engine.client.run(lambda dask_worker: list(dask_worker.data.values()))
    assert {value for values in held.values() for value in values} <= {None}


def test_the_scratch_folder_goes_with_the_result_or_the_failure(
    tmp_path, client, scratch, monkeypatch
):
    path = write_log(tmp_path, clustered_rows())
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    result = anonymize(path, 3, engine=client, columns=COLUMNS, **OPTIONS)
    assert len(list(scratch.iterdir())) == 1
    del result
    assert list(scratch.iterdir()) == []
    with pytest.raises(tc.NotEnoughUsersError) as raised:
        anonymize(path, 100, engine=client, columns=COLUMNS, **OPTIONS)
    # Also while the error, and with it the run, is still looked at.
    assert list(scratch.iterdir()) == []
    assert raised.traceback


def test_workers_that_may_be_elsewhere_need_a_scratch_folder(tmp_path, cluster, scratch):
    path = write_log(tmp_path, clustered_rows())
    with Client(cluster.scheduler_address, security=cluster.security) as client:
        with pytest.raises(tc.OptionError, match="pass scratch"):
            anonymize(path, 3, engine=client, columns=COLUMNS, **OPTIONS)
        made = anonymize(path, 3, engine=client, columns=COLUMNS, scratch=scratch, **OPTIONS)
        assert made.manifest["smallest_bundle"] >= 3


def test_a_scratch_folder_that_is_not_there(tmp_path, client):
    with pytest.raises(tc.OutputError, match="no scratch folder can be made"):
        anonymize("log.parquet", 3, engine=client, scratch=tmp_path / "none")


def test_a_run_whose_values_go_away_leaves_nothing(tmp_path, dask_engine):
    path = write_log(tmp_path, clustered_rows())
    before = list_tree(tmp_path)
    result = anonymize_on(dask_engine, path, COLUMNS, Options(k=3, **OPTIONS))
    dask_engine.close()
    with pytest.raises(tc.OutputError, match="scratch="):
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
                ("dask", partial(anonymize, source, engine=client, columns=COLUMNS)),
                ("memory", partial(anonymize, read_in_memory(in_memory, COLUMNS))),
            )
            for make in [partial(make, k=4, **OPTIONS)]
        )
        assert actual.error is None
        assert actual == expected


def test_two_frames(tmp_path, client):
    table = pq.read_table(write_log(tmp_path, draw_skewed(1, "even", 60, 3)))
    locations, requests = table.drop_columns(["what"]), table.drop_columns(["x", "y"])
    frames = [dask.dataframe.from_pandas(part.to_pandas(), 3) for part in (locations, requests)]
    options = {"k": 4, "columns": COLUMNS, **OPTIONS}
    actual, expected = (
        run(partial(anonymize, places, request_log=sent, **options, **on), tmp_path / name)
        for name, places, sent, on in (
            ("dask", *frames, {"engine": client}),
            ("memory", *(frame.compute() for frame in frames), {}),
        )
    )
    assert actual.error is None
    assert actual == expected


@pytest.mark.parametrize("is_split", [False, True])
def test_the_release_of_a_frame_is_audited(tmp_path, client, is_split):
    table = pq.read_table(write_log(tmp_path, draw_skewed(1, "even", 60, 3)))
    requests = table.drop_columns(["x", "y"])
    log, sent = (dask.dataframe.from_pandas(part.to_pandas(), 3) for part in (table, requests))
    options = {"request_log": sent} if is_split else {}
    release = tc.anonymize(log, k=4, requests="what", engine=client, **options, **OPTIONS)
    report = release.audit()
    assert report.passed, [check for check in report.checks if not check.passed]
    release.save(tmp_path / "saved", policy=tmp_path / "saved.parquet")
    other = log[log["user_id"] != table["user_id"][0].as_py()]
    again = tc.audit(other, tmp_path / "saved", tmp_path / "saved.parquet", **options)
    assert not again.passed
