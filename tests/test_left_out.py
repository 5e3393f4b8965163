"""Requests of users who are left out leave no trace in a release."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runs import anonymize
from trajcloak.auditor import audit_files
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns

SECRET = "known-to-one-user-only"
COLUMNS = LogColumns(requests=("what",))


def write_log(path, left_out, num_instants=4):
    """40 users near each other; the last is ``left_out`` in some way and sent the secret."""
    rng = np.random.default_rng(5)
    rows = []
    for user in range(40):
        is_last = user == 39
        x, y = (
            (9000.25, 9000.25)
            if is_last and left_out == "suppressed"
            else rng.integers(0, 10_000, 2) / 100
        )
        for instant in range(num_instants):
            if is_last and left_out == "missing_location" and instant == 2:
                continue
            what = SECRET if is_last and instant == num_instants - 1 else f"w{instant % 3}"
            rows.append((1000 + user, instant, x + instant, y, what))
    if left_out == "small_window":
        rows = [row for row in rows if row[1] < num_instants - 1 or row[0] >= 1037]
    user, time, x, y, what = zip(*rows, strict=True)
    pq.write_table(pa.table({"user_id": user, "time": time, "x": x, "y": y, "what": what}), path)


OPTIONS = {
    "missing_location": {"max_gap": "1"},
    "suppressed": {"max_suppressed": 0.03, "region": (-100.0, -100.0, 20000.0)},
    "small_window": {"length": 3, "max_gap": "1"},
}


@pytest.mark.parametrize("reason", list(OPTIONS))
@pytest.mark.parametrize("algorithm", ["traj-anon", "refined"])
def test_a_request_that_is_not_published_is_nowhere(tmp_path, reason, algorithm):
    log, release, policy = tmp_path / "log.parquet", tmp_path / "release", tmp_path / "p.parquet"
    write_log(log, reason)
    asked = {"algorithm": algorithm, "rare": "keep", **OPTIONS[reason]}
    result = anonymize(read_in_memory(log, COLUMNS), k=5, **asked)
    result.write(release, policy)
    assert result.figures["withheld"][reason] > 0
    assert SECRET not in result.kinds.column("what").to_pylist()
    for file in release.iterdir():
        assert SECRET.encode() not in file.read_bytes()
    encoded = pq.ParquetFile(release / "requests.parquet", read_dictionary=["what"]).read()
    for chunk in encoded.column("what").chunks:
        assert SECRET not in chunk.dictionary.to_pylist()
    assert audit_files(log, release, policy, COLUMNS).passed


def test_the_audit_finds_a_value_that_no_row_refers_to(tmp_path):
    log, release, policy = tmp_path / "log.parquet", tmp_path / "release", tmp_path / "p.parquet"
    write_log(log, "missing_location")
    anonymize(read_in_memory(log, COLUMNS), k=5, max_gap="1").write(release, policy)
    file = release / "requests.parquet"
    table = pq.read_table(file)
    what = table.column("what").combine_chunks().dictionary_encode()
    values = pa.concat_arrays([what.dictionary, pa.array([SECRET])])
    padded = pa.DictionaryArray.from_arrays(what.indices, values)
    at = table.schema.get_field_index("what")
    pq.write_table(table.set_column(at, "what", padded), file, store_schema=False)
    report = audit_files(log, release, policy, COLUMNS)
    assert not report.passed
    assert [check.name for check in report.checks if not check.passed] == ["bytes"]
    assert "requests.parquet" in report["bytes"].detail
