"""Every engine publishes the bytes of a run in memory, whatever it is asked for."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from engines.drawn_runs import Run, build_folder_engine, draw_run, draw_sizes
from small_logs import COLUMNS, list_tree, new_folder, rows_with_addresses, write_parquet
from trajcloak.engines.engine import MemoryEngine, Sizes
from trajcloak.options import LogColumns
from zoo import first_quick

PER_TEST = 15
NUM_TESTS = 20


def outcome(anonymize, folder):
    """Everything that a run leaves: files and private figures, or an error."""
    release, policy = folder / "release", folder / "policy.parquet"
    try:
        figures = anonymize(release, policy)
    except tc.TrajcloakError as error:
        assert not list(folder.iterdir()), "an error leaves nothing behind"
        return type(error), str(error)
    private = {path for path in folder.iterdir() if path != release}
    assert policy in private
    assert private <= {policy, folder / "policy-parts.parquet"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in private)
    return list_tree(folder), figures


def compare(run, engine):
    """Compare a run on an engine with one in memory; tells whether there was a release."""
    with new_folder() as one, new_folder() as other:
        expected = outcome(run.in_memory, one)
        actual = outcome(partial(run.on, engine), other)
    assert actual == expected, run
    return isinstance(expected[0], dict)


def run_drawn(seed, make_engine):
    with new_folder() as folder, new_folder() as shards:
        run = draw_run(seed, folder)
        before = list_tree(folder)
        released = compare(run, make_engine(shards, draw_sizes(seed)))
        assert list_tree(folder) == before
    return released


ENGINES = {
    "shards in memory": lambda _, sizes: MemoryEngine(1, sizes=sizes),
    "folder": build_folder_engine,
}


@pytest.mark.needs_jit
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("test", first_quick(range(NUM_TESTS), 1))
def test_the_same_bytes(test, engine):
    seeds = range(test * PER_TEST, (test + 1) * PER_TEST)
    released = [run_drawn(seed, ENGINES[engine]) for seed in seeds]
    assert sum(released) >= PER_TEST // 4


@pytest.mark.needs_jit
@pytest.mark.cluster
@pytest.mark.parametrize("seed", range(1000, 1012))
def test_the_same_bytes_on_dask(seed, dask_engine):
    with new_folder() as folder:
        run = draw_run(seed, folder)
        dask_engine._sizes = draw_sizes(seed)
        compare(run, dask_engine)


@pytest.mark.needs_jit
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("seed", range(2000, 2008))
def test_the_same_bytes_on_spark(seed, spark_engine):
    with new_folder() as folder:
        run = draw_run(seed, folder)
        spark_engine._sizes = draw_sizes(seed)
        compare(run, spark_engine)


@pytest.mark.parametrize("drop", [(), ("swapped",)])
def test_most_rows_are_most_of_the_whole_log(tmp_path, drop):
    """A user whose axes are swapped is far from the others, though alone in a shard."""
    user = np.repeat(np.arange(12), 4)
    lon = 13.4 + 0.001 * user
    lat = 52.5 - 0.001 * user
    swapped = user == 7
    table = {
        "user_id": user,
        "time": np.tile(np.arange(4), 12),
        "lon": np.where(swapped, lat, lon),
        "lat": np.where(swapped, lon, lat),
    }
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    run = Run(tmp_path / "log.parquet", LogColumns(drop=drop), 3, {})
    assert compare(run, MemoryEngine(1, sizes=Sizes(4, 100))) == bool(drop)


def test_what_was_allowed_is_said(tmp_path):
    path = write_parquet(tmp_path / "log.parquet", rows_with_addresses())
    run = Run(path, COLUMNS, 3, {"allow": ("what", "what")})
    assert compare(run, MemoryEngine(1, sizes=Sizes(5, 5)))


def test_values_of_other_bits_are_the_same_bytes(tmp_path):
    """Zeros of both signs, several NaN, a dictionary with values twice; rows in any order."""
    bits = [0, 1 << 63, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 7, 0x3FF0 << 48]
    rng = np.random.default_rng(1)
    number, word = rng.integers(0, 6, 80), rng.integers(0, 4, 80).astype(np.int32)
    table = pa.table(
        {
            "user_id": np.repeat(np.arange(20), 4),
            "time": np.tile(np.arange(4), 20),
            "x": np.repeat(rng.uniform(0, 9, 20), 4),
            "y": np.repeat(rng.uniform(0, 9, 20), 4),
            "number": pa.array(np.array(bits, np.uint64)[number].view(np.float64)),
            "word": pa.DictionaryArray.from_arrays(word, pa.array(["cafe", "bar", "cafe", "zoo"])),
        }
    )
    found = []
    for order in (np.arange(80), np.arange(80)[::-1], rng.permutation(80)):
        with pa.ipc.new_file(tmp_path / "log.arrow", table.schema) as writer:
            writer.write_table(table.take(order).combine_chunks(), max_chunksize=30)
        columns = LogColumns(requests=("number", "word"))
        run = Run(tmp_path / "log.arrow", columns, 3, {"length": 2})
        for make in (run.in_memory, partial(run.on, MemoryEngine(1, sizes=Sizes(30, 20)))):
            with new_folder() as folder:
                found.append(outcome(make, folder))
                rows = pq.read_table(folder / "release" / "requests.parquet")
    assert all(one == found[0] for one in found)
    distinct = rows.group_by(rows.column_names).aggregate([]).num_rows
    assert distinct == rows.num_rows
    seen = set(rows["number"].to_numpy().view(np.uint64).tolist())
    assert seen == {0, 0x7FF8 << 48, 0x3FF0 << 48}
