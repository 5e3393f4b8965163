from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from reference.partitions import group_cloaks
from trajcloak.cloaks import (
    X_START,
    X_STOP,
    Y_START,
    Y_STOP,
    build_bounding_boxes,
    build_cloaks,
    build_covering_quads,
    compute_areas,
    compute_union_areas,
    order_by_cloaks,
)
from trajcloak.kernels.sort import group_by_number
from zoo import as_trajectories, draw_uniform

LARGEST = 2**32 - 1


def draw_bundles(rng, n, num_bundles, suppressed):
    """Bundles with at least one member each, and some trajectories in none."""
    bundle = rng.integers(-1 if suppressed else 0, num_bundles, size=n).astype(np.int32)
    bundle[rng.permutation(n)[:num_bundles]] = np.arange(num_bundles)
    return bundle


def sort_naively(cloaks, sizes):
    keys = [
        (tuple(sequence.ravel().tolist()), int(size))
        for sequence, size in zip(cloaks, sizes, strict=True)
    ]
    return sorted(range(len(keys)), key=lambda number: keys[number])


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("suppressed", [False, True])
def test_bounding_boxes(threads, suppressed):
    rng = np.random.default_rng([threads, suppressed])
    for _ in range(40):
        length, height = int(rng.integers(1, 6)), int(rng.integers(1, 10))
        n = int(rng.integers(1, 40))
        num_bundles = int(rng.integers(1, n + 1))
        cells = draw_uniform(rng, n, length, height)
        bundle = draw_bundles(rng, n, num_bundles, suppressed)
        boxes = build_bounding_boxes(cells, bundle, num_bundles, threads)
        assert boxes.dtype == np.uint32
        trajectories = as_trajectories(cells)
        for number in range(num_bundles):
            members = np.flatnonzero(bundle == number).tolist()
            expected = group_cloaks(trajectories, members, height, "box")
            assert boxes[number].tolist() == [
                [c.x0, c.y0, c.x0 + c.width, c.y0 + c.height] for c in expected
            ]


def test_a_box_at_the_edges_of_the_largest_grid():
    far = (1 << 31) - 1
    cells = np.array([[[0, far]], [[far, 0]], [[far, far]]], np.uint32)
    boxes = build_bounding_boxes(cells, np.array([0, 0, 1], np.int32), 2, 1)
    assert boxes.tolist() == [[[0, 0, far + 1, far + 1]], [[far, far, far + 1, far + 1]]]


def test_no_boxes():
    cells = np.zeros((3, 2, 2), np.uint32)
    boxes = build_bounding_boxes(cells, np.full(3, -1, np.int32), 0, 2)
    assert boxes.shape == (0, 2, 4)


def as_rows(cloaks):
    return [[c.x0, c.y0, c.x0 + c.width, c.y0 + c.height] for c in cloaks]


@pytest.mark.parametrize("height", [1, 2, 3, 5, 24])
def test_covering_quads(height):
    rng = np.random.default_rng(height)
    for _ in range(40):
        n, length = int(rng.integers(1, 8)), int(rng.integers(1, 4))
        # Some spread out, some so near to each other that small cloaks hold them.
        cells = draw_uniform(rng, n, length, height)
        if rng.random() < 0.6:
            spread = draw_uniform(rng, n, length, int(rng.integers(1, height + 1)))
            cells = np.minimum(cells[:1] + spread // 2, (1 << height) - 1).astype(np.uint32)
        bundle = draw_bundles(rng, n, int(rng.integers(1, n + 1)), suppressed=False)
        num_bundles = int(bundle.max()) + 1
        cover = build_covering_quads(build_bounding_boxes(cells, bundle, num_bundles, 1))
        assert cover.dtype == np.uint32
        trajectories = as_trajectories(cells)
        for number in range(num_bundles):
            members = np.flatnonzero(bundle == number).tolist()
            expected = group_cloaks(trajectories, members, height, "semi-quadrant")
            assert cover[number].tolist() == as_rows(expected)
        assert np.array_equal(build_cloaks(cells, bundle, "quad", 2), cover)
        assert np.array_equal(
            build_cloaks(cells, bundle, "mbr", 2),
            build_bounding_boxes(cells, bundle, num_bundles, 1),
        )


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ([5, 2, 6, 3], [5, 2, 6, 3]),
        ([4, 2, 5, 4], [4, 2, 5, 4]),  # two cells of a column: a quadrant cut in x
        ([4, 2, 6, 3], [4, 2, 6, 4]),  # two cells of a row: there is no cut in y
        ([5, 2, 7, 3], [4, 0, 8, 4]),  # one step across an edge
        ([4, 3, 5, 5], [4, 0, 8, 8]),
        ([0, 3, 4, 5], [0, 0, 4, 8]),
        ([3, 0, 5, 1], [0, 0, 8, 8]),
        ([0, 0, 8, 8], [0, 0, 8, 8]),
        ([0, 0, 2**24, 2**24], [0, 0, 2**24, 2**24]),
        ([2**24 - 1, 0, 2**24, 2**24], [2**23, 0, 2**24, 2**24]),
        ([2**31 - 1] * 2 + [2**31] * 2, [2**31 - 1] * 2 + [2**31] * 2),
    ],
)
def test_covering_quads_by_hand(box, expected):
    assert build_covering_quads(np.array([[box]], np.uint32)).tolist() == [[expected]]


