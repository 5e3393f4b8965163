"""With rare="keep", attributes that look like identifiers or places are refused."""

import uuid

import numpy as np
import pyarrow as pa
import pytest

import trajcloak as tc
from runs import anonymize
from small_logs import UNIT_CELLS, Row, read_rows, rows_with_addresses
from trajcloak.log import hold_in_memory
from trajcloak.requests.suspicions import MANY_VALUES, find_suspicions

TOKEN = uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
SPELLED = {
    "e-mail addresses": ["me.too@mail.example.org"],
    "phone numbers": ["+49 170 1234567", "(212) 555-1234", "212-555-1234", "0170 1234567"],
    "network addresses": ["10.0.200.3", "host 10.0.0.3:80", "2001:db8::1:a", "00:1B:44:11:3A:b7"],
    "tokens": [str(TOKEN), TOKEN.hex, f"id={TOKEN}"],
    "web addresses with ids": ["https://a.example/u/12345", "http://a.example/?q=me"],
    "coordinates": ["52.52, 13.40", "geo:52.5200,13.4050", "POINT (13 52)", "52° 31' N"],
    "JSON": ['{"a": 1}', '["a", "b"]', "[1, 2]"],
    "free text": ["so " * 70],
}
ORDINARY = [
    "cafe",
    "fuel",
    "bus stop",
    "7",
    "1.5",
    "3 to 5",
    "A-12",
    "Main St 5",
    "2024-05-06",
    "é",
]


def look(values, shown=None, users=("a", "b")):
    log = hold_in_memory(read_rows([Row(user, 0, 1, 1) for user in users]))
    array = pa.array(values)
    return find_suspicions(log, array, np.ones(len(array)) if shown is None else np.array(shown))


def test_ordinary_values():
    assert look(ORDINARY) == []
    assert look([1, 2, 3]) == look([True, False]) == look([]) == []


@pytest.mark.parametrize("looks_like", SPELLED)
def test_what_is_spelt_like_an_identifier(looks_like):
    for value in SPELLED[looks_like]:
        assert look([*ORDINARY, value]) == [looks_like], value


def test_bytes():
    assert look([b"a"]) == ["bytes, which may mean anything"]


def test_many_sentences_are_free_text():
    sentences = [f"I want to go to number {n}" for n in range(60)]
    assert look(sentences[:40]) == []
    assert look(sentences) == ["free text"]


def test_ids_of_users():
    """A long text is no coincidence; short ones and numbers are, unless there are many."""
    assert look([*ORDINARY, " Person-17 "], users=("person-17", "b")) == ["the ids of 1 users"]
    assert look([*ORDINARY, "b"]) == []
    assert look([1, 2, 1234567], users=(1234567, 2)) == []
    many = list(range(MANY_VALUES + 1))
    assert look(many, [2] * len(many), users=many) == [f"the ids of {len(many)} users"]


def test_near_unique_values():
    """Most of many values are in one set only."""
    many = [f"n{n}" for n in range(MANY_VALUES + 1)]
    once = MANY_VALUES // 2 + 1
    assert look(many, [1] * once + [2] * (len(many) - once)) == ["near-unique values"]
    assert look(many, [2] * once + [1] * (len(many) - once)) == []
    assert look(many[1:], [1] * MANY_VALUES) == []


def test_what_is_refused_can_be_allowed_listed_or_rare():
    log = read_rows(rows_with_addresses())
    options = {**UNIT_CELLS, "rows_alike": True}
    with pytest.raises(tc.InputError) as caught:
        anonymize(log, 3, rare="keep", **options)
    assert "'what' holds e-mail addresses (9 distinct values)" in str(caught.value)
    assert "post.org" not in str(caught.value)
    allowed = anonymize(log, 3, rare="keep", allow=("what",), **options)
    assert allowed.manifest["requests"] == 18
    listed = anonymize(log, 3, rare="keep", vocabulary={"what": ["a@post.org"]}, **options)
    assert listed.manifest["requests"] == 2
    assert anonymize(log, 3, **options).manifest["requests"] == 0
    with pytest.raises(tc.OptionError, match="'when' is allowed but is no request column"):
        anonymize(log, 3, allow=("when",), **options)
