"""Damage to requests, one by one; tests name exactly the checks that must notice."""

from reference.release_by_hand import geographic, planar, refresh, sort_requests


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
