"""Row groups that were encoded apart, joined: the file of one writer, byte for byte."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajcloak.parquet.thrift import decode_struct, encode_struct
from trajcloak.release.row_groups import encode_row_group, join_row_groups
from zoo import examples

COLUMNS = {
    "int": lambda n, rng: rng.integers(-(2**40), 2**40, n),
    "few": lambda n, rng: rng.integers(0, 3, n).astype(np.int32),
    "float": lambda n, rng: rng.random(n),
    "text": lambda n, rng: pa.array([f"é{i % 7}" * (i % 3) for i in range(n)], pa.string()),
    "null": lambda n, rng: pa.array([None if i % 2 else i for i in range(n)], pa.int64()),
    "coded": lambda n, rng: pa.array(
        [f"v{i % 4}" for i in range(n)], pa.string()
    ).dictionary_encode(),
    "flag": lambda n, rng: rng.random(n) < 0.5,
    "list": lambda n, rng: pa.array([[i] * (i % 3) for i in range(n)], pa.list_(pa.int16())),
    "moment": lambda n, rng: pa.array(np.arange(n), pa.timestamp("us", "UTC")),
}


def build_batch(names: list[str], num_rows: int, seed: int) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    batch = pa.record_batch({name: COLUMNS[name](num_rows, rng) for name in names})
    return batch.replace_schema_metadata({"geo": '{"version": "1.1.0"}'})


def write_at_once(batches: list[pa.RecordBatch], *, store_schema: bool) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        batches[0].schema,
        compression="zstd",
        compression_level=1,
        store_schema=store_schema,
    ) as writer:
        for batch in batches:
            if batch.num_rows:
                writer.write_batch(batch, row_group_size=batch.num_rows)
    return sink.getvalue().to_pybytes()


def join(batches: list[pa.RecordBatch], *, store_schema: bool) -> bytes:
    file = io.BytesIO()
    join_row_groups((encode_row_group(b, store_schema=store_schema) for b in batches), file)
    return file.getvalue()


@examples(100)
@given(
    st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=5, unique=True),
    st.lists(st.integers(0, 400), min_size=1, max_size=20),
    st.booleans(),
)
def test_joined_groups_are_the_bytes_of_one_writer(names, sizes, store_schema):
    batches = [build_batch(names, size, seed) for seed, size in enumerate(sizes)]
    joined = join(batches, store_schema=store_schema)
    assert joined == write_at_once(batches, store_schema=store_schema)
    assert pq.read_table(io.BytesIO(joined)).num_rows == sum(sizes)


def test_a_page_index_is_refused():
    """Its offsets would have to be moved, too."""
    sink = pa.BufferOutputStream()
    batch = build_batch(["int"], 50, 1)
    with pq.ParquetWriter(sink, batch.schema, write_page_index=True) as writer:
        writer.write_batch(batch)
    with pytest.raises(AssertionError, match="page index"):
        join_row_groups([sink.getvalue()], io.BytesIO())


def test_a_footer_is_read_and_written_as_it_is():
    data = write_at_once([build_batch(sorted(COLUMNS), 50, 1)] * 20, store_schema=True)
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    assert encode_struct(decode_struct(footer)) == footer
    with pytest.raises(ValueError, match="ends before"):
        decode_struct(footer + b"\0")
