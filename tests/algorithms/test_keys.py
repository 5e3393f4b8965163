"""Key order and common prefixes, against bit strings that Python sorts."""

from itertools import pairwise

import numpy as np
import pytest

from trajcloak.algorithms.traj_anon.keys import build_layout, sort_keys
from zoo import (
    as_keys,
    build_zoo,
    draw_clustered,
    draw_duplicates,
    draw_uniform,
    draw_walks,
    flip_last_bits,
    needs_jit,
)

ZOO = build_zoo()


def sort_naively(keys):
    """Order of the keys, ties by row, and how many bits each shares with the one before."""
    order = sorted(range(len(keys)), key=lambda row: keys[row])
    common = [-1]
    for before, row in pairwise(order):
        depth = 0
        while depth < len(keys[row]) and keys[before][depth] == keys[row][depth]:
            depth += 1
        common.append(depth)
    return order, common


def check_order(cells, height, threads):
    expected_order, expected_common = sort_naively(as_keys(cells, height))
    actual = sort_keys(cells, build_layout(cells.shape[1], height), threads)
    assert actual.order.dtype == actual.common.dtype == np.int32
    assert np.array_equal(actual.order, expected_order)
    assert np.array_equal(actual.common, expected_common)


def test_layout_of_two_instants_and_two_levels():
    layout = build_layout(length=2, height=2)
    x1, y1, x2, y2 = 0, 1, 2, 3
    assert layout.column.tolist() == [x1, x2, y1, y2, x1, x2, y1, y2]
    assert layout.shift.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert layout.num_bits == 8


def test_uniform_prefixes_are_quadrants_and_semi_quadrants():
    length, height = 5, 3
    layout = build_layout(length, height)
    for halvings in range(2 * height + 1):
        fixed = np.bincount(layout.column[: halvings * length], minlength=2 * length)
        assert fixed[0::2].tolist() == [(halvings + 1) // 2] * length
        assert fixed[1::2].tolist() == [halvings // 2] * length


@pytest.mark.parametrize("seed", range(6))
def test_random_keys(seed):
    rng = np.random.default_rng([7, seed])
    for number in range(60):
        n = int(rng.integers(1, 50))
        length = int(rng.integers(1, 41))
        height = int(rng.integers(1, 25))
        if number % 2:  # short keys, with many ties
            length, height = 1 + length // 12, 1 + height // 8
        sort = number % 5
        if sort == 0:
            cells = draw_uniform(rng, n, length, height)
        elif sort == 1:
            cells = draw_duplicates(rng, n, length, height, int(rng.integers(1, 6)))
        elif sort == 2:
            base = draw_uniform(rng, int(rng.integers(1, 4)), length, height)
            cells = flip_last_bits(rng, base, n)
        elif sort == 3:
            cells = draw_clustered(rng, n, length, height, spread=int(rng.integers(1, 9)))
        else:
            cells = draw_walks(rng, n, length, height)
        check_order(cells, height, threads=int(rng.integers(1, 9)))


@needs_jit
@pytest.mark.parametrize("name", ZOO)
def test_zoo(name):
    cells, height, _ = ZOO[name]
    check_order(cells, height, threads=2)


@pytest.mark.parametrize("bits", [62, 64, 66, 126, 128, 130])
def test_keys_that_end_near_the_edge_of_a_word(bits):
    rng = np.random.default_rng(bits)
    length, height = (1, bits // 2) if bits <= 62 else (bits // 2, 1)
    base = draw_uniform(rng, 3, length, height)
    cells = flip_last_bits(rng, base, 45)
    assert build_layout(length, height).num_bits == bits
    check_order(cells, height, threads=1)


@needs_jit
@pytest.mark.parametrize("distinct", [1, 3, 200, 5000])
@pytest.mark.parametrize(("length", "height"), [(9, 11), (20, 16)], ids=["4 words", "10 words"])
def test_thousands_of_keys_with_any_number_of_threads(distinct, length, height):
    rng = np.random.default_rng(distinct)
    cells = flip_last_bits(rng, draw_uniform(rng, distinct, length, height), 5000)
    layout = build_layout(length, height)
    one = sort_keys(cells, layout, 1)
    bits = (cells.reshape(5000, -1)[:, layout.column] >> layout.shift) & 1
    # lexsort takes the last row as the first key, and is stable.
    order = np.lexsort(bits.T[::-1])
    assert np.array_equal(one.order, order)
    differs = bits[order[1:]] != bits[order[:-1]]
    common = np.where(differs.any(axis=1), differs.argmax(axis=1), layout.num_bits)
    assert np.array_equal(one.common[1:], common)
    for threads in (2, 3, 8, 33):
        many = sort_keys(cells, layout, threads)
        assert np.array_equal(many.order, one.order)
        assert np.array_equal(many.common, one.common)


def test_equal_keys_stay_in_row_order():
    cells = np.array([[[1, 0]], [[0, 1]], [[1, 0]], [[0, 1]], [[1, 0]]], np.uint32)
    keys = sort_keys(cells, build_layout(1, 1), 1)
    assert keys.order.tolist() == [1, 3, 0, 2, 4]
    assert keys.common.tolist() == [-1, 2, 0, 2, 2]


def test_input_is_left_as_it_was():
    cells = draw_uniform(np.random.default_rng(3), 50, 2, 4)
    before = cells.copy()
    sort_keys(cells, build_layout(2, 4), 2)
    assert np.array_equal(cells, before)
