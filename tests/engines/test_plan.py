"""The plan in many shards against one shard: the same bytes, whatever the sizes."""

import json
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyproj import CRS

import trajcloak as tc
from engines.releases import SKEWS, compare, draw_skewed, write_log
from runs import anonymize
from small_logs import (
    COLUMNS,
    UNIT_CELLS,
    Row,
    clustered_rows,
    draw_log,
    list_tree,
    rows_with_addresses,
)
from trajcloak.auditor import audit_files
from trajcloak.engines.engine import MemoryEngine, Sizes
from trajcloak.engines.stored import MAX_SHARDS, SHARD_ROWS, StoredEngine
from trajcloak.log import read_in_memory
from trajcloak.options import TREES, LogColumns, Options
from trajcloak.pipeline import anonymize_on
from trajcloak.release import result as result_module
from zoo import first_quick


@pytest.mark.parametrize("seed", first_quick(range(40), 12))
def test_logs_with_gaps_windows_and_repeated_rows(seed):
    drawn = draw_log(seed)
    rng = np.random.default_rng(seed)
    options = drawn.run_options | {"cloak": ("mbr", "quad")[seed % 2]}
    if seed % 3 == 0:
        options["rare"] = str(rng.choice(["keep", "other"]))
        options["rare_below"] = int(rng.integers(1, 4))
    options["link_safe"] = seed % 4 == 1
    sizes = Sizes(*rng.integers(1, 20, 2).tolist())
    compare(drawn.rows, drawn.k, sizes=sizes, **options)


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("seed", range(2))
def test_skewed_logs(seed, tree, skew):
    rng = np.random.default_rng([seed, TREES.index(tree), SKEWS.index(skew)])
    length = int(rng.integers(1, 5))
    rows = draw_skewed(seed, skew, int(rng.integers(20, 120)), length)
    sizes = Sizes(int(rng.integers(20, 200)), int(rng.integers(length, 40 * length)))
    k = int(rng.integers(2, 7))
    outcome = compare(rows, k, sizes=sizes, tree=tree, cloak=("mbr", "quad")[seed])
    assert outcome.error is None


@pytest.mark.parametrize("price", [5.0, 60.0, 200.0])
@pytest.mark.parametrize("seed", range(3))
def test_suppression_at_a_price(seed, price):
    rows = draw_skewed(seed, "even", 80, 3)
    compare(rows, 4, sizes=Sizes(60, 30), suppress_above=price, length=2)