def test_quads_cover_themselves():
    rng = np.random.default_rng(6)
    boxes = build_bounding_boxes(draw_uniform(rng, 90, 3, 8), np.arange(90, dtype="i4") // 3, 30, 1)
    before = boxes.copy()
    cover = build_covering_quads(boxes)
    assert np.array_equal(boxes, before)
    assert np.array_equal(build_covering_quads(cover), cover)


def test_no_quads():
    assert build_covering_quads(np.empty((0, 3, 4), np.uint32)).shape == (0, 3, 4)


@given(
    st_numpy.arrays(np.int32, st.integers(0, 60), elements=st.integers(-1, 7)), st.integers(8, 10)
)
def test_members_are_listed_bundle_after_bundle(bundle, num_bundles):
    members, first = group_by_number(bundle, num_bundles)
    assert len(first) == num_bundles + 1
    assert first[0] == 0
    assert first[-1] == len(members)
    for number in range(num_bundles):
        expected = [row for row, other in enumerate(bundle) if other == number]
        assert members[first[number] : first[number + 1]].tolist() == expected


def test_members_of_no_bundles():
    members, first = group_by_number(np.full(4, -1, np.int32), 0)
    assert members.tolist() == []
    assert first.tolist() == [0]


@pytest.mark.parametrize("largest", [1, 3, 300, 70_000, LARGEST])
def test_order_is_that_of_tuples(largest):
    rng = np.random.default_rng(largest)
    for _ in range(30):
        shape = (int(rng.integers(0, 40)), int(rng.integers(1, 5)), 4)
        cloaks = rng.integers(0, largest, size=shape, dtype=np.uint32, endpoint=True)
        cloaks = cloaks[rng.integers(0, len(cloaks), size=len(cloaks))] if len(cloaks) else cloaks
        sizes = rng.integers(1, 4, size=len(cloaks)).astype(np.int32)
        assert order_by_cloaks(cloaks, sizes).tolist() == sort_naively(cloaks, sizes)


@given(
    st.integers(1, 3).flatmap(
        lambda length: st_numpy.arrays(
            np.uint32,
            st.tuples(st.integers(0, 12), st.just(length), st.just(4)),
            elements=st.integers(0, 2) | st.integers(0, LARGEST),
        )
    ),
    st.integers(0, 2**32 - 1),
)
def test_order_of_any_cloaks_is_that_of_tuples(cloaks, seed):
    sizes = np.random.default_rng(seed).integers(1, 2**31 - 1, size=len(cloaks)).astype(np.int32)
    assert order_by_cloaks(cloaks, sizes).tolist() == sort_naively(cloaks, sizes)


def test_order_of_no_bundles():
    assert order_by_cloaks(np.empty((0, 3, 4), np.uint32), np.empty(0, np.int32)).tolist() == []


def test_order_goes_instant_by_instant_and_x_before_y():
    small = [[1, 2, 3, 4], [0, 0, 9, 9]]
    cloaks = np.array(
        [
            [[1, 2, 3, 4], [0, 0, 9, 10]],
            [[1, 2, 3, 5], [0, 0, 1, 1]],
            [[1, 3, 2, 4], [0, 0, 1, 1]],
            [[2, 0, 3, 1], [0, 0, 1, 1]],
            small,
            small,
        ],
        np.uint32,
    )
    sizes = np.array([1, 1, 1, 1, 300, 7], np.int32)
    assert order_by_cloaks(cloaks, sizes).tolist() == [5, 4, 0, 1, 2, 3]


def test_order_does_not_depend_on_the_order_that_bundles_come_in():
    rng = np.random.default_rng(4)
    cloaks = rng.integers(0, 3, size=(3000, 2, 4), dtype=np.uint32)
    sizes = rng.integers(2, 5, size=3000).astype(np.int32)
    order = order_by_cloaks(cloaks, sizes)
    shuffle = rng.permutation(3000)
    again = order_by_cloaks(cloaks[shuffle], sizes[shuffle])
    assert np.array_equal(cloaks[shuffle][again], cloaks[order])
    assert np.array_equal(sizes[shuffle][again], sizes[order])


def test_areas():
    rng = np.random.default_rng(5)
    corner = rng.integers(0, 2**23, size=(20, 3, 2), dtype=np.uint32)
    extent = rng.integers(1, 2**24, size=(20, 3, 2), dtype=np.uint32)
    cloaks = np.concatenate([corner, corner + extent], axis=2)
    expected = [
        [(c[X_STOP] - c[X_START]) * (c[Y_STOP] - c[Y_START]) for c in sequence]
        for sequence in cloaks.tolist()
    ]
    assert compute_areas(cloaks).tolist() == expected
    assert compute_areas(np.array([[[0, 0, 2**24, 2**24]]], np.uint32)).tolist() == [[2**48]]


def test_areas_of_unions():
    """Against marking the cells, for sets of one to five rectangles."""
    rng = np.random.default_rng(31)
    counts = rng.integers(1, 6, size=400)
    corners = np.sort(rng.integers(0, 12, size=(counts.sum(), 2, 2)), axis=1)
    corners[:, 1] += 1
    rectangles = corners.reshape(-1, 4).astype(np.uint32)
    first = np.concatenate([[0], np.cumsum(counts)])
    expected = []
    for start, stop in pairwise(first):
        cells = np.zeros((13, 13), np.bool_)
        for x_start, y_start, x_stop, y_stop in rectangles[start:stop]:
            cells[x_start:x_stop, y_start:y_stop] = True
        expected.append(cells.sum())
    assert compute_union_areas(rectangles, first, threads=2).tolist() == expected
