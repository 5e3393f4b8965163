"""Tables of other tools are judged by who could be in their rectangles."""

import datetime
import re
import uuid
from itertools import cycle

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from auditor.expected import list_failed
from runs import anonymize
from trajcloak.auditor import FOREIGN_CHECKS, audit_foreign_table
from trajcloak.log import read_in_memory

EDGES = ("x_min", "y_min", "x_max", "y_max")


def walk(num_users=40, length=3, seed=0):
    """Places of users who wander, from west to east: (users, instants, 2)."""
    rng = np.random.default_rng(seed)
    start = np.sort(rng.uniform(0, 100, (num_users, 1, 2)), axis=0)
    return start + rng.normal(0, 2, (num_users, length, 2)).cumsum(axis=1)


def write_log(path, places, names=("x", "y"), times=None, name_user="person-{:04d}".format):
    num_users, length, _ = places.shape
    times = np.arange(length) if times is None else times
    table = {
        "user_id": [name_user(u) for u in range(num_users) for _ in range(length)],
        "time": pa.array(list(times) * num_users),
        names[0]: places[..., 0].ravel(),
        names[1]: places[..., 1].ravel(),
    }
    pq.write_table(pa.table(table), path)
    return path


def write_table(path, **columns):
    table = pa.table(columns)
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return path


def cover(places, groups, margin=1.0):
    """Rectangles around groups, a margin wider: columns of a table."""
    rows = []
    for number, members in enumerate(groups):
        for instant in range(places.shape[1]):
            low = places[members, instant].min(axis=0) - margin
            high = places[members, instant].max(axis=0) + margin
            rows.append((number, instant, *low, *high))
    group, instant, *edges = zip(*rows, strict=True)
    return {"group": group, "instant": instant} | dict(zip(EDGES, edges, strict=True))


def count_inside(places, columns, number):
    """Who is in all rectangles of a group: plain loops."""
    rows = [i for i, group in enumerate(columns["group"]) if group == number]
    count = 0
    for path in places:
        count += all(
            columns["x_min"][i] <= path[columns["instant"][i]][0] <= columns["x_max"][i]
            and columns["y_min"][i] <= path[columns["instant"][i]][1] <= columns["y_max"][i]
            for i in rows
        )
    return count


def split(num_users, size):
    return [list(range(i, min(i + size, num_users))) for i in range(0, num_users, size)]


@pytest.fixture
def places():
    return walk()


@pytest.fixture
def log(tmp_path, places):
    return write_log(tmp_path / "log.parquet", places)


@pytest.mark.parametrize("seed", range(12))
def test_candidates_are_those_of_plain_loops(tmp_path, seed):
    suffix = ("csv", "parquet")[seed % 2]
    places = walk(30, 4, seed)
    log = write_log(tmp_path / "log.parquet", places)
    groups = split(30, int(np.random.default_rng(seed).integers(2, 9)))
    columns = cover(places, groups, margin=2.0)
    table = write_table(tmp_path / f"table.{suffix}", **columns)
    counts = [count_inside(places, columns, number) for number in range(len(groups))]
    for k in (min(counts), min(counts) + 1):
        report = audit_foreign_table(log, table, k)
        assert report["candidates"].passed == (k == min(counts))
    small = sum(count < k for count in counts)
    # Rows alone are named if they are as bad.
    which = rf"with 'group' as a link, {small} of {len(groups)} groups|[0-9]+ of [0-9]+ rows"
    expected = rf"({which}) have fewer than {k} candidates, the smallest {min(counts)}: "
    assert re.match(expected, report["candidates"].detail)
    assert [check.name for check in report.checks] == [c for c in FOREIGN_CHECKS if c != "members"]
    assert report.to_dict()["k"] == k


