"""Damage to requests, one by one; tests name exactly the checks that must notice."""

import pytest

from reference.release_by_hand import geographic, planar, refresh, sort_requests
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
