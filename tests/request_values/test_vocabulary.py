"""Public lists of values that requests may have."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from runs import anonymize
from small_logs import UNIT_CELLS, Row, read_rows
from trajcloak.given_values import read_vocabulary
from trajcloak.requests.decide import find_known


def test_values_of_all_types_are_compared_as_text():
    kinds = pa.table(
        {
            "text": ["a", "b", None, "a", "a"],
            "number": pa.array([1.0, 1.0, 1.0, 2.5, None]),
            "flag": [True, True, True, True, False],
        }
    )
    for vocabulary in (
        {"text": ["a"], "number": [1.0], "flag": [True]},
        {"text": ["a"], "number": [1], "flag": ["true"]},
        {"text": ["a"], "number": ["1"], "flag": [True, "maybe"]},
    ):
        assert find_known(kinds, vocabulary).tolist() == [True, False, True, False, False]
    assert find_known(kinds, None).all()
    assert find_known(kinds, {"text": [], "number": [], "flag": []}).tolist() == [False] * 5


def test_files(tmp_path):
    (tmp_path / "words.csv").write_text("what,level\ncafe,1\nNA,\ncafe,01\n,null\n")
    words = {"what": ["cafe", "NA"], "level": ["1", "01", "null"]}
    assert read_vocabulary(tmp_path / "words.csv") == words
    pq.write_table(pa.table({"what": ["cafe"], "level": [1]}), tmp_path / "words.parquet")
    found = read_vocabulary(tmp_path / "words.parquet")
    assert found == {"what": ["cafe"], "level": ["1"]}


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe,\n", b"a,b\n1\n"])
def test_files_that_cannot_be_read(tmp_path, content):
    if content is not None:
        (tmp_path / "words.csv").write_bytes(content)
    with pytest.raises(tc.InputError, match=r"words.csv: cannot be read; .* vocabulary="):
        read_vocabulary(tmp_path / "words.csv")


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ({}, "'what' has no list"),
        ({"what": [], "how": []}, "'how' has a list, but is no request"),
        ({"what": "food"}, "the vocabulary has str for 'what'; expected a list of values"),
        ({"what": None}, "the vocabulary has NoneType for 'what'"),
        ({"what": [["food"]]}, "the vocabulary has list for 'what'"),
        ({"what": [object()]}, "the vocabulary has list for 'what'"),
    ],
)
def test_attributes_must_have_lists(vocabulary, message):
    rng = np.random.default_rng(1)
    rows = [Row(f"u{i}", 0, *rng.integers(0, 16, 2).tolist(), "a") for i in range(4)]
    with pytest.raises(tc.OptionError, match=message):
        anonymize(read_rows(rows), 2, vocabulary=vocabulary, **UNIT_CELLS)
