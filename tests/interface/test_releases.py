"""A release in memory and the same in files: the same tables, answers and checks."""

import sys
from dataclasses import asdict

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import trajcloak as tc
from interface.frames import LENGTH, UTM, build_geopandas, build_pandas
from trajcloak import query
from trajcloak.release.reading import BUNDLES_FILE, MANIFEST_FILE, REQUESTS_FILE

K = 4
OPTIONS = {
    "plain": {},
    "windows": {"length": 2},
    "parts per window": {"parts": 2},
    "parts per instant": {"parts": 2, "parts_per": "instant"},
    "quad": {"cloak": "quad"},
}


@pytest.fixture(scope="module", params=OPTIONS)
def both(request, tmp_path_factory) -> tuple[tc.Release, tc.Release]:
    made = tc.anonymize(
        build_geopandas(UTM), k=K, requests="service", rare="keep", **OPTIONS[request.param]
    )
    folder = tmp_path_factory.mktemp("saved")
    made.save(folder / "release", policy=folder / "policy.parquet")
    return made, tc.open_release(folder / "release")


def test_tables(both):
    made, opened = both
    assert made.manifest == opened.manifest
    for name in ("bundles", "requests"):
        table = getattr(made, name)
        assert table.equals(getattr(opened, name))
        assert table.equals(pq.read_table(opened._path / f"{name}.parquet"))


def test_frames(both):
    made, opened = both
    frame = made.to_pandas()
    assert list(frame.columns) == [n for n in made.bundles.column_names if n != "geometry"]
    assert len(frame) == made.bundles.num_rows
    shapes = opened.to_geopandas()
    assert shapes.crs == UTM
    assert np.array_equal(shapes.bounds, frame[["x_min", "y_min", "x_max", "y_max"]])
    assert shapes.drop(columns="geometry").equals(frame)


def list_questions():
    x_min, y_min, x_max, y_max = build_geopandas(UTM).total_bounds
    x, y = (x_min + x_max) / 2, (y_min + y_max) / 2
    west, south = (x_min, y_min, x, y_max), (x_min, y_min, x_max, y)
    steps = [(west, 0), (south, "2026-03-02 08:04")]
    return {
        "count": lambda release: release.count(west, first=1, last=3),
        "moves": lambda release: release.moves(steps),
        "requests": lambda release: release.count_requests(west, "service"),
        "requests of moves": lambda release: release.moves(steps, by="service"),
        "route": lambda release: release.moves(release.route([(x_min, y), (x_max, y)], 500, 0, 1)),
        "line": lambda release: release.moves(
            release.route(shapely.LineString([(x_min, y), (x_max, y)]), 500, 0, 1)
        ),
    }


@pytest.mark.filterwarnings("ignore:The steps lie in different windows")
@pytest.mark.parametrize("name", list_questions())
def test_both_answer_the_same(both, name):
    ask = list_questions()[name]
    answer = ask(both[0])
    assert isinstance(answer, pa.Table)
    assert answer.num_rows
    assert answer.equals(ask(both[1]))


@pytest.mark.filterwarnings("ignore:The steps lie in different windows")
def test_answers_are_those_of_the_files(both):
    """As the command line gives them."""
    made, opened = both
    published = query.open_published(opened._path)
    x_min, y_min, x_max, y_max = build_geopandas(UTM).total_bounds
    region = (x_min, y_min, (x_min + x_max) / 2, y_max)
    expected = published.count(region, 1, 4)
    answer = made.count(region, first=1, last=4).to_pylist()
    assert [row["instant"] for row in answer] == list(expected)
    for row, of_files in zip(answer, expected.values(), strict=True):
        assert {name: row[name] for name in ("lower", "estimate", "upper")} == asdict(of_files)
    steps = [(region, 0), (region, 5)]
    (row,) = made.moves(steps).to_pylist()
    followed = asdict(published.follow(steps))
    assert {name: row[name] for name in followed} == followed
    assert (row["t_end"] - row["t_start"]).total_seconds() == 60 * LENGTH
    by_value = published.count_requests(region, "service")
    rows = made.count_requests(region, "service").to_pylist()
    assert [row["service"] for row in rows] == list(by_value)
    for row, found in zip(rows, by_value.values(), strict=True):
        assert row["requests_upper"] == found.requests.upper
        assert row["users_estimate"] == found.users.estimate


