"""What is measured, what is left out, and what is written."""

import json

import pyarrow.parquet as pq
import pytest

from experiments.run import (
    CLUSTERING,
    OK,
    SIZES,
    TIMED_OUT,
    Logs,
    Point,
    Size,
    cut_log,
    measure,
    plan,
    read_comparisons,
    read_stages,
    run,
)
from trajcloak.generator import generate_log

TINY = Size(phases=(10, 20), clustering=(10, 30), hilbert=(20,), settings=40, limit=7)


def generate(path, users, length):
    generate_log(path, users=users, length=length, seed=3, junctions=2000)
    return path


def no_log(users, length):
    return f"{users}-{length}"


class Recorder:
    """Answers like ``measure`` and remembers what it was asked."""

    def __init__(self, status=lambda point: OK):
        self.status = status
        self.asked = []

    def __call__(self, point, log, limit):
        self.asked.append((point, log, limit))
        return {"status": self.status(point), "seconds": [1.0]}

    @property
    def users(self):
        return [point.users for point, _, _ in self.asked]


def read(folder, point):
    return json.loads((folder / f"{point.name}.json").read_text())


def test_every_point_of_every_figure_is_planned():
    points = list(plan(TINY))
    by_experiment = {}
    for point in points:
        by_experiment.setdefault(point.experiment, []).append(point)
    assert by_experiment["phases"] == [
        Point("phases", "traj-anon", users, length) for length in (10, 30) for users in (10, 20)
    ]
    assert by_experiment["clustering"] == [
        Point("clustering", algorithm, users, 30, 50)
        for algorithm in CLUSTERING
        for users in (10, 30)
    ]
    assert by_experiment["hilbert"] == [
        Point("hilbert", "traj-anon", 20, 30, 50),
        Point("hilbert", "hilbert-clustering", 20, 30, 50),
    ]
    by_k = [(p.algorithm, p.users, p.length, p.k) for p in by_experiment["k"]]
    assert by_k == [(a, 40, 30, k) for a in CLUSTERING for k in (5, 10, 50, 100, 200)]
    by_length = [(p.algorithm, p.users, p.length, p.k) for p in by_experiment["length"]]
    assert by_length == [(a, 40, length, 50) for a in CLUSTERING for length in (1, 6, 10, 20, 30)]


@pytest.mark.parametrize("size", SIZES)
def test_no_two_points_share_a_result_file(size):
    points = list(plan(SIZES[size]))
    assert len({point.name for point in points}) == len(points)


def test_finished_points_are_skipped(tmp_path):
    points = list(plan(TINY))
    first = Recorder()
    assert run(points, tmp_path, 7, no_log, first) == 0
    assert [point for point, _, _ in first.asked] == points
    assert first.asked[0] == (points[0], "10-10", 7)
    (tmp_path / f"{points[5].name}.json").unlink()
    second = Recorder()
    run(points, tmp_path, 7, no_log, second)
    assert [point for point, _, _ in second.asked] == [points[5]]


def test_out_of_time_is_recorded_and_more_users_are_not_tried(tmp_path):
    points = [Point("clustering", "slow-clustering", users) for users in (10, 20, 30)]
    other = Point("clustering", "fast-clustering", 30)
    recorder = Recorder(lambda p: TIMED_OUT if p == points[1] else OK)
    assert run([*points, other], tmp_path, 7, no_log, recorder) == 0
    assert [point for point, _, _ in recorder.asked] == [*points[:2], other]
    assert read(tmp_path, points[0])["status"] == OK
    assert read(tmp_path, points[1])["status"] == TIMED_OUT
    assert read(tmp_path, points[1])["limit"] == 7
    beyond = read(tmp_path, points[2])
    assert (beyond["status"], beyond["tried"]) == (TIMED_OUT, False)
    assert "seconds" not in beyond


def test_out_of_time_is_tried_again_with_more_time_only(tmp_path):
    points = [Point("clustering", "slow-clustering", users) for users in (10, 20)]
    run(points, tmp_path, 7, no_log, Recorder(lambda point: TIMED_OUT))
    for limit, users in ((7, []), (5, []), (8, [10, 20])):
        recorder = Recorder()
        run(points, tmp_path, limit, no_log, recorder)
        assert recorder.users == users


def test_failures_are_counted_recorded_and_tried_again(tmp_path):
    point = Point("clustering", "refined", 10)
    assert run([point], tmp_path, 7, no_log, Recorder(lambda point: "failed: no memory")) == 1
    assert read(tmp_path, point)["status"] == "failed: no memory"
    again = Recorder()
    assert run([point], tmp_path, 7, no_log, again) == 0
    assert again.users == [10]


def test_a_cut_log_is_the_log_of_fewer_users_and_instants(tmp_path):
    whole = generate(tmp_path / "whole.parquet", users=50, length=4)
    expected = generate(tmp_path / "expected.parquet", users=20, length=3)
    cut_log(whole, 50, tmp_path / "cut.parquet", users=20, length=3)
    assert pq.read_table(tmp_path / "cut.parquet").equals(pq.read_table(expected))


def test_logs_are_made_once(tmp_path):
    generate(tmp_path / "city-60-3.parquet", users=60, length=3)
    logs = Logs(tmp_path, users=60, length=3)
    assert logs.get(60, 3) == tmp_path / "city-60-3.parquet"
    cut = logs.get(50, 2)
    assert pq.read_metadata(cut).num_rows == 100
    made = cut.stat().st_mtime_ns
    assert logs.get(50, 2).stat().st_mtime_ns == made


@pytest.mark.slow
def test_a_point_is_measured(tmp_path):
    log = generate(tmp_path / "log.parquet", users=60, length=3)
    result = measure(Point("hilbert", "traj-anon", 60, 3, 20), log, 60)
    assert result["status"] == OK
    assert len(result["seconds"]) == 3
    assert result["cost"] > 0
    assert 1 <= result["bundles"] <= 3


def test_a_command_that_fails_is_told(tmp_path):
    assert measure(Point("k", "refined", 60, 3, 20), tmp_path / "none.parquet", 60) == {
        "status": "failed: exit code 2"
    }


def test_phases_are_those_of_the_median_run():
    answers = [{"seconds": s, "stages": {"read": s}} for s in (3.0, 1.0, 2.0)]
    result = read_stages(answers)
    assert result == {"status": OK, "seconds": [1.0, 2.0, 3.0], "stages": {"read": 2.0}}
    assert read_stages([*answers, {"problem": "failed: x"}]) == {"status": "failed: x"}


def test_a_run_out_of_time_has_no_time():
    answer = {"results": [{"status": TIMED_OUT, "seconds": 7.1, "cost_mbr": None}]}
    assert read_comparisons(answer) == {"status": TIMED_OUT}
