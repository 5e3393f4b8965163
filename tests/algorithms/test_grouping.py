"""Parts made first, and bundles made of them."""

import numpy as np
import pytest

from trajcloak.algorithms import build_algorithm
from trajcloak.algorithms.division import divide_bundles
from trajcloak.algorithms.refined.boxes import empty_boxes
from trajcloak.algorithms.refined.grouping import group_parts
from trajcloak.algorithms.refined.improve import NEIGHBOURS, find_neighbours
from trajcloak.cloaks import build_bounding_boxes, compute_areas
from zoo import EFFORT, build_zoo, draw_uniform, draw_walks, needs_jit

ZOO = build_zoo()
LARGE = "thousands_of_duplicates"
NAMES = [*(name for name in ZOO if name != LARGE), pytest.param(LARGE, marks=pytest.mark.slow)]


def measure(cells, group):
    """Sum the areas of the boxes around groups of trajectories, once for each trajectory."""
    sizes = np.bincount(group)
    boxes = build_bounding_boxes(cells, group.astype(np.int32), len(sizes), 1)
    return float(compute_areas(boxes).sum(axis=1) @ sizes)


def check_policy(policy, k, least):
    """Bundles of at least k, of whole parts of at least ``least``, numbered from 0."""
    assert policy.sizes.min() >= k
    for b in range(policy.num_bundles):
        sizes = np.bincount(policy.part[policy.bundle == b, 0])
        assert sizes.min() >= least


@needs_jit
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cloak", ["mbr", "quad"])
def test_parts_and_bundles_are_large_enough(name, cloak):
    cells, height, k = ZOO[name]
    algorithm = build_algorithm("refined", effort=EFFORT, parts=2)
    policy = algorithm.solve(cells, height, k, cloak)
    check_policy(policy, k, 2)
    again = algorithm.solve(cells, height, k, cloak, threads=3)
    assert (again.bundle == policy.bundle).all()
    assert (again.part == policy.part).all()


@needs_jit
def test_parts_are_those_of_bundles_of_their_size():
    """They depend on the least size of parts, and not on k."""
    cells = draw_walks(np.random.default_rng(1), 400, 6, 10)
    policies = [
        build_algorithm("refined", parts=4).solve(cells, 10, k, "mbr") for k in (10, 40, 400)
    ]
    together = [
        {
            tuple(np.flatnonzero((policy.bundle == b) & (policy.part[:, 0] == p)).tolist())
            for b in range(policy.num_bundles)
            for p in range(policy.part.max() + 1)
        }
        - {()}
        for policy in policies
    ]
    assert together[0] == together[1] == together[2]
    assert policies[2].num_bundles == 1


@needs_jit
@pytest.mark.slow
def test_parts_are_smaller_than_divided_bundles():
    cells = draw_walks(np.random.default_rng(2), 600, 8, 10)
    first = build_algorithm("refined", parts=5).solve(cells, 10, 25, "mbr")
    whole = build_algorithm("refined").solve(cells, 10, 25, "mbr")
    divided = divide_bundles(cells, whole.bundle, whole.num_bundles, 5, "mbr", 1, per_instant=False)
    costs = [
        measure(cells, np.unique(bundle * len(cells) + part[:, 0], return_inverse=True)[1])
        for bundle, part in ((first.bundle, first.part), (whole.bundle, divided))
    ]
    assert costs[0] < costs[1]


@pytest.mark.parametrize("seed", range(10))
def test_near_parts_are_grouped(seed):
    """Cheaper than groups by part number, and of at least k."""
    rng = np.random.default_rng(seed)
    cells = draw_uniform(rng, 240, 3, 8)
    part = np.sort(rng.integers(0, 80, 240)).astype(np.int32)
    part = np.unique(part, return_inverse=True)[1].astype(np.int32)
    # All members of a part are in one place, so that only the grouping counts.
    cells = cells[np.unique(part, return_index=True)[1]][part]
    bundle = group_parts(cells, part, 20, 1)
    assert np.bincount(bundle[part]).min() >= 20
    plainly = np.minimum(np.arange(240) // 20, 11)
    assert measure(cells, bundle[part]) < 0.7 * measure(cells, plainly)


def test_nearest_bundles_are_those_of_a_stable_sort():
    rng = np.random.default_rng(3)
    for count in (1, 2, NEIGHBOURS, NEIGHBOURS + 1, NEIGHBOURS + 2, 90):
        boxes = empty_boxes(count, 2)
        boxes.low[:] = rng.integers(0, 4, boxes.low.shape)
        boxes.high[:] = boxes.low + rng.integers(0, 2, boxes.low.shape).astype(np.uint32)
        middles = (boxes.low.astype(np.float64) + boxes.high).reshape(count, -1)
        distance = ((middles[:, None] - middles) ** 2).sum(axis=-1)
        np.fill_diagonal(distance, np.inf)
        actual = np.empty((count, min(NEIGHBOURS, count - 1)), np.int64)
        find_neighbours(boxes, actual)
        expected = np.argsort(distance, axis=1, kind="stable")[:, : actual.shape[1]]
        assert actual.tolist() == expected.tolist()