@pytest.mark.parametrize("share", [0.0, 0.03, 0.3, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_suppression_within_a_budget(seed, share):
    rows = draw_skewed(seed, "even", 80, 3)
    compare(rows, 4, sizes=Sizes(60, 30), max_suppressed=share, length=2)


def test_numbers_of_threads_and_parts_change_nothing():
    rows = draw_skewed(7, "duplicates", 60, 3)
    outcomes = [
        compare(rows, 3, engine=MemoryEngine(t), sizes=Sizes(r, c))
        for r, c, t in ((1, 1, 1), (17, 6, 3), (1000, 1000, 2))
    ]
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_one_user_and_no_row_groups_to_spare():
    outcome = compare([Row("a", 0, 1, 1, "x")], 2)
    assert outcome.error is not None
    assert outcome.error[0] == "NotEnoughUsersError"


@pytest.mark.parametrize("cloak", ["mbr", "quad"])
def test_refined_in_one_block_is_the_same(cloak):
    rows = draw_skewed(1, "even", 60, 3)
    options = {"algorithm": "refined", "cloak": cloak, "suppress_above": 900.0}
    assert compare(rows, 4, sizes=Sizes(50, 1000), **options).error is None


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("cloak", ["mbr", "quad"])
def test_refined_in_many_blocks_is_a_valid_release(tmp_path, cloak, skew):
    path = write_log(tmp_path, draw_skewed(2, skew, 90, 2))
    releases = []
    for rows in (30, 90):
        folder = tmp_path / str(rows)
        folder.mkdir()
        result = anonymize_on(
            MemoryEngine(1, sizes=Sizes(rows, 40, 1)), path, COLUMNS,
            Options(k=4, algorithm="refined", cloak=cloak, **UNIT_CELLS),
        )  # fmt: skip
        result.write(folder / "release", folder / "policy.parquet")
        report = audit_files(path, folder / "release", folder / "policy.parquet", COLUMNS)
        assert report.passed
        # Equal trajectories are never cut apart.
        assert ("blocks" in result.manifest["parameters"]) == (skew != "one cell")
        releases.append(list_tree(folder / "release"))
    # Parts of the log do not decide where blocks are.
    assert releases[0] == releases[1]


@pytest.mark.needs_jit
@pytest.mark.slow
@pytest.mark.parametrize("cloak", ["mbr", "quad"])
def test_refined_in_blocks_of_thousands_costs_hardly_more(tmp_path, cloak):
    path = tmp_path / "log.parquet"
    tc.generate_log(path, users=24_000, length=6, seed=4)
    log = read_in_memory(path)
    in_memory = anonymize(log, 20, algorithm="refined", cloak=cloak, effort="low")
    asked = Options(k=20, algorithm="refined", cloak=cloak, effort="low")
    engine = MemoryEngine(1, sizes=Sizes(1 << 16, 8000 * 6, 1))
    spread = anonymize_on(engine, path, LogColumns(), asked)
    assert spread.manifest["parameters"]["blocks"] == 3
    assert spread.manifest["cost"] <= 1.02 * in_memory.manifest["cost"]


def test_long_windows_are_not_cut_into_small_blocks(tmp_path):
    """Three times as many users as fit into a block, but too few for two."""
    path = write_log(tmp_path, draw_skewed(2, "even", 90, 2))
    asked = Options(k=4, algorithm="refined", **UNIT_CELLS)
    for bundles, blocks in ((12, None), (11, 2)):
        engine = MemoryEngine(1, sizes=Sizes(50, 60, bundles))
        result = anonymize_on(engine, path, COLUMNS, asked)
        assert result.manifest["parameters"].get("blocks") == blocks


class TwoWorkers(StoredEngine):
    parallel = 2

    def run_calls(self, calls, stage, label):
        return [call.run() for call in calls]


@pytest.mark.parametrize("num_rows", [1, 10**7, 10**9, 3 * 10**10])
def test_shards_are_larger_only_where_they_would_be_too_many(num_rows):
    sizes = TwoWorkers(Path()).choose_sizes(num_rows)
    num_shards = -(-num_rows // sizes.rows)
    assert num_shards <= MAX_SHARDS
    assert sizes.rows <= SHARD_ROWS or num_rows > SHARD_ROWS * MAX_SHARDS
    assert num_shards == 1 or num_shards % 2 == 0


def test_more_parts_than_users():
    rows = [Row(user, t, 1, 1, None) for t in range(9) for user in range(3)]
    assert compare(rows, 3, sizes=Sizes(1, 1)).error is None


def write_degrees(path: Path, lon: np.ndarray, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    n, length = 40, 3
    table = pa.table(
        {
            "user_id": pa.array(np.tile(np.arange(n), length)).cast(pa.string()),
            "time": pa.array(np.repeat(np.arange(length), n) * 60_000_000, pa.timestamp("us")),
            "lon": lon[rng.integers(0, len(lon), n * length)],
            "lat": rng.uniform(47, 47.1, n * length),
            "what": pa.array(rng.choice(["a", "b"], n * length)),
        }
    )
    pq.write_table(table, path, row_group_size=13)
    return path


@pytest.mark.parametrize("lon", [np.linspace(8, 8.1, 9), np.array([-179.99, 179.98, 179.99])])
def test_degrees_are_projected_alike(tmp_path, lon):
    path = write_degrees(tmp_path / "log.parquet", lon)
    columns = LogColumns(requests=("what",), tz="Europe/Berlin")
    outcome = compare(path, 3, columns=columns, region=None, height=None, every="60s")
    assert outcome.error is None


SWAPPED_ROWS = [3, 17, 40, 41, 88, 90]


@pytest.mark.parametrize("size", [1, 20, 1000])
def test_swapped_rows_are_judged_by_the_whole_log(tmp_path, size):
    path = write_degrees(tmp_path / "log.parquet", np.linspace(51, 51.1, 50))
    table = pq.read_table(path)
    lon, lat = table["lon"].to_numpy().copy(), table["lat"].to_numpy().copy()
    lon[SWAPPED_ROWS], lat[SWAPPED_ROWS] = lat[SWAPPED_ROWS], lon[SWAPPED_ROWS]
    columns = {"user_id": table["user_id"], "time": table["time"], "lon": lon, "lat": lat}
    pq.write_table(pa.table(columns), path, row_group_size=13)
    options = {"region": None, "height": None}
    outcome = compare(path, 3, columns=LogColumns(), sizes=Sizes(size, 20), **options)
    assert outcome.error is not None
    assert "6 rows (4, 18, 41, 42, 89, ...) are far from most others" in outcome.error[1]


@pytest.mark.parametrize("x", [40.0, 1e200])
def test_rows_of_several_parts_are_named_in_one_message(x):
    rows = clustered_rows(per_cluster=6)
    rows = [row._replace(x=x) if i % 7 == 2 else row for i, row in enumerate(rows)]
    outcome = compare(rows, 3, sizes=Sizes(4, 4))
    assert outcome.error is not None
    assert "rows (3, 10, 17, 24, 31, ...) are" in outcome.error[1]


@pytest.mark.parametrize("user", [1000, 1001, 1002])
def test_the_first_file_says_the_coordinate_system(tmp_path, user):
    """Most parts have no row of it."""
    folder = tmp_path / "log"
    folder.mkdir()
    write_points(folder / "0.parquet", "EPSG:25832", np.array([user]), 0)
    for time in (0, 1):
        write_points(folder / f"{1 + time}.parquet", "EPSG:25833", np.arange(12), time)
    outcome = compare(folder, 3, columns=LogColumns(), sizes=Sizes(5, 5))
    assert outcome.files is not None
    assert json.loads(outcome.files["manifest.json"])["crs"] == "EPSG:25832"


def write_points(path: Path, crs: str, users: np.ndarray, time: int) -> None:
    """Write a GeoParquet file of points in a planar system."""
    xy = np.random.default_rng(time).uniform(1, 15, (len(users), 2))
    points = [struct.pack("<BIdd", 1, 1, *place) for place in xy.tolist()]
    geometry = {"encoding": "WKB", "geometry_types": ["Point"], "crs": CRS(crs).to_json_dict()}
    geo = {"version": "1.1.0", "primary_column": "g", "columns": {"g": geometry}}
    table = pa.table({"user_id": users, "time": np.full(len(users), time), "g": points})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)


def test_cleaning_sees_all_rows_of_a_user():
    rows = clustered_rows(per_cluster=6)
    rows += [rows[0]._replace(x=9), rows[5]._replace(x=15, y=15), rows[7]._replace(x=40)]
    # Read together with rows of users of whom nothing is dropped.
    rows.insert(40, rows[9]._replace(x=9, request="of a dropped row"))
    columns = LogColumns(
        requests=("what",), drop=("conflict", "teleport"), max_speed=8, clip=(-1, -1, 30, 30)
    )
    outcome = compare(rows, 3, columns=columns, sizes=Sizes(8, 8))
    assert outcome.error is None
    assert outcome.figures["withheld"]["rare"] == 0


@pytest.mark.parametrize(
    ("rows", "columns", "options"),
    [
        (clustered_rows(), {}, {"k": 100}),
        (clustered_rows(), {}, {"k": 3, "suppress_above": 0.5}),
        ([*clustered_rows(per_cluster=60), Row("far", 0, 1e6, 1e6)], {}, {"k": 3, "region": None}),
        ([*clustered_rows(), Row("far", 0, 15.9, 1)], {}, {"k": 3}),
        ([Row(u, t * t * 7919 % 10007, 1, 1) for u in range(3) for t in range(40)], {}, {"k": 2}),
        (clustered_rows(), {"clip": (90, 90, 99, 99)}, {"k": 3}),
        (
            [Row("a", t, 0, t % 2 * 9) for t in range(9)],
            {"max_speed": 1, "drop": ("teleport",)},
            {"k": 2},
        ),
    ],
)
def test_errors_are_the_same(rows, columns, options):
    asked = LogColumns(requests=("what",), **columns)
    assert compare(rows, columns=asked, **options).error is not None


def test_conflicts_are_refused_with_row_numbers():
    rows = clustered_rows()
    rows.append(rows[3]._replace(x=9))
    outcome = compare(rows, 3, sizes=Sizes(5, 5))
    assert outcome.error is not None
    assert "rows 4 and 37" in outcome.error[1]


def test_conflicts_of_several_parts_are_counted_together():
    rows = clustered_rows()
    rows += [row._replace(x=9) for row in rows[3:30:4]]
    outcome = compare(rows, 3, sizes=Sizes(5, 5))
    assert outcome.error is not None
    assert "7 such pairs in the log" in outcome.error[1]


def test_teleports_of_several_parts_are_named_together():
    rows = [Row(u, t, 1 + 9 * (t == 2), 1) for t in range(5) for u in range(8)]
    columns = LogColumns(max_speed=1)
    outcome = compare(rows, 3, columns=columns, sizes=Sizes(5, 5))
    assert outcome.error is not None
    assert "8 rows (17, 18, 19, 20, 21, ...) are farther" in outcome.error[1]


def test_ids_in_requests_are_refused():
    rows = [
        r._replace(user=f"user-{r.user}", request=f"user-{r.user}")
        for r in clustered_rows(per_cluster=20)
    ]
    outcome = compare(rows, 3, sizes=Sizes(6, 10), rare="keep")
    assert outcome.error is not None
    assert "holds the ids of 80 users" in outcome.error[1]


def test_what_is_allowed_is_in_the_manifest():
    found = compare(rows_with_addresses(), 3, rare="keep", allow=("what", "what"))
    assert json.loads(found.files["manifest.json"])["parameters"]["allow"] == ["what"]


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        *((name, {}) for name in ("baseline", "hilbert-clustering", "slow-clustering", "exact")),
        ("refined", {"max_suppressed": 0.2}),
    ],
)
def test_rivals_and_budgets_work_in_many_shards(algorithm, options):
    rows = draw_skewed(1, "even", 16, 2)
    compare(rows, 3, sizes=Sizes(5, 8, 10**6), algorithm=algorithm, length=1, **options)


def test_a_budget_holds_in_many_blocks(tmp_path):
    path = write_log(tmp_path, draw_skewed(2, "even", 90, 2))
    asked = Options(k=4, algorithm="refined", max_suppressed=0.2, **UNIT_CELLS)
    made = anonymize_on(MemoryEngine(1, sizes=Sizes(30, 40, 1)), path, COLUMNS, asked)
    assert made.manifest["parameters"]["blocks"] > 1
    assert 0 < made.manifest["suppressed"] <= 0.2 * 90


@pytest.mark.parametrize("ending", ["csv", "jsonl", "arrow"])
def test_files_of_other_kinds_are_read_in_many_shards(tmp_path, ending):
    rows = draw_skewed(1, "even", 30, 3)
    (tmp_path / "log").mkdir()
    table = pq.read_table(write_log(tmp_path, rows))
    for number, start in enumerate(range(0, len(rows), 40)):
        write_table(table.slice(start, 40), tmp_path / "log" / f"{number}.{ending}")
    assert compare(tmp_path / "log", 3, sizes=Sizes(7, 20)).error is None


def test_columns_of_folders_are_read_in_many_shards(tmp_path):
    table = pq.read_table(write_log(tmp_path, draw_skewed(1, "even", 30, 3)))
    for number in range(3):
        folder = tmp_path / "by_place" / f"what={'abc'[number]}"
        folder.mkdir(parents=True)
        part = table.slice(number * 30, 30).drop_columns(["what"])
        pq.write_table(part, folder / "part.parquet", row_group_size=4)
    assert compare(tmp_path / "by_place", 3, sizes=Sizes(7, 20)).error is None


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table as the ending of its name says."""
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=9)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


@pytest.mark.parametrize("bad", [0, 57, 89])
def test_a_bad_row_of_a_text_file_is_named_alike(tmp_path, bad):
    """Workers read files side by side, and number the rows of each."""
    (tmp_path / "log").mkdir()
    for number in range(3):
        lines = ["user_id,time,x,y,what"]
        lines += [
            f"{row % 10},{row // 10},{'far' if row == bad else 1.5},2.5,a"
            for row in range(30 * number, 30 * number + 30)
        ]
        (tmp_path / "log" / f"{number}.csv").write_text("\n".join(lines) + "\n")
    outcome = compare(tmp_path / "log", 3, sizes=Sizes(7, 20))
    assert outcome.error is not None
    assert f"{bad // 30}.csv: row {bad % 30 + 1}:" in outcome.error[1]


def test_a_bad_row_is_named_alike_where_users_have_folders(tmp_path):
    for user in range(4):
        folder = tmp_path / "log" / f"user_id={user}"
        folder.mkdir(parents=True)
        rows = [f"{time},{'far' if (user, time) == (2, 5) else 1.5},2.5,a" for time in range(9)]
        (folder / "rows.csv").write_text("\n".join(["time,x,y,what", *rows]) + "\n")
    outcome = compare(tmp_path / "log", 3, sizes=Sizes(7, 20))
    assert outcome.error is not None
    assert "user_id=2/rows.csv: row 6:" in outcome.error[1]


def test_files_without_row_groups(tmp_path):
    rows = draw_skewed(1, "even", 30, 3)
    table = pq.read_table(write_log(tmp_path, rows))
    (tmp_path / "log").mkdir()
    for name, part in (("0", table.slice(0, 50)), ("2", table.slice(50))):
        pq.write_table(part, tmp_path / "log" / f"{name}.parquet", row_group_size=4)
    empty = tmp_path / "log" / "1.parquet"
    with pq.ParquetWriter(empty, table.schema):
        pass
    sizes = Sizes(7, 20)
    assert compare(tmp_path / "log", 3, sizes=sizes).error is None
    outcome = compare(empty, 3, sizes=sizes)
    assert outcome.error is not None
    assert "the log has no rows" in outcome.error[1]
    for engine in (MemoryEngine(1), MemoryEngine(1, sizes=sizes)):
        made = anonymize_on(engine, tmp_path / "log", COLUMNS, Options(k=3), empty)
        assert made.figures["requests"] == 0


@pytest.mark.parametrize("ending", ["csv", "jsonl", "arrow"])
def test_a_missing_column_is_named_alike(tmp_path, ending):
    (tmp_path / "log").mkdir()
    table = pq.read_table(write_log(tmp_path, draw_skewed(1, "even", 30, 3)))
    write_table(table, tmp_path / "log" / f"0.{ending}")
    write_table(table.drop_columns(["user_id"]), tmp_path / "log" / f"1.{ending}")
    outcome = compare(tmp_path / "log", 3, sizes=Sizes(7, 20))
    assert outcome.error is not None
    assert "there is no column 'user_id'" in outcome.error[1]


def test_a_run_that_cannot_finish_leaves_nothing(tmp_path, monkeypatch):
    path = write_log(tmp_path, clustered_rows())
    asked = Options(k=3, algorithm="traj-anon")
    result = anonymize_on(MemoryEngine(1), path, LogColumns(requests=("what",)), asked)
    before = list_tree(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(result_module, "join_row_groups", fail)
    with pytest.raises(tc.OutputError, match="no space"):
        result.write(tmp_path / "release", tmp_path / "policy.parquet")
    assert list_tree(tmp_path) == before


def test_the_policy_file_is_private(tmp_path):
    path = write_log(tmp_path, clustered_rows())
    asked = Options(k=3, algorithm="traj-anon")
    result = anonymize_on(MemoryEngine(1), path, LogColumns(), asked)
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    assert (tmp_path / "policy.parquet").stat().st_mode & 0o777 == 0o600


def test_floats_of_other_bits_are_one_value_on_all_parts(tmp_path):
    bits = np.array([0, 1 << 63, 0x7FF8 << 48, 0xFFF8 << 48, 0x3FF0 << 48], np.uint64)
    rows = draw_skewed(0, "even", 40, 3)
    table = pq.read_table(write_log(tmp_path, [row._replace(request="r") for row in rows]))
    what = pa.array(bits[np.arange(len(rows)) % 5].view(np.float64))
    table = table.set_column(table.schema.get_field_index("what"), "what", what)
    found = []
    for order in (np.arange(len(rows)), np.arange(len(rows))[::-1]):
        pq.write_table(table.take(order), tmp_path / "log.parquet", row_group_size=7)
        found.append(compare(tmp_path / "log.parquet", 3, sizes=Sizes(20, 20)))
    assert found[0].error is None
    assert found[0] == found[1]
