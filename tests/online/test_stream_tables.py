"""Users are found by ids that nobody has checked."""

import pyarrow as pa
import pytest

from trajcloak.online.stream_tables import StreamUsers


def test_more_text_than_an_array_holds():
    users = StreamUsers()
    users.number(pa.chunked_array([["ann", "bob"]]))
    long = pa.array(["x" * 1000] * 999 + ["bob"])
    found = users.find(pa.chunked_array([long] * 2200))
    assert found.tolist() == ([-1] * 999 + [1]) * 2200


@pytest.mark.parametrize(
    ("known", "asked", "expected"),
    [
        (pa.array([7, 8]), pa.array(["8", "secret", ""]), [1, -1, -1]),
        (pa.array([7, 8]), pa.array([8, 2**64 - 1], pa.uint64()), [1, -1]),
        (pa.array([7, 8]), pa.array([8, -1], pa.int8()), [1, -1]),
        (pa.array(["7", "8"]), pa.array([8, 9]), [1, -1]),
    ],
)
def test_ids_of_other_types(known, asked, expected):
    users = StreamUsers()
    users.number(pa.chunked_array([known]))
    assert users.find(pa.chunked_array([asked])).tolist() == expected
