"""Utility of releases: what is measured, and what is refused."""

import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from small_logs import COLUMNS, UNIT_CELLS, Row, clustered_rows, read_rows, write_parquet
from trajcloak import utility
from trajcloak.query import open_release
from trajcloak.query.published_release import PublishedRelease

ROWS = clustered_rows(num_clusters=4, per_cluster=6, length=4)


@pytest.fixture
def made(tmp_path):
    """A folder with the release of ROWS and its policy file."""
    result = tc.anonymize(read_rows(ROWS), 3, threads=1, length=3, **UNIT_CELLS)
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    return tmp_path


def test_every_kind_of_question_is_asked(made):
    results = tc.measure_utility(read_rows(ROWS), made / "release", queries=40)
    assert [(r.question, r.queries, r.within) for r in results] == [
        ("count", 40, 1.0), ("moves", 40, 1.0), ("requests", 40, 1.0),
    ]  # fmt: skip
    for r in results:
        assert r.median_error >= 0
        assert 0 <= r.mean_error <= r.mean_width


def test_the_seed_decides_the_questions(made):
    log = read_rows(ROWS)
    first, again, other = (
        tc.measure_utility(log, made / "release", queries=20, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_questions_do_not_depend_on_the_release(made, monkeypatch):
    asked = []

    def note(name):
        method = getattr(PublishedRelease, name)

        def noting(self, *args):
            asked.append((name, args))
            return method(self, *args)

        monkeypatch.setattr(PublishedRelease, name, noting)

    log = read_rows(ROWS)
    other = tc.anonymize(log, 3, algorithm="baseline", cloak="quad", length=3, **UNIT_CELLS)
    other.write(made / "other")
    for name in ("count", "follow", "count_requests"):
        note(name)
    tc.measure_utility(log, made / "release", queries=10)
    first = list(asked)
    asked.clear()
    tc.measure_utility(log, made / "other", queries=10)
    assert asked == first
    assert len(first) == 30


def test_figures_by_hand():
    pairs = [
        (10, tc.Answer(5, 8.0, 15)),
        (4, tc.Answer(4, 4.0, 4)),
        (0, tc.Answer(0, 3.0, 6)),
        (2, tc.Answer(3, 3.0, 3)),
    ]
    assert utility._judge("count", pairs) == tc.Utility(
        question="count",
        queries=4,
        mean_error=(0.2 + 0 + 3 + 0.5) / 4,
        median_error=0.35,
        mean_width=(1 + 0 + 6 + 0) / 4,
        within=0.75,
    )


def test_a_wrong_bound_shows(made, monkeypatch):
    count = PublishedRelease.count

    def one_more(self, *args):
        answers = count(self, *args)
        return {i: tc.Answer(a.upper + 1, a.upper + 1.0, a.upper + 1) for i, a in answers.items()}

    monkeypatch.setattr(PublishedRelease, "count", one_more)
    counted, moves, _ = tc.measure_utility(read_rows(ROWS), made / "release", queries=5)
    assert (counted.within, moves.within) == (0.0, 1.0)


def test_questions_that_cannot_be_asked_are_left_out(tmp_path):
    rows = [Row(f"u{u}", 0, u, 0) for u in range(4)]
    path = write_parquet(tmp_path / "log.parquet", rows)
    log = tc.read_log(path)
    tc.anonymize(log, 2, **UNIT_CELLS).write(tmp_path / "release")
    (only,) = tc.measure_utility(log, tmp_path / "release", queries=3)
    assert only.question == "count"


def test_suppressed_users_need_the_policy(tmp_path):
    log = read_rows([*ROWS, *(Row("far", t, 15, 15, "r9") for t in range(4))])
    result = tc.anonymize(log, 3, threads=1, max_suppressed=0.05, **UNIT_CELLS)
    assert result.manifest["suppressed"] == 1
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    with pytest.raises(tc.OptionError, match=r"users were suppressed; .* pass --policy"):
        tc.measure_utility(log, tmp_path / "release")
    results = tc.measure_utility(log, tmp_path / "release", policy=tmp_path / "policy.parquet")
    assert all(result.within == 1 for result in results)


@pytest.mark.parametrize("rule", ["drop", "other"])
def test_a_release_is_refused_only_if_rare_values_were_treated(tmp_path, rule):
    for name, rows in (("none", ROWS), ("some", [*ROWS, Row("u00", 3, 0, 0, "once")])):
        log = read_rows(rows)
        result = tc.anonymize(log, 3, threads=1, rare=rule, **UNIT_CELLS)
        result.write(tmp_path / name)
    measured = tc.measure_utility(read_rows(ROWS), tmp_path / "none", queries=5)
    assert [result.within for result in measured] == [1.0, 1.0, 1.0]
    counts = r"dropped \(1\) or changed \(0\)" if rule == "drop" else r"\(0\) or changed \(1\)"
    with pytest.raises(tc.InputError, match=f"{counts}; .* --rare keep"):
        tc.measure_utility(log, tmp_path / "some")


def shift_in_time(rows):
    return [row._replace(time=row.time + 7) for row in rows]


def leave_one_out(rows):
    return [row for row in rows if row.user != "u00"]


@pytest.mark.parametrize(
    ("change", "message"),
    [(shift_in_time, "its instants start at another time"), (leave_one_out, "has other users")],
)
def test_other_logs_are_refused(made, change, message):
    with pytest.raises(tc.InputError, match=f"not made of this log: .*{message}"):
        tc.measure_utility(read_rows(change(ROWS)), made / "release")


def test_a_log_read_without_the_attributes_is_refused(made, tmp_path):
    path = write_parquet(tmp_path / "log.parquet", ROWS)
    log = tc.read_log(path, tc.LogColumns())
    with pytest.raises(tc.InputError, match="requests are not read with 'what'"):
        tc.measure_utility(log, made / "release")


def test_a_log_with_timestamps_is_not_one_of_instants(made, tmp_path):
    table = pq.read_table(write_parquet(tmp_path / "log.parquet", ROWS))
    times = table["time"].cast("timestamp[s]")
    pq.write_table(table.set_column(1, "time", times), tmp_path / "stamped.parquet")
    log = tc.read_log(tmp_path / "stamped.parquet", COLUMNS)
    with pytest.raises(tc.InputError, match="one has timestamps, the other instants"):
        tc.measure_utility(log, made / "release")


def test_policies_of_other_users_are_refused(made):
    policy = pq.read_table(made / "policy.parquet")
    pq.write_table(policy.slice(1), made / "short.parquet")
    with pytest.raises(tc.InputError, match="has other users"):
        tc.measure_utility(read_rows(ROWS), made / "release", policy=made / "short.parquet")


@pytest.mark.parametrize("options", [{"queries": 0}, {"seed": -1}])
def test_options(made, options):
    with pytest.raises(tc.OptionError, match="expected at least 1 and a seed of at least 0"):
        tc.measure_utility(read_rows(ROWS), made / "release", **options)


def test_degrees(tmp_path):
    """The log's own projection is found again, and regions in degrees are projected."""
    rows = [
        f"u{u},{t},{13 + u % 5 / 100 + t / 1000},{52 + u // 5 / 100},{'ab'[u % 2]}"
        for u in range(20)
        for t in range(3)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["user_id,time,lon,lat,what", *rows]) + "\n")
    log = tc.read_log(tmp_path / "log.csv", COLUMNS)
    tc.anonymize(log, 4).write(tmp_path / "release")
    results = tc.measure_utility(log, tmp_path / "release", queries=20)
    assert [r.within for r in results] == [1, 1, 1]
    release = open_release(tmp_path / "release")
    everything = release.project((12.9, 51.9, 13.2, 52.2))
    assert release.count(everything, 0, 0) == {0: tc.Answer(20, 20.0, 20)}
    assert release.count(release.project((10, 51, 11, 52)), 0, 0) == {0: tc.Answer(0, 0.0, 0)}
    (west, south), (east, north) = release.project_points([(12.9, 51.9), (13.2, 52.2)])
    assert west < east
    assert south < north
