"""Utility of releases: what is measured, and what is refused."""

from dataclasses import asdict

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from runs import anonymize
from small_logs import COLUMNS, UNIT_CELLS, Row, clustered_rows, read_rows, write_parquet
from trajcloak import utility
from trajcloak.log import read_in_memory
from trajcloak.options import WGS84, LogColumns
from trajcloak.query import Answer, open_published
from trajcloak.query.published_release import PublishedRelease
from trajcloak.utility import Utility, measure_answers

ROWS = clustered_rows(num_clusters=4, per_cluster=6, length=4)


@pytest.fixture
def made(tmp_path):
    """A folder with the release of ROWS and its policy file."""
    result = anonymize(read_rows(ROWS), 3, threads=1, length=3, **UNIT_CELLS)
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    return tmp_path


def test_every_kind_of_question_is_asked(made):
    results = measure_answers(
        read_rows(ROWS), made / "release", made / "policy.parquet", queries=40
    )
    assert [(r.question, r.queries, r.within) for r in results] == [
        ("count", 40, 1.0), ("moves", 40, 1.0), ("requests", 40, 1.0),
    ]  # fmt: skip
    for r in results:
        assert r.median_error >= 0
        assert 0 <= r.mean_error <= r.mean_width


def test_the_seed_decides_the_questions(made):
    log = read_rows(ROWS)
    first, again, other = (
        measure_answers(log, made / "release", made / "policy.parquet", queries=20, seed=seed)
        for seed in (1, 1, 2)
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
    other = anonymize(log, 3, algorithm="baseline", cloak="quad", length=3, **UNIT_CELLS)
    other.write(made / "other", made / "other.parquet")
    for name in ("count", "follow", "count_requests"):
        note(name)
    measure_answers(log, made / "release", made / "policy.parquet", queries=10)
    first = list(asked)
    asked.clear()
    measure_answers(log, made / "other", made / "other.parquet", queries=10)
    assert asked == first
    assert len(first) == 30


def test_figures_by_hand():
    asked = [
        utility._Question(12, 10, Answer(5, 8.0, 15)),
        utility._Question(4, 4, Answer(4, 4.0, 4)),
        utility._Question(0, 0, Answer(0, 3.0, 6)),
        utility._Question(4, 2, Answer(3, 3.0, 3)),
    ]
    assert utility._judge("count", asked) == Utility(
        question="count",
        queries=4,
        mean_error=(0.2 + 0 + 3 + 0.5) / 4,
        median_error=0.35,
        mean_width=(1 + 0 + 6 + 0) / 4,
        within=0.75,
        withheld=4 / 20,
    )


def test_a_wrong_bound_shows(made, monkeypatch):
    count = PublishedRelease.count

    def one_more(self, *args):
        answers = count(self, *args)
        return {i: Answer(a.upper + 1, a.upper + 1.0, a.upper + 1) for i, a in answers.items()}

    monkeypatch.setattr(PublishedRelease, "count", one_more)
    counted, moves, _ = measure_answers(
        read_rows(ROWS), made / "release", made / "policy.parquet", queries=5
    )
    assert (counted.within, moves.within) == (0.0, 1.0)


def test_questions_that_cannot_be_asked_are_left_out(tmp_path):
    rows = [Row(f"u{u}", 0, u, 0) for u in range(4)]
    path = write_parquet(tmp_path / "log.parquet", rows)
    log = read_in_memory(path)
    anonymize(log, 2, **UNIT_CELLS).write(tmp_path / "release", tmp_path / "policy.parquet")
    (only,) = measure_answers(log, tmp_path / "release", tmp_path / "policy.parquet", queries=3)
    assert only.question == "count"


def test_suppressed_users_are_no_errors(tmp_path):
    log = read_rows([*ROWS, *(Row("far", t, 15, 15, "r9") for t in range(4))])
    result = anonymize(log, 3, threads=1, max_suppressed=0.05, **UNIT_CELLS)
    assert result.manifest["suppressed"] == 1
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    results = measure_answers(log, tmp_path / "release", tmp_path / "policy.parquet")
    assert all(result.within == 1 for result in results)
    assert all(0 < result.withheld < 0.2 for result in results)


def measure_requests(log, folder, **options):
    """Measure how well requests are answered."""
    anonymize(log, 3, threads=1, **UNIT_CELLS, **options).write(folder, f"{folder}.parquet")
    measured = measure_answers(log, folder, f"{folder}.parquet", queries=60)
    return measured[-1]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_withheld_requests_are_no_errors(tmp_path, ending):
    """Values of a text file are text in the log, and may be numbers in the release."""
    rows = [row._replace(request="77" if row.user == "u00" else str(row.x % 2)) for row in ROWS]
    path = write_parquet(tmp_path / "log.parquet", rows)
    if ending == "csv":
        path = tmp_path / "log.csv"
        pyarrow.csv.write_csv(pq.read_table(tmp_path / "log.parquet"), path)
    log = read_in_memory(path, COLUMNS)
    kept = measure_requests(log, tmp_path / "kept", rare="keep")
    dropped = measure_requests(log, tmp_path / "dropped")
    replaced = measure_requests(log, tmp_path / "replaced", rare="other")
    assert (kept.within, dropped.within, replaced.within) == (1, 1, 1)
    assert kept.withheld == 0
    assert 0 < dropped.withheld == replaced.withheld < 0.5


def test_a_release_that_shows_nothing_has_no_errors_and_withholds_all(tmp_path):
    measured = measure_requests(read_rows(ROWS), tmp_path / "release", rare_below=99)
    assert (measured.mean_error, measured.within, measured.withheld) == (0, 1, 1)


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
        measure_answers(read_rows(change(ROWS)), made / "release", made / "policy.parquet")


def test_a_log_read_without_the_attributes_is_refused(made, tmp_path):
    path = write_parquet(tmp_path / "log.parquet", ROWS)
    log = read_in_memory(path, LogColumns())
    with pytest.raises(tc.InputError, match="requests are not read with 'what'"):
        measure_answers(log, made / "release", made / "policy.parquet")


def test_a_log_with_timestamps_is_not_one_of_instants(made, tmp_path):
    table = pq.read_table(write_parquet(tmp_path / "log.parquet", ROWS))
    times = table["time"].cast("timestamp[s]")
    pq.write_table(table.set_column(1, "time", times), tmp_path / "stamped.parquet")
    log = read_in_memory(tmp_path / "stamped.parquet", COLUMNS)
    with pytest.raises(tc.InputError, match="one has timestamps, the other instants"):
        measure_answers(log, made / "release", made / "policy.parquet")


@pytest.mark.parametrize("options", [{"length": 1}, {"length": None}, {"length": 3, "k": 4}])
def test_policies_of_other_releases_are_refused(made, options):
    asked = {"k": 3} | options
    other = anonymize(read_rows(ROWS), asked.pop("k"), threads=1, **asked, **UNIT_CELLS)
    other.write(made / "other", made / "other.parquet")
    with pytest.raises(tc.InputError, match="the policy file is not that of this release"):
        measure_answers(read_rows(ROWS), made / "release", made / "other.parquet")


def test_policies_of_fewer_users_are_refused(made):
    policy = pq.read_table(made / "policy.parquet")
    pq.write_table(policy.slice(1), made / "short.parquet")
    with pytest.raises(tc.InputError, match="the policy file is not that of this release"):
        measure_answers(read_rows(ROWS), made / "release", made / "short.parquet")


@pytest.mark.parametrize(("name", "value", "least"), [("queries", 0, 1), ("seed", -1, 0)])
def test_options(made, name, value, least):
    files = made / "release", made / "policy.parquet"
    message = f"{name} is {value}; expected a whole number of at least {least}"
    with pytest.raises(tc.OptionError, match=message):
        measure_answers(read_rows(ROWS), *files, **{name: value})


def test_degrees(tmp_path):
    """The log's own projection is found again, and regions in degrees are projected."""
    rows = [
        f"u{u},{t},{13 + u % 5 / 100 + t / 1000},{52 + u // 5 / 100},{'ab'[u % 2]}"
        for u in range(20)
        for t in range(3)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["user_id,time,lon,lat,what", *rows]) + "\n")
    log = read_in_memory(tmp_path / "log.csv", COLUMNS)
    anonymize(log, 4).write(tmp_path / "release", tmp_path / "policy.parquet")
    results = measure_answers(log, tmp_path / "release", tmp_path / "policy.parquet", queries=20)
    assert [r.within for r in results] == [1, 1, 1]
    release = open_published(tmp_path / "release")
    everything = release.place_region((12.9, 51.9, 13.2, 52.2), WGS84)
    assert release.count(everything, 0, 0) == {0: Answer(20, 20.0, 20)}
    with pytest.warns(tc.TrajcloakWarning, match="longitude first"):
        elsewhere = release.place_region((10, 51, 11, 52), WGS84)
    assert release.count(elsewhere, 0, 0) == {0: Answer(0, 0.0, 0)}
    (west, south), (east, north) = release.place_points([(12.9, 51.9), (13.2, 52.2)], WGS84)
    assert west < east
    assert south < north


def test_areas_in_which_users_are_shown(tmp_path):
    """Two pairs that cross: apart at both ends, in the same cells in the middle."""
    ways = {"a": (0, 4, 8), "b": (1, 5, 9), "c": (9, 5, 1), "d": (8, 4, 0)}
    log = read_rows([Row(user, i, x, 3) for user, way in ways.items() for i, x in enumerate(way)])
    found = {}
    for parts in (None, 2):
        path = tmp_path / f"release-{parts}"
        anonymize(log, 4, parts=parts, rows_alike=True, threads=1, **UNIT_CELLS).write(path)
        found[parts] = utility.measure_areas(open_published(path))
    assert asdict(found[None]) == pytest.approx({"own": 22 / 3, "union": 22 / 3})
    assert asdict(found[2]) == pytest.approx({"own": 2, "union": 10 / 3})
