"""Numbering of ids, against a dict."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajcloak.kernels.intern import (
    FIRST_CAPACITY,
    IntegerIds,
    TextIds,
    _hash_integer,
    _hash_text,
    _slot,
)
from zoo import needs_jit

SAME_HASH = ("2DVj0?Q?470", ":EfbAlb4B5m")
"""Two texts with the same 64-bit hash, found by search."""


@pytest.fixture(autouse=True)
def _let_hashes_wrap():
    """Where kernels are not compiled, numpy warns that a product wraps around."""
    with np.errstate(over="ignore"):
        yield


def number_naively(batches):
    """Number of each id in each batch, in order of first appearance, and the ids."""
    known = {}
    numbers = [[known.setdefault(value, len(known)) for value in batch] for batch in batches]
    return numbers, list(known)


def check_integers(batches):
    ids = IntegerIds()
    expected, distinct = number_naively(batches)
    for batch, numbers in zip(batches, expected, strict=True):
        assert np.array_equal(ids.intern(pa.array(batch, pa.int64())), numbers)
    assert ids.distinct().equals(pa.array(distinct, pa.int64()))


def check_texts(batches):
    ids = TextIds()
    expected, distinct = number_naively(batches)
    for batch, numbers in zip(batches, expected, strict=True):
        out = ids.intern(pa.array(batch, pa.large_string()))
        assert np.array_equal(out, numbers)  # a list would make a failure print for minutes
    listed = ids.distinct()
    listed.validate(full=True)
    assert listed.equals(pa.array(distinct, pa.large_string()))


def draw_batches(rng, values):
    """Rows in the orders that logs have: sorted, by user, shuffled, and cut anywhere."""
    rows = [*values, *values]  # the same order again
    rows += [value for value in values[:50] for _ in range(3)]
    rows += [values[i] for i in rng.integers(0, len(values), size=300)]
    rows += values[::-1]
    cuts = sorted(rng.integers(0, len(rows) + 1, size=6).tolist())
    edges = [0, *cuts, len(rows)]
    return [rows[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("seed", range(12))
def test_random_integers(seed):
    rng = np.random.default_rng(seed)
    span = [10, 1000, 2**40, 2**62][seed % 4]
    values = rng.integers(-span, span, size=200).tolist()
    check_integers(draw_batches(rng, values))


@pytest.mark.parametrize("seed", range(12))
def test_random_texts(seed):
    rng = np.random.default_rng(seed)
    letters = np.array(list("ab0-é€😀\x00"))
    values = ["".join(rng.choice(letters, size=rng.integers(0, 2 + seed))) for _ in range(200)]
    check_texts(draw_batches(rng, values))


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=30)))
def test_any_integers(batches):
    check_integers(batches)


@given(st.lists(st.lists(st.text(max_size=4), max_size=30), max_size=8))
def test_any_texts(batches):
    check_texts(batches)


def test_extreme_integers():
    check_integers([[0, -1, 2**63 - 1, -(2**63), 0], [-(2**63), 1, 2**63 - 1, -1]])


def test_nothing():
    check_integers([])
    check_integers([[], [5], []])
    check_texts([])
    check_texts([[], ["x"], []])


def test_empty_text_is_an_id_like_any_other():
    check_texts([["", "a", ""], ["a", "", "b"]])
    check_texts([["", "", ""]])


def test_texts_that_begin_or_end_alike():
    check_texts([["a", "aa", "aaa", "aaaa", "aaa", "aa", "a", ""]])
    check_texts([["user-1", "user-10", "user-100", "ser-1", "er-1", "1-user", "user-"]])
    check_texts([["ab", "a", "b", "c", "bc", "abc", "ab", "bc"]])  # cut differently, same bytes


def test_multi_byte_texts():
    check_texts(
        [["Zürich", "Zu\u0308rich", "東京", "東", "京", "😀", "\U0001f1e8", "Zürich", "京"]]
    )


def test_a_zero_byte_ends_nothing():
    check_texts([["a", "a\x00", "a\x00b", "a\x00\x00", "\x00", "", "a\x00b"]])


@needs_jit
@pytest.mark.parametrize("count", [FIRST_CAPACITY - 1, FIRST_CAPACITY, FIRST_CAPACITY + 1, 40_000])
@pytest.mark.parametrize("in_one_batch", [True, False])
def test_more_integers_than_there_is_room_for(count, in_one_batch):
    rng = np.random.default_rng(count)
    values = rng.permutation(4 * count)[:count].tolist()
    rows = values + values[::-1] + values
    step = len(rows) if in_one_batch else 1777
    check_integers([rows[i : i + step] for i in range(0, len(rows), step)])


@needs_jit
@pytest.mark.parametrize("count", [FIRST_CAPACITY - 1, FIRST_CAPACITY, FIRST_CAPACITY + 1, 40_000])
@pytest.mark.parametrize("in_one_batch", [True, False])
@pytest.mark.parametrize("width", [1, 40])
def test_more_texts_than_there_is_room_for(count, in_one_batch, width):
    # Short ones fill the list of ids first, long ones the buffer of their bytes.
    rng = np.random.default_rng(count)
    values = [f"{number:>{width}x}" for number in rng.permutation(4 * count)[:count].tolist()]
    rows = values + values[::-1] + values
    step = len(rows) if in_one_batch else 1777
    check_texts([rows[i : i + step] for i in range(0, len(rows), step)])


@needs_jit
def test_one_text_larger_than_the_whole_buffer():
    huge = "x" * (40 * FIRST_CAPACITY)
    check_texts([["a", huge, "b", huge + "y", huge, "a", "y" * (400 * FIRST_CAPACITY), "b"]])


@needs_jit
def test_a_full_list_and_a_full_buffer_at_once():
    width = 16  # FIRST_CAPACITY texts of this width fill both
    values = [f"{number:0{width}d}" for number in range(FIRST_CAPACITY)]
    check_texts([values, ["one more", *values], ["x" * 200_000, values[0]]])


def hash_integer(number):
    return _hash_integer(np.int64(number).view(np.uint64))


def hash_text(text):
    data = np.frombuffer(text.encode(), np.uint8)
    return _hash_text(data, 0, len(data))


def same_slot(values, hash_value, slot):
    """Values that a new hash table would put into the same slot."""
    table = np.empty(2 * FIRST_CAPACITY, np.int32)
    return [value for value in values if _slot(np.uint64(hash_value(value)), table) == slot]


@needs_jit
@pytest.mark.parametrize("slot", [0, 2 * FIRST_CAPACITY - 1])
def test_integers_that_share_a_slot(slot):
    crowd = same_slot(range(-80_000, 80_000), hash_integer, slot)
    assert len(crowd) > 10
    check_integers(draw_batches(np.random.default_rng(slot), crowd))


@needs_jit
@pytest.mark.parametrize("slot", [0, 2 * FIRST_CAPACITY - 1])
def test_texts_that_share_a_slot(slot):
    crowd = same_slot([f"u{number}" for number in range(150_000)], hash_text, slot)
    assert len(crowd) > 10
    check_texts(draw_batches(np.random.default_rng(slot), crowd))


def test_texts_that_share_a_hash_stay_two_users():
    first, second = SAME_HASH
    assert hash_text(first) == hash_text(second), "the hash has changed: search for another pair"
    check_texts([[first, second, "x", second, first], [second, "y", first, second]])
    check_texts([[second, "x", "y", first, second]])


@needs_jit
def test_texts_that_share_a_hash_stay_two_users_after_growth():
    others = [f"u{number}" for number in range(2 * FIRST_CAPACITY)]
    check_texts([[*SAME_HASH, *others, *SAME_HASH, *others[::-1], *SAME_HASH]])


@pytest.mark.parametrize(("start", "length"), [(0, 3), (1, 4), (3, 0), (2, 5), (5, 2)])
def test_slices_of_an_array(start, length):
    whole = pa.array(["", "abc", "é", "abc", "abcd", "", "c"], pa.large_string())
    part = whole.slice(start, length)
    ids = TextIds()
    ids.intern(pa.array(["c", "é"], pa.large_string()))
    expected, distinct = number_naively([["c", "é"], part.to_pylist()])
    assert ids.intern(part).tolist() == expected[1]
    assert ids.distinct().to_pylist() == distinct


def test_batches_cut_from_one_array():
    rng = np.random.default_rng(8)
    values = [f"user {number}" for number in rng.integers(0, 40, size=500)]
    whole = pa.array(values, pa.large_string())
    ids = TextIds()
    expected, distinct = number_naively([values])
    numbers = []
    for start in range(0, 500, 37):
        numbers += ids.intern(whole.slice(start, 37)).tolist()
    assert numbers == expected[0]
    assert ids.distinct().to_pylist() == distinct


def test_ids_listed_earlier_stay_as_they_were():
    ids = TextIds()
    ids.intern(pa.array(["a", "b"], pa.large_string()))
    before = ids.distinct()
    ids.intern(pa.array(["c" * 100, "a"], pa.large_string()))
    assert before.to_pylist() == ["a", "b"]
    assert ids.distinct().to_pylist() == ["a", "b", "c" * 100]
