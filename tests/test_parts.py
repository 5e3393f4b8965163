"""Parts: how bundles are divided, how parts are numbered, and what is published of them."""

import collections
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from reference.parts import best_division, number_parts
from runs import anonymize
from small_logs import (
    UNIT_CELLS,
    Drawn,
    Row,
    clustered_rows,
    dense_logs,
    list_tree,
    new_folder,
    publish,
    publish_rows,
    read_rows,
    write_parquet,
)
from trajcloak import parts as parts_module
from trajcloak.algorithms import Policy
from trajcloak.algorithms.division import divide_bundles
from trajcloak.cli import main
from trajcloak.cloaks import build_cloaks
from trajcloak.options import Options
from trajcloak.parts import PartSettings, build_parts
from zoo import as_trajectories, draw_uniform, draw_walks, examples

COVERS = {"mbr": "box", "quad": "semi-quadrant"}
SETTINGS = [(per, cloak) for per in ("window", "instant") for cloak in ("mbr", "quad")]
HEIGHT = 4


def draw_policy(rng, n, length, k, cloak, *, suppresses=True):
    """Random trajectories in random bundles of at least k."""
    # The fewer cells there are, the more rectangles are the same.
    cells = draw_uniform(rng, n, length, int(rng.integers(1, HEIGHT + 1)))
    num_bundles = int(rng.integers(1, n // k + 1))
    bundle = rng.permutation(np.arange(n) % num_bundles).astype(np.int32)
    if suppresses and n > (k + 1) * num_bundles:
        bundle[np.flatnonzero(bundle == 0)[0]] = -1
    return cells, Policy(bundle, build_cloaks(cells, bundle, cloak, 1))


def list_groups(labels):
    """List the members of each label, labels ascending."""
    return [np.flatnonzero(labels == label).tolist() for label in range(labels.max() + 1)]


def measure(cells, policy, parts):
    """Sum the areas of parts, once for each member."""
    width = parts.cloaks[:, 2].astype(int) - parts.cloaks[:, 0]
    height = parts.cloaks[:, 3].astype(int) - parts.cloaks[:, 1]
    return int((width * height * parts.sizes).sum())


@pytest.mark.parametrize(("per", "cloak"), SETTINGS)
def test_parts_of_a_policy_are_those_of_the_twin(per, cloak):
    rng = np.random.default_rng([7, len(per), len(cloak)])
    for _ in range(40):
        least = int(rng.integers(2, 4))
        n, length = int(rng.integers(12, 40)), int(rng.integers(1, 5))
        cells, policy = draw_policy(rng, n, length, 6, cloak)
        trajectories = as_trajectories(cells)
        parts = build_parts(cells, policy, PartSettings(least, per), cloak, 1)
        assert (parts.part[policy.bundle < 0] < 0).all()
        first = parts.first
        for b, members in enumerate(list_groups(policy.bundle)):
            for column in range(parts.part.shape[1]):
                instants = range(length) if per == "window" else [column]
                labels = parts.part[members, column]
                groups = [[members[i] for i in group] for group in list_groups(labels)]
                assert min(map(len, groups)) >= least
                expected = number_parts(trajectories, groups, HEIGHT, COVERS[cloak], instants)
                actual = [([], len(group)) for group in groups]
                for instant in instants:
                    place = b * length + instant
                    assert parts.counts[b, instant] == len(groups)
                    rows = range(first[place], first[place + 1])
                    for (rectangles, size), row in zip(actual, rows, strict=True):
                        rectangles.append(tuple(parts.cloaks[row].tolist()))
                        assert parts.sizes[row] == size
                assert actual == expected


@pytest.mark.parametrize(("per", "cloak"), SETTINGS)
def test_division_is_near_the_best(per, cloak):
    rng = np.random.default_rng([8, len(per), len(cloak)])
    found = best = 0
    for _ in range(30):
        cells = draw_walks(rng, 8, 2, HEIGHT)
        policy = Policy(np.zeros(8, np.int32), build_cloaks(cells, np.zeros(8, np.int32), cloak, 1))
        cost = measure(cells, policy, build_parts(cells, policy, PartSettings(2, per), cloak, 1))
        least = best_division(
            as_trajectories(cells),
            [range(8)],
            2,
            HEIGHT,
            COVERS[cloak],
            per_instant=per == "instant",
        )
        assert cost >= least
        found += cost
        best += least
    assert found <= 1.15 * best


@pytest.mark.parametrize("per_instant", [False, True])
def test_division_depends_on_trajectories_alone(per_instant):
    rng = np.random.default_rng(9)
    for _ in range(30):
        n = int(rng.integers(10, 60))
        # Few cells and instants, so that many users are in one place, but no two all along.
        cells = np.unique(draw_uniform(rng, n, 3, 1), axis=0)
        bundle = (np.arange(len(cells)) % 2).astype(np.int32)
        order = rng.permutation(len(cells))

        def divide(cells, bundle, threads):
            return divide_bundles(cells, bundle, 2, 2, "mbr", threads, per_instant=per_instant)

        expected = divide(cells, bundle, 1)
        assert (divide(cells[order], bundle[order], 3) == expected[order]).all()


def test_wide_regions_are_divided_as_narrow_ones():
    rng = np.random.default_rng(10)
    cells = draw_walks(rng, 60, 6, 10)
    bundle = (np.arange(60) % 3).astype(np.int32)
    far = cells + np.uint32(1 << 20)
    near, distant = (
        divide_bundles(given, bundle, 3, 4, "mbr", 1, per_instant=False) for given in (cells, far)
    )
    assert (near == distant).all()


def test_identical_members_are_divided():
    cells = np.ones((11, 2, 2), np.uint32)
    part = divide_bundles(cells, np.zeros(11, np.int32), 1, 3, "mbr", 1, per_instant=True)
    assert all((np.bincount(column) >= 3).all() for column in part.T)
    assert part.max() == 2


def test_of_equal_rectangles_the_smaller_part_is_first():
    cells = np.ones((5, 2, 2), np.uint32)
    given = np.array([[0], [0], [0], [1], [1]], np.int32)
    policy = Policy(np.zeros(5, np.int32), build_cloaks(cells, np.zeros(5, np.int32), "mbr", 1))
    policy = replace(policy, part=given)
    parts = build_parts(cells, policy, PartSettings(2, "window"), "mbr", 1)
    assert parts.sizes.tolist() == [2, 3, 2, 3]
    assert parts.part[:, 0].tolist() == [1, 1, 1, 0, 0]


def test_ties_between_bundles_are_broken_by_their_parts():
    """Two bundles with the same box and size, but other parts; whichever comes first."""
    one = [[0, 0], [0, 0], [3, 3], [3, 3]]
    other = [[0, 3], [0, 3], [3, 0], [3, 0]]
    orders = []
    for first, second in ((one, other), (other, one)):
        cells = np.array([first + second], np.uint32).reshape(8, 1, 2)
        bundle = np.repeat(np.arange(2, dtype=np.int32), 4)
        policy = Policy(bundle, build_cloaks(cells, bundle, "mbr", 1))
        parts = build_parts(cells, policy, PartSettings(2, "window"), "mbr", 1)
        boxes = parts.bound()
        assert (boxes[0] == boxes[1]).all()
        order = parts.break_ties(np.arange(2), boxes, policy.sizes)
        orders.append(parts.take(order, np.arange(8)).cloaks.tolist())
    assert orders[0] == orders[1]


def with_parts(drawn: Drawn, parts: int, per: str) -> Drawn:
    options = {**drawn.options, "members": 2 * drawn.k, "parts": parts, "parts_per": per}
    return replace(drawn, options=options)


def publish_parts(drawn: Drawn, **more):
    """Anonymize and read everything back, the private file of parts too."""
    log = read_rows(drawn.rows)
    with new_folder() as folder:
        made = anonymize(log, drawn.k, **{"threads": 1, **drawn.run_options, **more})
        made.write(folder / "release", folder / "policy.parquet")
        files = sorted(path.name for path in folder.iterdir())
        of_instant = None
        if drawn.options["parts_per"] == "instant":
            assert files == ["policy-parts.parquet", "policy.parquet", "release"]
            assert (folder / "policy-parts.parquet").stat().st_mode & 0o777 == 0o600
            of_instant = pq.read_table(folder / "policy-parts.parquet")
            assert of_instant.equals(made.policy_parts)
        else:
            assert files == ["policy.parquet", "release"]
            assert made.policy_parts is None
        assert made.policy.equals(pq.read_table(folder / "policy.parquet"))
        assert not any("polic" in path.name for path in (folder / "release").rglob("*"))
    return publish(log, drawn.k, **{**drawn.run_options, **more}), of_instant


def check_parts(drawn: Drawn) -> None:
    """Every rule about parts, from the files and the places of the log alone."""
    least, per = drawn.options["parts"], drawn.options["parts_per"]
    published, of_instant = publish_parts(drawn)
    manifest, rows = published.manifest, published.bundles.to_pylist()
    assert manifest["parts"] == {"users": least, "per": per}
    assert published.bundles.column_names[:4] == ["window", "bundle_id", "instant", "part"]
    keys = [(row["window"], row["bundle_id"], row["instant"], row["part"]) for row in rows]
    assert keys == sorted(set(keys))
    assert all(row["users"] >= least for row in rows)
    areas = [(r["x_max"] - r["x_min"]) * (r["y_max"] - r["y_min"]) for r in rows]
    assert manifest["mean_cloak_area"] == pytest.approx(sum(areas) / len(areas))
    cost = sum(area * row["users"] for area, row in zip(areas, rows, strict=True))
    assert manifest["cost"] == pytest.approx(cost)

    bundle_of = {(r["window"], r["user_id"]): r["bundle_id"] for r in published.policy.to_pylist()}
    if of_instant is None:
        instants = collections.defaultdict(set)
        for row in rows:
            instants[row["window"]].add(row["instant"])
        member_rows = [
            (row["window"], instant, row["user_id"], row["part"])
            for row in published.policy.to_pylist()
            for instant in instants[row["window"]]
        ]
    else:
        assert of_instant.column_names == ["window", "instant", "user_id", "part"]
        member_rows = [tuple(row.values()) for row in of_instant.to_pylist()]
    counted = collections.Counter(
        (window, bundle_of[window, user], instant, part)
        for window, instant, user, part in member_rows
    )
    # Each member is in one part at each instant, and each part has the members that it says.
    assert len({row[:3] for row in member_rows}) == len(member_rows)
    assert counted == {key: row["users"] for key, row in zip(keys, rows, strict=True)}
    rectangles = dict(zip(keys, rows, strict=True))
    where = {(row.user, row.time): (row.x, row.y) for row in drawn.rows}
    for window, instant, user, part in member_rows:
        if (user, instant) in where:
            x, y = where[user, instant]
            row = rectangles[window, bundle_of[window, user], instant, part]
            assert row["x_min"] <= x <= row["x_max"]
            assert row["y_min"] <= y <= row["y_max"]


@pytest.mark.parametrize("per", ["window", "instant"])
def test_published_parts_keep_every_rule(per):
    @examples(60)
    @given(dense_logs(max_users=14), st.integers(2, 3))
    def holds(drawn, parts):
        drawn = with_parts(drawn, parts, per)
        if len({row.user for row in drawn.rows}) >= drawn.options["members"]:
            check_parts(drawn)

    holds()


@pytest.mark.parametrize("per", ["window", "instant"])
def test_requests_never_influence_parts(per):
    rng = np.random.default_rng(3)
    drawn = with_parts(Drawn(clustered_rows(3, 6), 3, {"rare": "keep"}), 2, per)
    expected, of_instant = publish_parts(drawn)
    for user in rng.permutation(18).tolist():
        # One user sends all requests.
        rows = [
            row._replace(request="r1" if row.user == f"u{user:02d}" else None) for row in drawn.rows
        ]
        moved, moved_parts = publish_parts(replace(drawn, rows=rows))
        assert moved.files["bundles.parquet"] == expected.files["bundles.parquet"]
        assert moved.policy.equals(expected.policy)
        assert (moved_parts is None) == (of_instant is None)
        assert of_instant is None or moved_parts.equals(of_instant)


@pytest.mark.parametrize("per", ["window", "instant"])
def test_order_of_rows_names_and_threads_never_change_the_release(per):
    @examples(30)
    @given(dense_logs(max_users=14, distinct=True), st.integers(0, 1000))
    def holds(drawn, seed):
        rng = np.random.default_rng(seed)
        drawn = with_parts(drawn, 2, per)
        users = sorted({row.user for row in drawn.rows})
        if len(users) < drawn.options["members"]:
            return
        expected = publish_parts(drawn)[0].files
        assert publish_parts(drawn, threads=3)[0].files == expected
        names = dict(zip(users, rng.permutation(users).tolist(), strict=True))
        rows = [drawn.rows[i] for i in rng.permutation(len(drawn.rows))]
        rows = [row._replace(user=names[row.user]) for row in rows]
        assert publish_parts(replace(drawn, rows=rows))[0].files == expected

    holds()


@pytest.mark.parametrize("per", ["window", "instant"])
@pytest.mark.parametrize("cloak", ["mbr", "quad"])
def test_parts_with_gaps_windows_and_suppression(per, cloak):
    rng = np.random.default_rng(4)
    rows = [row for row in clustered_rows(4, 8, length=7) if rng.random() < 0.9]
    options = {"length": 3, "missing": "hold", "max_suppressed": 0.4, "rows_alike": True}
    check_parts(with_parts(Drawn(rows, 3, {**options, "cloak": cloak}), 2, per))


def test_a_part_below_its_least_size_stops_the_run(monkeypatch):
    def divide(cells, bundle, num_bundles, least, cloak, threads, *, per_instant):
        return np.arange(len(cells), dtype=np.int32)[:, None] % 2

    monkeypatch.setattr(parts_module, "divide_bundles", divide)
    with pytest.raises(AssertionError, match="a part has"):
        publish_rows(clustered_rows(1, 7), 7, parts=4, algorithm="traj-anon")


def test_as_many_as_in_a_bundle_is_no_parts():
    rows = clustered_rows(2, 4)
    assert publish_rows(rows, 4, parts=4).files == publish_rows(rows, 4).files
    assert publish_rows(rows, 4, members=8, parts=4).manifest["parts"] == {
        "users": 4,
        "per": "window",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": 1}, "parts is 1; expected a whole number from 2 to 4"),
        ({"parts": 5}, "parts is 5; expected a whole number from 2 to 4"),
        ({"parts": 2.0}, "parts is 2.0"),
        ({"parts": 2, "parts_per": "day"}, "parts_per is 'day'.*parts_per="),
        ({"parts_per": "instant"}, "parts are to be made per instant, and there are none"),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(tc.OptionError, match=message):
        Options(k=4, **options)


def test_private_files_stand_outside_the_release(tmp_path):
    made = anonymize(read_rows(clustered_rows(2, 4)), 4, parts=2, parts_per="instant", **UNIT_CELLS)
    made.write(tmp_path / "release")
    with pytest.raises(tc.OptionError, match="would stand inside the release"):
        made.write(tmp_path / "other", tmp_path / "release" / "policy.parquet")
    (tmp_path / "who-parts.parquet").touch()
    with pytest.raises(tc.OutputError, match=r"who-parts\.parquet: exists already"):
        made.write(tmp_path / "other", tmp_path / "who.parquet")
    assert not (tmp_path / "who.parquet").exists()


def test_parts_on_the_command_line(tmp_path, capsys):
    log = write_parquet(tmp_path / "log.parquet", clustered_rows(3, 4))
    for number, memory in enumerate([[], ["--memory", "1GiB"]]):
        out = tmp_path / str(number)
        out.mkdir()
        options = ["--k", "4", "--parts", "2", "--parts-per", "instant", *memory]
        outputs = ["-o", out / "release", "--policy", out / "who.parquet"]
        with pytest.raises(SystemExit) as stopped:
            main(list(map(str, ["anonymize", log, *outputs, *options])))
        assert not stopped.value.code
        printed = " ".join(capsys.readouterr().out.split())
        assert "at least 2 users, per instant" in printed
        assert "who is in which part at each instant" in printed
    assert list_tree(tmp_path / "0") == list_tree(tmp_path / "1")
    assert (tmp_path / "0" / "who-parts.parquet").exists()


def test_bundles_are_larger_where_members_are_divided_at_every_instant():
    """And not where there are too few users, or their number is given."""
    rows = [
        Row(f"u{u}", t, *np.random.default_rng([u, t]).integers(0, 16, 2).tolist())
        for u in range(40)
        for t in range(2)
    ]

    def smallest(rows, **options):
        made = anonymize(read_rows(rows), 6, threads=1, parts=2, **UNIT_CELLS, **options)
        return made.manifest["smallest_bundle"]

    assert smallest(rows) == 6
    assert smallest(rows, parts_per="instant") == 10
    assert smallest(rows, parts_per="instant", members=6) == 6
    assert smallest([row for row in rows if int(row.user[1:]) < 8], parts_per="instant") == 8