def test_rows_without_groups_are_judged_alone(tmp_path, log, places):
    columns = cover(places, split(40, 5))
    del columns["group"]
    report = audit_foreign_table(log, write_table(tmp_path / "b.csv", **columns), 5)
    assert report["candidates"].passed
    assert report["candidates"].checked == 24
    assert report.notes[0] == "Taken as links between rows: none."
    assert report.verdict == (
        "Passed: at least 5 possible senders for every request, against the trajectory-aware "
        "attacker."
    )


def follow_one(places, users, size, rng):
    """A snapshot table: rectangles around a user and ``size - 1`` neighbours, at each instant.

    Each rectangle has enough users; who is in all rectangles of one user is another matter.
    """
    rows = []
    for user in users:
        for instant in range(places.shape[1]):
            here = places[:, instant]
            near = np.argsort(np.abs(here - here[user]).max(axis=1), kind="stable")[:size]
            low = here[near].min(axis=0) - rng.uniform(0, 0.1, 2)
            high = here[near].max(axis=0) + rng.uniform(0, 0.1, 2)
            rows.append((user, instant, *low, *high))
    user, instant, *edges = zip(*rows, strict=True)
    return user, {"instant": instant} | dict(zip(EDGES, edges, strict=True))


NAMES = [
    "pseudonym", "session", "track_id", "bid", "size", "users", "window", "x", "geometry", "\u202e"
]  # fmt: skip
SPELLINGS = [str, lambda user: 7919 * user % 104_729, lambda user: f"u{user}z"]


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    """Users who move so fast that their neighbours change, and their log."""
    rng = np.random.default_rng(5)
    places = rng.uniform(0, 100, (200, 4, 2))
    return places, write_log(tmp_path_factory.mktemp("moving") / "log.parquet", places)


def test_pseudonyms_are_found_whatever_they_are_called(tmp_path, moving):
    places, log = moving
    user, columns = follow_one(places, range(0, 200, 3), 5, np.random.default_rng(0))
    alone = audit_foreign_table(log, write_table(tmp_path / "alone.parquet", **columns), 5)
    assert alone["candidates"].passed
    for name, spell in [*zip(NAMES, cycle(SPELLINGS)), *zip(cycle(["who"]), SPELLINGS)]:
        linked = columns | {name: [spell(number) for number in user]}
        report = audit_foreign_table(log, write_table(tmp_path / "table.parquet", **linked), 5)
        assert f"with '{name}' as a link, 67 of 67 groups" in report["candidates"].detail


def test_a_few_pseudonyms_among_many_rows_without_are_found(tmp_path, moving):
    places, log = moving
    user, columns = follow_one(places, range(200), 5, np.random.default_rng(0))
    for filler in (None, "none"):
        columns["note"] = [str(number) if number < 20 else filler for number in user]
        report = audit_foreign_table(log, write_table(tmp_path / "table.parquet", **columns), 5)
        assert "with 'note' as a link, 20 of" in report["candidates"].detail


def test_what_people_ask_for_is_no_link(tmp_path, moving):
    places, log = moving
    rng = np.random.default_rng(1)
    _, columns = follow_one(places, range(200), 5, rng)
    shares = 1 / np.arange(1, 41)
    what = rng.choice(40, 800, p=shares / shares.sum())
    columns["category"] = [f"kind {number}" for number in what]
    columns["stars"] = rng.integers(1, 6, 800).tolist()
    report = audit_foreign_table(log, write_table(tmp_path / "table.parquet", **columns), 5)
    assert report.passed, report
    assert "'category', 'stars'" in report.notes[1]
    assert "Assumes that senders were inside their rectangles" in report.notes[2]


