import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajcloak.kernels.sort import INSERTION_SIZE, build_heap, sift_down, sort_words

LARGEST = 2**64 - 1
SIZES = (0, 1, 2, 3, INSERTION_SIZE - 1, INSERTION_SIZE, INSERTION_SIZE + 1, 100, 257, 1000)


def check_sort(words, start=0, stop=None):
    """Compare with numpy's stable sort, and check that nothing outside is touched."""
    stop = len(words) if stop is None else stop
    order = np.argsort(words[start:stop], kind="stable")
    expected_words = words.copy()
    expected_words[start:stop] = words[start:stop][order]
    payload = np.arange(len(words), dtype=np.int32) * 3 + 1
    expected_payload = payload.copy()
    expected_payload[start:stop] = payload[start:stop][order]
    actual_words, actual_payload = words.copy(), payload.copy()
    spare_words = np.full_like(words, 12345)
    spare_payload = np.full_like(payload, -7)
    sort_words(actual_words, actual_payload, start, stop, spare_words, spare_payload)
    assert np.array_equal(actual_words, expected_words)
    assert np.array_equal(actual_payload, expected_payload)
    # Other threads use the rest of the spare arrays.
    assert (np.delete(spare_words, slice(start, stop)) == 12345).all()
    assert (np.delete(spare_payload, slice(start, stop)) == -7).all()


@pytest.mark.parametrize("size", SIZES)
def test_random_words(size):
    rng = np.random.default_rng(size)
    check_sort(rng.integers(0, LARGEST, size=size, dtype=np.uint64, endpoint=True))


@pytest.mark.parametrize("size", SIZES)
def test_few_distinct_words_stay_in_order(size):
    rng = np.random.default_rng(size)
    words = rng.integers(0, LARGEST, size=3, dtype=np.uint64, endpoint=True)
    check_sort(words[rng.integers(0, 3, size=size)])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("word", [0, 1, 2**63, LARGEST])
def test_all_equal(size, word):
    check_sort(np.full(size, word, np.uint64))


@pytest.mark.parametrize("size", SIZES)
def test_extremes(size):
    rng = np.random.default_rng(size)
    extremes = np.array([0, 1, 2**31, 2**32, 2**63 - 1, 2**63, LARGEST - 1, LARGEST], np.uint64)
    check_sort(rng.choice(extremes, size=size))
    check_sort(np.sort(rng.choice(extremes, size=size))[::-1].copy())


@pytest.mark.parametrize("digit", range(8))
def test_one_digit_varies(digit):
    rng = np.random.default_rng(digit)
    varying = rng.integers(0, 256, size=500, dtype=np.uint64) << np.uint64(8 * digit)
    check_sort(varying | np.uint64(0xA5A5A5A5A5A5A5A5 & ~(0xFF << 8 * digit)))


@pytest.mark.parametrize("constant", range(256))
def test_constant_digits_are_skipped_wherever_they_are(constant):
    rng = np.random.default_rng(constant)
    digits = rng.integers(0, 256, size=(60, 8), dtype=np.uint8)
    for digit in range(8):
        if constant >> digit & 1:
            digits[:, digit] = constant
    check_sort(np.ascontiguousarray(digits).view(np.uint64).ravel())


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (7, 7), (10, 60), (3, 300), (299, 300)])
def test_part_of_an_array(start, stop):
    words = np.random.default_rng(stop).integers(0, 50, size=300, dtype=np.uint64)
    check_sort(words, start, stop)


@given(st.lists(st.integers(0, LARGEST), max_size=120))
def test_any_words(words):
    check_sort(np.array(words, np.uint64))


@pytest.mark.parametrize("seed", range(20))
def test_places_come_out_in_order_of_key_and_then_place(seed):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 6, rng.integers(1, 60)).astype(np.float64)
    heap = rng.permutation(len(keys))
    size = len(heap)
    build_heap(heap, size, keys)
    out = []
    while size:
        out.append(int(heap[0]))
        size -= 1
        heap[0] = heap[size]
        sift_down(heap, size, 0, keys)
    assert out == sorted(range(len(keys)), key=lambda place: (keys[place], place))


def test_a_grown_key_sinks():
    keys = np.array([1.0, 2.0, 3.0, 4.0])
    heap = np.arange(4)
    build_heap(heap, 4, keys)
    keys[0] = 3.5
    sift_down(heap, 4, 0, keys)
    assert heap[0] == 1
