"""Damage to the order of rows, one by one; tests name exactly the checks that must notice."""

import pyarrow.parquet as pq

from auditor.expected import NEEDS_CONTENTS
from reference.release_by_hand import planar, refresh, sort_requests


def test_bundle_ids_permuted(find_failed):
    example = planar()
    swap = {0: 3, 3: 0}
    for table in (example.bundles, example.requests, example.policy):
        for row in table:
            row["bundle_id"] = swap.get(row["bundle_id"], row["bundle_id"])
    example.bundles.sort(key=lambda row: (row["bundle_id"], row["instant"]))
    sort_requests(example)
    assert find_failed(example) == {"bundle order"}


def test_rows_out_of_order(find_failed):
    example = planar()
    example.bundles.reverse()
    assert find_failed(example) == {"bundle order"}


def test_bundle_ids_with_a_gap(find_failed):
    example = planar()
    for table in (example.bundles, example.requests, example.policy):
        for row in table:
            row["bundle_id"] += 1
    assert find_failed(example) == {"bundle rows"}


def test_bundle_without_a_row(find_failed):
    example = planar()
    del example.bundles[5]
    refresh(example)
    assert find_failed(example) == {"bundle rows", "bundle order"} | NEEDS_CONTENTS


def test_no_bundles(find_failed):
    def empty(paths):
        path = paths.release / "bundles.parquet"
        pq.write_table(pq.read_table(path).slice(0, 0), path)

    assert "bundle rows" in find_failed(planar(), empty)