def test_audits(both, tmp_path):
    made, opened = both
    assert made.audit(replay=True).passed
    source = build_geopandas(UTM)
    policy = opened._path.with_name("policy.parquet")
    assert opened.audit(source, policy=policy).passed
    assert opened.audit(tc.read_log(source, requests="service"), policy=policy).passed
    assert not made.audit(k=K + 1).passed
    other = source[source["user_id"] != "rider-00"]
    assert not made.audit(other).passed
    source.to_parquet(tmp_path / "log.parquet")
    assert tc.audit(tmp_path / "log.parquet", opened._path, policy, requests="service").passed


def test_saving_again(both, tmp_path):
    made, opened = both
    for number, release in enumerate(both):
        folder = tmp_path / str(number)
        release.save(folder)
        for name in (BUNDLES_FILE, REQUESTS_FILE, MANIFEST_FILE):
            assert (folder / name).read_bytes() == (opened._path / name).read_bytes()
        with pytest.raises(tc.OutputError, match="exists already"):
            release.save(folder)
    assert made.policy.equals(pq.read_table(opened._path.with_name("policy.parquet")))


def test_plots(both):
    mpl.use("agg")
    for release in both:
        axes = release.plot("2026-03-02 08:02")
        assert axes.get_title() == f"24 users in {count(release, 2)} bundles, 2026-03-02 08:02"
        (drawn,) = axes.collections
        here = release.to_pandas().query("instant == 2")
        assert len(drawn.get_paths()) == len(here)
        (x_min, x_max), (y_min, y_max) = axes.get_xlim(), axes.get_ylim()
        assert x_min <= here["x_min"].min() < here["x_max"].max() <= x_max
        assert y_min <= here["y_min"].min() < here["y_max"].max() <= y_max
        assert release.plot(ax=axes) is axes
        mpl.pyplot.close("all")


def count(release: tc.Release, instant: int) -> int:
    return release.to_pandas().query("instant == @instant")["bundle_id"].nunique()


def test_files_never_hold_the_policy(both):
    made, opened = both
    assert made.policy.num_rows
    assert made.figures["requests"] == 144
    for ask in (
        lambda: opened.policy,
        lambda: opened.policy_parts,
        lambda: opened.figures,
        lambda: opened.save("copy", policy="policy.parquet"),
    ):
        with pytest.raises(tc.OptionError, match=r"read from files, .* use the policy file"):
            ask()
    with pytest.raises(tc.OptionError, match=r"read from files, .* pass policy=$"):
        opened.audit(build_geopandas(UTM))
    with pytest.raises(tc.OptionError, match="no log is given"):
        opened.audit(policy="policy.parquet")


@pytest.mark.parametrize(
    ("module", "ask"),
    [
        ("pandas", lambda release: release.to_pandas()),
        ("geopandas", lambda release: release.to_geopandas()),
        ("matplotlib.pyplot", lambda release: release.plot()),
    ],
)
def test_what_is_not_installed_is_named(monkeypatch, module, ask):
    release = tc.anonymize(build_pandas(), k=K)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(tc.OptionError, match=rf"^{module} is not .* install the extra 'frames'"):
        ask(release)


def test_releases_that_are_worked_on_in_files(tmp_path):
    source = build_pandas()
    made = tc.anonymize(source, k=K, requests="service", memory="1GiB", scratch=tmp_path)
    whole = tc.anonymize(source, k=K, requests="service")
    everywhere = (-1e7, -1e7, 1e7, 1e7)
    assert made.count(everywhere).equals(whole.count(everywhere))
    assert made.bundles.equals(whole.bundles)
    assert made.audit().passed


def test_a_release_is_not_saved_inside_its_log(tmp_path):
    (tmp_path / "log").mkdir()
    build_pandas().to_parquet(tmp_path / "log" / "one.parquet")
    made = tc.anonymize(tmp_path / "log", k=K)
    for paths in (["log/release"], ["release", "log/policy.parquet"]):
        with pytest.raises(tc.OptionError, match="would stand inside the folder of the log"):
            made.save(*(tmp_path / path for path in paths))


def test_a_damaged_release_is_refused_when_it_is_opened(tmp_path):
    tc.anonymize(build_pandas(), k=K).save(tmp_path / "release")
    (tmp_path / "release" / REQUESTS_FILE).write_bytes(b"PAR1")
    with pytest.raises(tc.InputError, match=r"requests\.parquet: cannot be read"):
        tc.open_release(tmp_path / "release")
