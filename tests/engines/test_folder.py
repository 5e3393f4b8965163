import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from runs import anonymize
from trajcloak import pipeline
from trajcloak.engines import engine as engine_module
from trajcloak.engines import folder
from trajcloak.engines.folder import format_memory, parse_memory
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import anonymize_files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4GiB", 4 << 30),
        ("4 gib", 4 << 30),
        ("900MB", 900 * 10**6),
        ("2g", 2 * 10**9),
        ("1Ti", 1 << 40),
        (10**9, 10**9),
        ("1000000000", 10**9),
    ],
)
def test_sizes(text, expected):
    assert parse_memory(text) == expected


@pytest.mark.parametrize("text", ["", "much", "4.5GiB", "-1", "4XiB", "GiB", "4GiB!"])
def test_what_is_no_size(text):
    with pytest.raises(tc.OptionError, match="expected a size such as 4GiB"):
        parse_memory(text)


def test_too_little():
    with pytest.raises(tc.OptionError, match="expected at least 640 MiB"):
        parse_memory("639MiB")


def test_sizes_are_written_for_people():
    assert format_memory(640 << 20) == "640 MiB"
    assert format_memory(4.5 * 2**30) == "4.5 GiB"


def write_dense(path, num_users, length):
    user, time = np.divmod(np.arange(num_users * length), length)
    table = {"user_id": user, "time": time, "x": user % 97 + 0.5, "y": user % 89 + 0.5}
    pq.write_table(pa.table(table), path)
    return path


@pytest.fixture
def tight(monkeypatch):
    """Leave room for a thousand users at instants."""
    monkeypatch.setattr(folder, "RESERVED", (1 << 30) - 1000 * folder.CELL_BYTES)


def start(log, **options):
    release = log.with_name("release")
    asked = Options(k=5, **options)
    return anonymize_files(log, release, None, LogColumns(), asked, memory="1GiB", threads=1)


def test_a_log_that_is_one_window_is_refused_before_it_is_read(tmp_path, tight, monkeypatch):
    log = write_dense(tmp_path / "log.parquet", 200, 6)
    monkeypatch.setattr(pipeline, "read_shards", None)
    with pytest.raises(tc.OptionError, match=r"the 1,200 rows .* pass length="):
        start(log)
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_a_window_that_does_not_fit_is_refused(tmp_path, tight):
    log = write_dense(tmp_path / "log.parquet", 200, 12)
    with pytest.raises(tc.OptionError, match="window 0 has 200 users at 6 instants, which do not"):
        start(log, length=6)
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]
    assert start(log, length=5).manifest["windows"] == 3


def test_refined_is_not_cut_into_blocks(tmp_path, monkeypatch, tight):
    """A window of many times what fits, of so few bundles that a block may be small."""
    monkeypatch.setattr(engine_module.Sizes, "bundles", 1)
    log = write_dense(tmp_path / "log.parquet", 900, 12)
    with pytest.raises(tc.OptionError, match="window 0 has 900 users at 6 instants, which do not"):
        start(log, length=6)


def test_traj_anon_takes_windows_apart_that_do_not_fit(tmp_path, tight):
    log = write_dense(tmp_path / "log.parquet", 200, 12)
    made = start(log, algorithm="traj-anon", cloak="quad")
    whole = anonymize(read_in_memory(log), 5, algorithm="traj-anon", cloak="quad")
    assert made.manifest == whole.manifest


def test_memory_in_python_is_the_same_release(tmp_path):
    log = write_dense(tmp_path / "log.parquet", 60, 4)
    made = anonymize(log, 5, memory="1GiB", scratch=tmp_path, length=2)
    whole = anonymize(log, 5, length=2)
    assert made.manifest == whole.manifest
    assert made.policy == whole.policy
    del made
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]
