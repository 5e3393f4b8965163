"""Damage to columns and metadata, one by one; tests name exactly the checks that must notice."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from auditor.expected import NEEDS_CONTENTS
from reference.release_by_hand import planar


def test_extra_column(find_failed):
    example = planar()
    hidden = pa.array([0] * len(example.requests))
    example.extra_columns["requests.parquet"] = {"hidden": hidden}
    assert find_failed(example) == {"requests file"} | NEEDS_CONTENTS


def test_extra_column_of_the_bundles(find_failed):
    example = planar()
    example.extra_columns["bundles.parquet"] = {"hidden": pa.array([0] * len(example.bundles))}
    failed = find_failed(example)
    assert {"bundles file", "bundle rows"} <= failed


def test_wrong_type(find_failed):
    example = planar()
    example.columns["amount"] = pa.int64()

    def narrow(paths):
        table = pq.read_table(paths.log)
        at = table.column_names.index("amount")
        pq.write_table(table.set_column(at, "amount", table["amount"].cast(pa.int32())), paths.log)

    assert find_failed(example, narrow) == {"requests file"} | NEEDS_CONTENTS


def test_extra_metadata(find_failed):
    example = planar()
    example.extra_metadata["requests.parquet"] = {"note": "anything"}
    assert find_failed(example) == {"requests file"}


def test_geo_metadata_with_another_bounding_box(find_failed):
    example = planar()

    def damage(paths):
        path = paths.release / "bundles.parquet"
        table = pq.read_table(path)
        geo = json.loads(table.schema.metadata[b"geo"])
        geo["columns"]["geometry"]["bbox"][0] += 1
        pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)

    assert find_failed(example, damage) == {"geometry"}