def test_a_request_under_two_groupings_is_found(tmp_path, moving):
    """Each request is in two rows, of groups of five who share little more than its sender."""
    places, log = moving
    rng = np.random.default_rng(2)
    instant = places[:, 0]
    rows = []
    for user in range(0, 200, 2):
        for axis in (0, 1):
            near = np.argsort(np.abs(instant[:, axis] - instant[user, axis]))[:5]
            low, high = instant[near].min(axis=0) - 0.01, instant[near].max(axis=0) + 0.01
            rows.append((0, *low, *high, f"g{axis}{user}", f"kind {rng.integers(10**6)}"))
        rows[-1] = (*rows[-1][:-1], rows[-2][-1])
    columns = dict(zip(("instant", *EDGES, "part", "text"), zip(*rows, strict=True), strict=True))
    report = audit_foreign_table(log, write_table(tmp_path / "table.parquet", **columns), 5)
    assert "with 'text' as a link, 100 of 100 groups" in report["candidates"].detail


def test_example_2_of_the_paper(tmp_path):
    """Two cloaks of two users each, linked by a column of any name: Carol is in both."""
    places = np.array([[[0, 0], [9, 9]], [[1, 1], [1, 1]], [[9, 0], [0, 1.0]]])
    log = write_log(tmp_path / "log.parquet", places)
    columns = {
        "instant": [0, 1], "x_min": [-0.5, -0.5], "y_min": [-0.5, 0.5], "x_max": [1.5, 1.5],
        "y_max": [1.5, 1.5],
    }  # fmt: skip
    alone = audit_foreign_table(log, write_table(tmp_path / "alone.csv", **columns), 2)
    assert alone["candidates"].passed
    for name in NAMES[:4]:
        linked = {**columns, name: ["a", "a"]}
        report = audit_foreign_table(log, write_table(tmp_path / f"{name}.csv", **linked), 2)
        expected = f"with '{name}' as a link, 1 of 1 groups have fewer than 2 candidates"
        assert report["candidates"].detail.startswith(expected)


@pytest.mark.parametrize("make", [str, int, lambda user: f"user {user}"])
def test_short_ids_of_users_are_found(tmp_path, make):
    """One row for each user, so that nothing is linked."""
    places = np.random.default_rng(3).uniform(0, 100, (60, 1, 2))
    table = {
        "user_id": [str(user) for user in range(60)],
        "time": [0] * 60,
        "x": places[:, 0, 0],
        "y": places[:, 0, 1],
    }
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    user, columns = follow_one(places, range(60), 6, np.random.default_rng(0))
    report = audit_foreign_table(
        tmp_path / "log.parquet", write_table(tmp_path / "alone.parquet", **columns), 6
    )
    assert report.passed
    for numbers, is_own in ((user, True), (np.roll(user, 30), False)):
        columns["no"] = [make(int(number)) for number in numbers]
        report = audit_foreign_table(
            tmp_path / "log.parquet", write_table(tmp_path / "t.parquet", **columns), 6
        )
        assert ("user ids" in list_failed(report)) == is_own
        if is_own:
            assert "column 'no' has the id of a user inside" in report["user ids"].detail


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_repeat_have_the_same_candidates(tmp_path, seed):
    places = walk(30, 4, seed)
    log = write_log(tmp_path / "log.parquet", places)
    columns = cover(places, split(30, 4), margin=2.0)
    repeated = np.random.default_rng(seed).integers(len(columns["group"]), size=100)
    columns = {name: [values[i] for i in repeated] for name, values in columns.items()}
    # On a coarse grid, so that rectangles share edges, and are the same at other instants.
    for name, spread in zip(EDGES, (np.floor, np.floor, np.ceil, np.ceil), strict=True):
        columns[name] = (20 * spread(np.array(columns[name]) / 20)).tolist()
    columns["group"] = list(range(100))
    counts = [count_inside(places, columns, number) for number in range(100)]
    del columns["group"]
    k = int(np.median(counts)) + 1
    report = audit_foreign_table(log, write_table(tmp_path / "table.csv", **columns), k)
    small = sum(count < k for count in counts)
    expected = f"{small} of 100 rows have fewer than {k} candidates, the smallest {min(counts)}: "
    assert report["candidates"].detail.startswith(expected)


