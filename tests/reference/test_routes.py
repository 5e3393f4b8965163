from reference.routes import fastest_times, reachable


def test_by_hand():
    arcs = [(0, 1, 4), (0, 2, 1), (2, 1, 2), (1, 3, 5), (2, 1, 9), (4, 0, 1)]
    assert fastest_times(5, arcs, 0) == [0, 3, 1, 8, None]
    assert reachable(5, arcs, 0) == {0, 1, 2, 3}
    assert reachable(5, arcs, 3) == {3}
