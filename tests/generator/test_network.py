import numpy as np
import pytest

from reference.routes import reachable
from trajcloak.errors import InputError
from trajcloak.generator.network import build_network

SQUARE = ([0, 3, 3, 0], [0, 0, 4, 4])
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]


def test_both_directions_of_an_edge():
    network = build_network(*SQUARE, RING, classes=[0, 1, 2, 3])
    assert network.starts.tolist() == [0, 2, 4, 6, 8]
    arcs = zip(network.tails, network.heads, network.edges, network.classes, strict=True)
    assert sorted((int(t), int(h)) for t, h, e, c in arcs) == sorted(
        RING + [(v, u) for u, v in RING]
    )
    assert (network.edges == network.classes).all()
    assert (network.num_nodes, network.num_edges, network.extent) == (4, 4, (3.0, 4.0))
    assert network.left_out == 0


def test_one_way_edges():
    network = build_network(*SQUARE, RING, is_one_way=True)
    assert list(zip(network.tails.tolist(), network.heads.tolist(), strict=True)) == RING


def test_lengths_are_never_shorter_than_the_straight_line():
    network = build_network(*SQUARE, RING, lengths=[1, 7, 3, 4])
    lengths = dict(zip(network.edges.tolist(), network.lengths.tolist(), strict=True))
    assert lengths == {0: 3.0, 1: 7.0, 2: 3.0, 3: 4.0}


def test_parallel_edges_stay_and_loops_go():
    network = build_network(*SQUARE, [*RING, (0, 1), (2, 2)], lengths=[3, 4, 3, 4, 9, 1])
    assert network.num_edges == 5
    assert (network.tails != network.heads).all()


def test_largest_component_of_random_graphs():
    rng = np.random.default_rng(11)
    for _ in range(60):
        num_nodes = int(rng.integers(4, 30))
        ends = rng.integers(0, num_nodes, (int(rng.integers(4, 60)), 2))
        arcs = [(int(u), int(v), 1) for u, v in ends]
        from_here = [reachable(num_nodes, arcs, node) for node in range(num_nodes)]
        components = [
            {other for other in from_here[node] if node in from_here[other]}
            for node in range(num_nodes)
        ]
        largest = max(map(len, components))
        x = rng.permutation(num_nodes).astype(float)
        if largest < 4:
            with pytest.raises(InputError, match=rf"has {largest} of its {num_nodes} nodes;"):
                build_network(x, x, ends, is_one_way=True)
            continue
        network = build_network(x, x, ends, is_one_way=True)
        assert network.num_nodes == largest
        assert network.left_out == num_nodes - largest
        kept = {int(np.flatnonzero(x == value)[0]) for value in network.x}
        assert kept in components
        # Nodes keep their order, and arcs their ends.
        assert [int(np.flatnonzero(x == value)[0]) for value in network.x] == sorted(kept)
        assert sorted(
            (x[u], x[v]) for u, v in ends.tolist() if u in kept and v in kept and u != v
        ) == sorted(zip(network.x[network.tails], network.x[network.heads], strict=True))


def test_deep_graphs_need_no_recursion():
    numbers = np.arange(50_000)
    ends = np.stack([numbers[:-1], numbers[1:]], axis=1)
    assert build_network(numbers, numbers, ends).num_nodes == 50_000
