"""Damage to requests, one by one; tests name exactly the checks that must notice."""

import math
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from auditor.expected import list_failed
from reference.release_by_hand import geographic, make, planar, refresh, sort_requests
from trajcloak.auditor import audit
from trajcloak.options import LogColumns


def test_request_added(find_failed):
    example = planar()
    example.requests.append(example.requests[0] | {"category": "planted", "amount": 1})
    sort_requests(example)
    refresh(example)
    assert find_failed(example) == {"requests"}


def test_request_removed(find_failed):
    example = planar()
    del example.requests[10]
    refresh(example)
    assert find_failed(example) == {"requests"}


def test_request_moved_to_another_instant(find_failed):
    example = geographic()
    row = next(row for row in example.requests if row["instant"] == 1)
    row["instant"] = 2
    sort_requests(example)
    refresh(example)
    assert "requests" in find_failed(example)


def test_request_moved_to_another_bundle(find_failed):
    example = planar()
    example.requests[0] |= {"bundle_id": 11, "category": "second", "amount": 77}
    sort_requests(example)
    refresh(example)
    assert find_failed(example) == {"requests"}


def test_request_duplicated(find_failed):
    example = planar()
    example.requests.insert(3, dict(example.requests[3]))
    refresh(example)
    assert find_failed(example) == {"request rows"}


def test_requests_out_of_order(find_failed):
    example = planar()
    same = [r for r in example.requests if (r["bundle_id"], r["instant"]) == (0, 0)]
    assert len(same) > 1
    example.requests[0], example.requests[1] = example.requests[1], example.requests[0]
    assert find_failed(example) == {"request rows"}


def test_request_of_another_window(find_failed):
    example = geographic()
    example.requests[0]["window"] = 1
    assert find_failed(example) == {"request rows", "requests"}


def test_requests_need_null_first(find_failed):
    example = planar()
    row = next(row for row in example.requests if row["category"] is None)
    at = example.requests.index(row)
    example.requests.remove(row)
    key = row["bundle_id"], row["instant"]
    while (example.requests[at]["bundle_id"], example.requests[at]["instant"]) == key:
        at += 1
    example.requests.insert(at, row)
    assert find_failed(example) == {"request rows"}


def without_attribute(example, name):
    """Publish as if an attribute had never been asked for."""
    kept = {}
    for row in example.requests:
        key = tuple(value for column, value in row.items() if column != name)
        kept[key] = {column: value for column, value in row.items() if column != name}
    example.requests = list(kept.values())
    example.attributes = [other for other in example.attributes if other != name]
    sort_requests(example)
    refresh(example)


@pytest.mark.parametrize("names", [("amount",), ("category", "amount")])
def test_attributes_gone(find_failed, names):
    example = planar()
    for name in names:
        without_attribute(example, name)
    if len(names) == 2:
        example.requests = []
        refresh(example)
    assert "requests file" in find_failed(example, columns=LogColumns())


def test_attribute_that_nobody_named(find_failed):
    example = planar()
    example.manifest["parameters"]["requests"] = ["category"]
    assert "requests file" in find_failed(example, columns=LogColumns())


def test_other_attributes_than_the_caller_names(find_failed):
    example = planar()
    columns = LogColumns(requests=("category",))
    assert {"parameters", "requests file"} <= find_failed(example, columns=columns)


@pytest.mark.parametrize("name", ["nowhere", "user_id", "x", "instant"])
def test_attribute_that_cannot_be(find_failed, name):
    example = planar()
    example.manifest["parameters"]["requests"].append(name)
    assert find_failed(example, columns=LogColumns()) == {"parameters"}


OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF80000DEADBEEF))[0]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("rare", ["keep", "drop"])
def test_zeros_are_one_value_and_so_are_nans(find_failed, kind, rare):
    example = floats(kind)
    example.manifest["parameters"] |= {"rare": rare, "rare_below": 2}
    assert find_failed(example) == set()


@pytest.mark.parametrize(("value", "other"), [(0.0, -0.0), (math.nan, OTHER_NAN)])
def test_values_spelled_otherwise(find_failed, value, other):
    example = floats(pa.float64())
    row = next(row for row in example.requests if repr(row["amount"]) == repr(value))
    row["amount"] = other
    assert "request rows" in find_failed(example)


def floats(kind):
    """Make the planar example with zeros of both signs, and NaNs, in the log."""
    base = planar()
    sent = {"plus": 0.0, "minus": -0.0, "nan": math.nan, "other": OTHER_NAN}
    names = list(sent)
    rows = [dict(row) for row in base.log]
    for number, row in enumerate(rows):
        row |= {"category": None, "amount": 1.0 if names[number % 4] in ("plus", "minus") else 2.0}
    example = make(
        rows,
        base.columns | {"amount": kind},
        k=3,
        attributes=base.attributes,
        every=1,
        region=base.manifest["region"],
        height=base.manifest["height"],
    )
    for number, row in enumerate(example.log):
        row["amount"] = sent[names[number % 4]]
    for row in example.requests:
        row["amount"] = 0.0 if row["amount"] == 1.0 else math.nan
    return example


def test_numbers_of_text_that_became_one(tmp_path):
    path = publish_csv(tmp_path, [2**53, 2**53 + 1, 2**53 + 2])
    table = pq.read_table(path)
    floats = pa.array(np.array(table["v"].to_pylist(), np.float64))
    distinct = table.set_column(3, "v", floats).to_pylist()
    distinct = [row for at, row in enumerate(distinct) if row not in distinct[:at]]
    assert len(distinct) < table.num_rows
    pq.write_table(pa.Table.from_pylist(distinct, table.set_column(3, "v", floats).schema), path)
    report = audit(tmp_path / "log.csv", path.parent, tmp_path / "policy.parquet")
    assert list_failed(report) == {"requests", "counts"}


def publish_csv(folder, values):
    rows = ["user_id,time,x,y,v"]
    rows += [
        f"u{i:05d},{t},{i},{i * 7 % 40},{values[(i + t) % 3]}" for i in range(40) for t in (0, 1)
    ]
    (folder / "log.csv").write_text("\n".join(rows) + "\n")
    columns = LogColumns(requests=("v",))
    result = tc.anonymize(tc.read_log(folder / "log.csv", columns), k=5)
    result.write(folder / "release", policy=folder / "policy.parquet")
    return folder / "release" / "requests.parquet"


@pytest.mark.parametrize(
    "convert",
    [
        lambda values: pa.array(np.array(values, np.float32)),
        lambda values: pa.array(np.array(values) % 1000, pa.float16()),
        lambda values: pa.array([[value] for value in values]),
        lambda values: pa.array([{"a": value} for value in values]),
        lambda values: pa.array([[("a", v)] for v in values], pa.map_(pa.string(), pa.int64())),
        lambda values: pa.array([Decimal(value) for value in values]),
        lambda values: pa.array(values, pa.timestamp("ms")),
    ],
)
def test_types_that_text_does_not_become(tmp_path, convert):
    path = publish_csv(tmp_path, [16777217, 16777219, 16777221])
    table = pq.read_table(path)
    report = audit(tmp_path / "log.csv", path.parent, tmp_path / "policy.parquet")
    assert report.passed
    pq.write_table(table.set_column(3, "v", convert(table["v"].to_pylist())), path)
    report = audit(tmp_path / "log.csv", path.parent, tmp_path / "policy.parquet")
    assert not report["requests file"].passed
