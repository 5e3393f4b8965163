"""Structs as request columns: published as one column for each field."""

import datetime
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from runs import anonymize
from trajcloak.auditor import audit_files
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns

SENT = [
    {"what": "cafe", "where": {"near": True, "metres": decimal.Decimal("1.50")}},
    {"what": None, "where": {"near": None, "metres": None}},
    {"what": "bank", "where": None},
    None,
]
TYPE = pa.struct(
    [
        ("what", pa.string()),
        ("where", pa.struct([("near", pa.bool_()), ("metres", pa.decimal128(9, 2))])),
    ]
)


def write(path, columns):
    n = len(next(iter(columns.values())))
    base = {"user_id": [f"user-{i:04d}" for i in range(n)], "time": [0] * n}
    pq.write_table(pa.table(base | {"x": [1.0] * n, "y": [1.0] * n} | columns), path)
    return path


def read(path, *names):
    return read_in_memory(path, LogColumns(requests=names)).requests


def test_fields_become_columns_with_their_types(tmp_path):
    requests = read(write(tmp_path / "log.parquet", {"query": pa.array(SENT, TYPE)}), "query")
    assert requests.row.tolist() == [0, 2]
    assert requests.kinds.schema == pa.schema(
        [
            ("query.what", pa.string()),
            ("query.where.near", pa.bool_()),
            ("query.where.metres", pa.decimal128(9, 2)),
        ]
    )
    assert [list(kind.values()) for kind in requests.kinds.to_pylist()] == [
        ["bank", None, None],
        ["cafe", True, decimal.Decimal("1.50")],
    ]


def test_a_field_alone(tmp_path):
    path = write(tmp_path / "log.parquet", {"query": pa.array(SENT, TYPE)})
    assert read(path, "query.what").kinds.to_pydict() == {"query.what": ["bank", "cafe"]}
    assert read(path, "query.where.near", "query.what").kinds.column_names == [
        "query.where.near",
        "query.what",
    ]
    assert len(read(path, "query.where").kinds.column_names) == 2


def test_a_column_whose_name_has_a_dot(tmp_path):
    columns = {"a.b": ["own"], "a": pa.array([{"c": "field"}])}
    path = write(tmp_path / "log.parquet", columns)
    assert read(path, "a.b", "a.c").kinds.to_pylist() == [{"a.b": "own", "a.c": "field"}]


def test_a_field_that_does_not_exist(tmp_path):
    path = write(tmp_path / "log.parquet", {"query": pa.array(SENT, TYPE), "flat": [1] * 4})
    for name in ("query.who", "query.what.else", "flat.what"):
        with pytest.raises(tc.InputError, match=r"has no field .*; expected it in every file"):
            read(path, name)
    with pytest.raises(tc.InputError, match=r"there is no column 'nobody\.knows'"):
        read(path, "nobody.knows")


def test_one_name_for_two_columns(tmp_path):
    columns = {"a.b": ["own"], "a": pa.array([{"b": "field"}])}
    path = write(tmp_path / "log.parquet", columns)
    with pytest.raises(tc.InputError, match=r"'a\.b' is there twice"):
        read(path, "a", "a.b")


def test_fields_that_differ_between_files(tmp_path):
    write(tmp_path / "1.parquet", {"query": pa.array([{"what": "a", "more": 1}])})
    write(tmp_path / "2.parquet", {"query": pa.array([{"what": "b"}])})
    with pytest.raises(tc.InputError, match=r"other fields in one file .* requests=.COLUMN.FIELD."):
        read(tmp_path, "query")
    assert read(tmp_path, "query.what").kinds.to_pydict() == {"query.what": ["a", "b"]}


@pytest.mark.parametrize("named", [(), ("query",), ("query.where", "query.what", "at")])
def test_the_audit_reads_structs_too(tmp_path, named):
    sent = [SENT[i % 4] for i in range(12)]
    at = pa.array([datetime.datetime(2024, 5, i % 3 + 1) for i in range(12)], pa.timestamp("ms"))
    log = write(tmp_path / "log.parquet", {"query": pa.array(sent, TYPE), "at": at})
    columns = LogColumns(requests=named or ("query", "at"))
    result = anonymize(read_in_memory(log, columns), k=3, rare="keep")
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    found = audit_files(
        log, tmp_path / "release", tmp_path / "policy.parquet", LogColumns(requests=named)
    )
    assert found.passed, [check for check in found.checks if not check.passed]
    assert result.manifest["requests"] > 1
