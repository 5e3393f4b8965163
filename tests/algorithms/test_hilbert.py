"""Hilbert-based clustering: the curve, the neighbours on it, and the merging."""

import numpy as np
import pytest

from algorithms.test_clustering import sort_naively
from algorithms.test_traj_anon import check_policy
from reference import clustering as naive
from trajcloak.algorithms import build_algorithm, hilbert
from trajcloak.progress import silent
from zoo import (
    Example,
    as_trajectories,
    build_zoo,
    draw_examples,
    draw_uniform,
    draw_walks,
    every_cell,
    needs_jit,
)

ZOO = build_zoo()


def solve(example, cloak="mbr", threads=1):
    cells, height, k = example
    return build_algorithm("hilbert-clustering").solve(cells, height, k, cloak, threads=threads)


@pytest.mark.parametrize("order", range(1, 7))
def test_the_curve_visits_every_cell_once_by_steps_to_a_neighbour(order):
    cells = every_cell(order)
    index = hilbert.build_indexes(cells, order)[:, 0]
    assert sorted(index.tolist()) == list(range(4**order))
    path = cells[np.argsort(index), 0].astype(np.int64)
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()
    assert list(map(tuple, path.tolist())) == naive.hilbert_curve(order)


@pytest.mark.parametrize("order", range(5))
def test_the_slow_twin_finds_places_as_it_lists_them(order):
    curve = naive.hilbert_curve(order)
    assert [naive.hilbert_index(cell, order) for cell in curve] == list(range(4**order))


@pytest.mark.parametrize("height", [7, 13, 24])
def test_indexes_of_fine_grids(height):
    cells = draw_uniform(np.random.default_rng(height), 60, 5, height)
    cells[0], cells[1] = 0, (1 << height) - 1
    indexes = hilbert.build_indexes(cells, height)
    assert indexes.dtype == np.int64
    assert indexes.tolist() == [
        [naive.hilbert_index(cell, height) for cell in t] for t in as_trajectories(cells)
    ]


def find_neighbours(monkeypatch, cells, height, k, threads):
    """The neighbours of each trajectory, nearest first, before clusters are merged."""
    handed = []
    with monkeypatch.context() as patch:
        patch.setattr(
            hilbert, "_merge", lambda found: handed.append(found) or np.arange(len(found))
        )
        hilbert.cluster_along_curve(cells, height, k, threads, silent)
    order = np.argsort(hilbert.build_indexes(cells, height).sum(axis=1), kind="stable")
    neighbours = np.empty_like(handed[0])
    neighbours[order] = order[handed[0]]
    return neighbours.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_are_those_of_a_naive_search(monkeypatch, seed):
    """Short curves and many duplicates: most distances tie."""
    for example in draw_examples([71, seed], 80, most=18, most_k=6, height=2 + 2 * seed):
        expected = naive.hilbert_neighbours(
            as_trajectories(example.cells), example.height, example.k
        )
        for threads in (1, 3):
            actual = find_neighbours(monkeypatch, *example, threads)
            assert actual == expected


def test_neighbours_along_many_instants(monkeypatch):
    """More instants than are summed before a candidate can be rejected."""
    for example in draw_examples(72, 60, most=16, length=5 * hilbert.CHUNK, height=24):
        expected = naive.hilbert_neighbours(
            as_trajectories(example.cells), example.height, example.k
        )
        assert find_neighbours(monkeypatch, *example, 1) == expected


def test_merging_is_the_union_of_what_overlaps():
    rng = np.random.default_rng(73)
    for _ in range(300):
        n = int(rng.integers(2, 25))
        neighbours = rng.integers(0, n, size=(n, int(rng.integers(1, 3)))).astype(np.int32)
        label = hilbert._merge(neighbours)
        expected = naive.merge_overlapping([{t, *row} for t, row in enumerate(neighbours.tolist())])
        assert sorted(map(sorted, expected)) == sorted(
            np.flatnonzero(label == number).tolist() for number in range(label.max() + 1)
        )


def test_merging_by_hand():
    # 0-1, 2-3 and 3-4; 5 with 0.
    assert hilbert._merge(np.array([[1], [0], [3], [4], [3], [0]], np.int32)).tolist() == [
        0, 0, 1, 1, 1, 0,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_clusters_are_those_of_the_slow_twin(seed):
    several = 0
    for example in draw_examples([74, seed], 60, most=24, height=3 + 4 * seed):
        order = sort_naively(example.cells, example.height)
        trajectories = as_trajectories(example.cells[order])
        expected = naive.cluster_hilbert(trajectories, example.height, example.k)
        policy = solve(example)
        check_policy(example, policy)
        bundle = policy.bundle[order]
        actual = [np.flatnonzero(bundle == b).tolist() for b in range(policy.num_bundles)]
        assert sorted(actual) == sorted(map(sorted, expected))
        assert policy.cost() == naive.cost(trajectories, expected)
        several += len(expected) > 1
    assert several >= 20


@needs_jit
def test_threads_change_nothing():
    example = Example(draw_walks(np.random.default_rng(75), 3000, 5, 9), 9, 4)
    one, many = solve(example), solve(example, threads=5)
    assert one.num_bundles > 50
    assert np.array_equal(one.bundle, many.bundle)
    assert np.array_equal(one.cloaks, many.cloaks)
