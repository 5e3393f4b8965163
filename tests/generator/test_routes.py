import numpy as np
import pytest

from reference.routes import fastest_times
from trajcloak.generator.roads import arc_times, road_speeds
from trajcloak.generator.routes import (
    NO_ROUTE,
    Graph,
    build_labels,
    build_route_buffers,
    build_routes,
    build_searches,
    find_hub,
    write_route,
)

from .conftest import build_town


def build_graph(num_nodes, arcs):
    """Arcs (tail, head, time) as starts, heads and times, and the arcs in that order."""
    arcs = sorted(arcs, key=lambda arc: arc[0])
    counts = np.bincount([arc[0] for arc in arcs], minlength=num_nodes)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    heads = np.array([arc[1] for arc in arcs], np.int32)
    times = np.array([arc[2] for arc in arcs], np.int64)
    return Graph(starts, heads, times), arcs


def check_all_routes(num_nodes, arcs):
    """Every route has the reference's time, and its arcs lead from start to end."""
    graph, arcs = build_graph(num_nodes, arcs)
    routes, searches = build_routes(graph), build_searches(graph)
    buffers = build_route_buffers(num_nodes)
    room = np.empty(num_nodes, np.int32)
    positions = routes.hierarchy.positions
    for start in range(num_nodes):
        expected = fastest_times(num_nodes, arcs, start)
        for end in range(num_nodes):
            found = []
            ties = int(buffers.ties[0])
            for way in (routes, searches):
                size = write_route(way, buffers, start, end, room)
                found.append(room[:size].tolist())
                if expected[end] is None:
                    assert size == NO_ROUTE
                    continue
                node, total = start, 0
                for arc in room[:size]:
                    assert arcs[arc][0] == node
                    node, total = arcs[arc][1], total + arcs[arc][2]
                assert (node, total) == (end, expected[end])
            if expected[end] is None:
                continue
            assert find_hub(routes, positions[start], positions[end])[1] == expected[end]
            is_only = count_fastest(arcs, expected, end) == 1
            assert (buffers.ties[0] == ties) == is_only
            assert found[0] == found[1] or not is_only


def count_fastest(arcs, times, end):
    """Count the fastest routes to a node, whose times from the start are given; 2 for several."""
    while times[end] > 0:
        last = [a for a in arcs if a[1] == end and times[a[0]] is not None]
        last = [a for a in last if times[a[0]] + a[2] == times[end]]
        if len(last) > 1:
            return 2
        end = last[0][0]
    return 1


def draw_arcs(rng, num_nodes, num_arcs, most, one_way):
    ends = rng.integers(0, num_nodes, (num_arcs, 2))
    times = rng.integers(1, most + 1, num_arcs)
    arcs = [(int(u), int(v), int(t)) for (u, v), t in zip(ends, times, strict=True)]
    if not one_way:
        arcs += [(v, u, time) for u, v, time in arcs]
    return arcs


@pytest.mark.parametrize("one_way", [False, True])
@pytest.mark.parametrize("most", [1, 3, 1000], ids=["ties", "many ties", "few ties"])
def test_random_graphs(one_way, most):
    """Sparse ones fall apart; dense ones have parallel arcs and loops."""
    rng = np.random.default_rng([most, one_way])
    for num_nodes, num_arcs in [(1, 0), (2, 1), (5, 4), (8, 30), (25, 30), (40, 60), (40, 150)]:
        check_all_routes(num_nodes, draw_arcs(rng, num_nodes, num_arcs, most, one_way))


def test_parallel_arcs_and_loops():
    check_all_routes(3, [(0, 1, 9), (0, 1, 2), (1, 1, 1), (1, 2, 5), (1, 2, 5), (2, 0, 1)])


def test_town_of_equal_blocks():
    town = build_town(7, 6)
    times = arc_times(town, 20.0, road_speeds(30))
    arcs = zip(town.tails.tolist(), town.heads.tolist(), times.tolist(), strict=True)
    check_all_routes(town.num_nodes, list(arcs))


def test_long_times_do_not_overflow():
    check_all_routes(4, [(0, 1, 1 << 50), (1, 2, 1 << 50), (2, 3, 1 << 50), (3, 0, 1)])


def test_labels_are_short_and_sorted(city):
    times = arc_times(city, 1000.0, road_speeds(1800))
    routes = build_routes(Graph(city.starts, city.heads, times))
    for labels in build_labels(routes.hierarchy):
        assert labels.hubs.size < 80 * city.num_nodes
        for node in range(0, city.num_nodes, 97):
            hubs = labels.hubs[labels.starts[node] : labels.starts[node + 1]]
            assert (np.diff(hubs) > 0).all()
            assert hubs[-1] == node


def test_routes_in_the_city(city):
    times = arc_times(city, 1000.0, road_speeds(1800))
    arcs = list(zip(city.tails.tolist(), city.heads.tolist(), times.tolist(), strict=True))
    routes = build_routes(Graph(city.starts, city.heads, times))
    buffers, room = (
        build_route_buffers(city.num_nodes),
        np.empty(city.num_nodes, np.int32),
    )
    for start in range(0, city.num_nodes, 400):
        expected = fastest_times(city.num_nodes, arcs, start)
        for end in range(0, city.num_nodes, 7):
            size = write_route(routes, buffers, start, end, room)
            assert times[room[:size]].sum() == expected[end]