def test_our_own_bundles_pass(tmp_path, log):
    """Read as a table of another tool."""
    result = anonymize(read_in_memory(log), 5)
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    bundles, policy = tmp_path / "release" / "bundles.parquet", tmp_path / "policy.parquet"
    assert audit_foreign_table(log, bundles, 5).passed
    report = audit_foreign_table(log, bundles, 5, policy=policy)
    assert report.passed, report
    assert report["members"].checked == 40
    assert list_failed(audit_foreign_table(log, bundles, 41, policy=policy)) == {
        "candidates",
        "members",
    }


def test_members_are_counted_with_a_policy(tmp_path, log, places):
    groups = split(40, 8)
    table = write_table(tmp_path / "t.csv", **cover(places, groups))
    users = [f"person-{u:04d}" for u in range(40)]
    policy = {"who": users, "where": [u // 8 for u in range(40)]}
    write = tmp_path / "policy.csv"
    assert audit_foreign_table(log, table, 8, policy=write_table(write, **policy)).passed
    policy["where"][0] = 4
    report = audit_foreign_table(log, table, 8, policy=write_table(write, **policy))
    assert list_failed(report) == {"members"}
    assert "1 of 5 groups have fewer than 8 members, the smallest 7" in report["members"].detail
    assert "1 members are not in all rectangles of their group" in report["members"].detail


def test_claimed_users(tmp_path, log, places):
    columns = cover(places, split(40, 8))
    columns["users"] = [8] * 15
    assert audit_foreign_table(log, write_table(tmp_path / "t.csv", **columns), 2).passed
    columns["users"][3:6] = [41] * 3
    report = audit_foreign_table(log, write_table(tmp_path / "t.csv", **columns), 2)
    assert list_failed(report) == {"claimed users"}
    assert "more than its candidates in 3 rows (4, 5, 6)" in report["claimed users"].detail


def test_exact_coordinates_are_found(tmp_path, log, places):
    columns = cover(places, split(40, 8), margin=0.0)
    report = audit_foreign_table(log, write_table(tmp_path / "t.parquet", **columns), 2)
    assert list_failed(report) == {"exact coordinates"}
    assert "60 of 60 different edges equal a coordinate" in report["exact coordinates"].detail
    columns = cover(places, split(40, 8))
    columns["x_max"] = columns["x_min"]
    report = audit_foreign_table(log, write_table(tmp_path / "t.parquet", **columns), 2)
    assert "rectangles without an area in 15 rows" in report["exact coordinates"].detail


def test_coordinates_on_a_lattice_are_equal_by_chance(tmp_path):
    rng = np.random.default_rng(2)
    places = rng.integers(0, 10, (200, 3, 2)).astype(float)
    log = write_log(tmp_path / "log.parquet", places)
    table = write_table(tmp_path / "t.csv", **cover(places, split(200, 20)))
    assert audit_foreign_table(log, table, 5)["exact coordinates"].passed


def test_a_grid_of_kilometre_squares_reveals_no_coordinate(tmp_path):
    """Places to full precision, of which some happen to be on lines of the grid."""
    rng = np.random.default_rng(4)
    places = rng.uniform(0, 20_000, (400, 3, 2))
    places[:9, :, 0] = np.arange(1, 10)[:, None] * 1000
    log = write_log(tmp_path / "log.parquet", places)
    low = np.floor(places / 1000) * 1000
    columns = {"instant": np.tile(np.arange(3), 400)}
    for side, (name, axis, shift) in enumerate(
        (("x_min", 0, 0), ("y_min", 1, 0), ("x_max", 0, 1000), ("y_max", 1, 1000))
    ):
        assert EDGES[side] == name
        columns[name] = low[..., axis].ravel() + shift
    report = audit_foreign_table(log, write_table(tmp_path / "t.parquet", **columns), 1)
    assert report["exact coordinates"].passed, report["exact coordinates"]
    columns["x_min"] = places[..., 0].ravel()
    report = audit_foreign_table(log, write_table(tmp_path / "t.parquet", **columns), 1)
    assert not report["exact coordinates"].passed


@pytest.mark.parametrize("as_group", [True, False])
def test_user_ids_are_found(tmp_path, log, places, as_group):
    columns = cover(places, split(40, 8))
    names = [f"near person-{8 * group:04d}" for group in columns["group"]]
    columns["group" if as_group else "note"] = names
    report = audit_foreign_table(log, write_table(tmp_path / "t.csv", **columns), 2)
    assert list_failed(report) == {"user ids"}
    assert "holds the ids of 5 users" in report["user ids"].detail
    assert "person" not in str(report)


def name_by_token(user):
    return str(uuid.UUID(int=10**30 + user))


@pytest.mark.parametrize(
    ("name_user", "hide"),
    [
        (lambda user: 1_000_000 + 7919 * user, "no. {}".format),
        (lambda user: -1_000_000 - 7919 * user, lambda name: f"x{-name}y"),
        (name_by_token, lambda name: f"a{name}b".upper()),
        (name_by_token, lambda name: name.replace("-", "")),
    ],
)
def test_long_numbers_and_tokens_of_users_are_found(tmp_path, places, name_user, hide):
    log = write_log(tmp_path / "log.parquet", places, name_user=name_user)
    columns = cover(places, split(40, 8))
    columns["note"] = [hide(name_user(8 * group)) for group in columns["group"]]
    report = audit_foreign_table(log, write_table(tmp_path / "t.parquet", **columns), 2)
    assert "column 'note' holds the ids of 5 users" in report["user ids"].detail
    columns["note"] = [hide(name_user(8 * group + 40)) for group in columns["group"]]
    report = audit_foreign_table(log, write_table(tmp_path / "t.parquet", **columns), 2)
    assert report["user ids"].passed


def test_few_numbers_that_are_ids_by_chance_are_none(tmp_path):
    """1,000 different numbers of six digits, of which chance makes some of 40,000 ids."""
    places = np.random.default_rng(6).uniform(0, 100, (40_000, 1, 2))
    log = write_log(tmp_path / "log.parquet", places, name_user=lambda user: 100_000 + user)
    columns = dict.fromkeys(EDGES[:2], [-1.0] * 1000) | dict.fromkeys(EDGES[2:], [101.0] * 1000)
    columns["instant"] = [0] * 1000
    for step, is_found in ((900, False), (1, True)):
        columns["reading"] = [f"at {100_000 + step * row}" for row in range(1000)]
        report = audit_foreign_table(log, write_table(tmp_path / "t.parquet", **columns), 2)
        assert ("holds the ids of" in report["user ids"].detail) == is_found


@pytest.mark.parametrize("hide", [lambda name: [name], lambda name: name.encode() + b"\xff"])
def test_user_ids_are_found_in_lists_and_in_bytes_that_are_no_text(tmp_path, log, places, hide):
    columns = cover(places, split(40, 8))
    columns["note"] = [hide(f"person-{8 * group:04d}") for group in columns["group"]]
    report = audit_foreign_table(log, write_table(tmp_path / "t.parquet", **columns), 2)
    assert "holds the ids of 5 users" in report["user ids"].detail


def test_columns_that_look_like_identifiers(tmp_path, log, places):
    columns = cover(places, split(40, 8))
    columns["contact"] = [f"a{i}@b.example" for i in range(15)]
    report = audit_foreign_table(log, write_table(tmp_path / "t.csv", **columns), 2)
    assert list_failed(report) == {"identifiers"}
    detail = report["identifiers"].detail
    assert detail == "column 'contact' looks like e-mail addresses"


def test_degrees_and_stretches_of_time(tmp_path):
    places = walk() / 1000 + [13.0, 52.0]
    begin = datetime.datetime(2024, 5, 6, 8)
    times = [begin + datetime.timedelta(minutes=i) for i in range(3)]
    log = write_log(tmp_path / "log.parquet", places, ("lon", "lat"), times)
    columns = cover(places, split(40, 8), margin=0.001)
    instant = columns.pop("instant")
    columns["t_start"] = [times[i] for i in instant]
    columns["t_end"] = [times[i] + datetime.timedelta(minutes=1) for i in instant]
    for edge, name in zip(EDGES, ("lon_min", "lat_min", "lon_max", "lat_max"), strict=True):
        columns[name] = columns.pop(edge)
    table = write_table(tmp_path / "t.parquet", **columns)
    assert audit_foreign_table(log, table, 8).passed
    whole = {name: values[:1] for name, values in columns.items()}
    whole |= {"lon_min": [12.0], "lat_min": [51.0], "lon_max": [14.0], "lat_max": [53.0]}
    whole["t_end"] = [begin + datetime.timedelta(minutes=3)]
    report = audit_foreign_table(log, write_table(tmp_path / "w.parquet", **whole), 40)
    assert report.passed
    assert report["exact coordinates"].checked == 4


def test_rows_that_do_not_fit_the_log(tmp_path, log, places):
    """Nobody is inside a rectangle at an instant that the log does not have."""
    columns = cover(places, split(40, 8), margin=1000.0)
    columns["instant"] = [instant + 1 for instant in columns["instant"]]
    members = {"who": [f"person-{u:04d}" for u in range(40)], "where": [u // 8 for u in range(40)]}
    policy = write_table(tmp_path / "policy.csv", **members)
    table = write_table(tmp_path / "t.csv", **columns)
    report = audit_foreign_table(log, table, 1, policy=policy)
    assert {"rectangles", "candidates", "members"} <= list_failed(report)
    assert "times that the log lacks in 5 rows" in report["rectangles"].detail
    assert "40 members are not in all rectangles of their group" in report["members"].detail


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x_min": [1.0], "instant": [0]}, "has no rectangles like the places of the log"),
        ({edge: [1.0] for edge in EDGES}, "has no times; expected a column 'instant'"),
        ({edge: ["a"] for edge in EDGES} | {"instant": [0]}, "row 1: column 'x_min' is no finite"),
        (
            {edge: [1.0] for edge in EDGES}
            | {key: [datetime.datetime(2024, 1, 1)] for key in ("t_start", "t_end")},
            "column 't_start' holds no times like those of the log",
        ),
    ],
)
def test_tables_that_cannot_be_judged(tmp_path, log, columns, message):
    with pytest.raises(tc.InputError, match=message):
        audit_foreign_table(log, write_table(tmp_path / "t.parquet", **columns), 2)


def test_other_bad_input(tmp_path, log, places):
    table = write_table(tmp_path / "t.csv", **cover(places, split(40, 8)))
    with pytest.raises(tc.OptionError, match="k is 0; expected a whole number of at least 1"):
        audit_foreign_table(log, table, 0)
    with pytest.raises(tc.InputError, match="there is no column 'who'"):
        audit_foreign_table(log, table, 2, group="who")
    with pytest.raises(tc.InputError, match="cannot be read; expected a table"):
        audit_foreign_table(log, tmp_path / "nothing.csv", 2)
    with pytest.raises(tc.InputError, match=r"ends in '\.txt'"):
        audit_foreign_table(log, tmp_path / "table.txt", 2)
    with pytest.raises(tc.OptionError, match="every is '1x'"):
        audit_foreign_table(log, table, 2, every="1x")
    with pytest.raises(tc.OptionError, match="every is '²'"):
        audit_foreign_table(log, table, 2, every="²")
    twice = tmp_path / "twice.csv"
    twice.write_text("instant,instant\n0,0\n")
    with pytest.raises(tc.InputError, match="has two columns of one name"):
        audit_foreign_table(log, twice, 2)
    with pytest.raises(tc.InputError, match="has no column of users of the log"):
        audit_foreign_table(log, table, 2, policy=table)
