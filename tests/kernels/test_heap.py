import numpy as np
import pytest

from trajcloak.kernels.heap import build_heap, sift_down, sift_up


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


@pytest.mark.parametrize("seed", range(20))
def test_a_heap_can_be_filled_one_by_one(seed):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 6, rng.integers(1, 60)).astype(np.float64)
    heap = np.empty(len(keys), np.int64)
    for size, place in enumerate(rng.permutation(len(keys))):
        heap[size] = place
        sift_up(heap, size, keys)
        inside = heap[: size + 1]
        assert heap[0] == min(inside.tolist(), key=lambda place: (keys[place], place))
