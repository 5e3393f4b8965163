import numpy as np
import pytest

from trajcloak.errors import InputError
from trajcloak.generator.network import build_network
from trajcloak.generator.roads import (
    TICKS_PER_STEP,
    arc_times,
    build_metrics,
    object_speeds,
    road_speeds,
    top_speed,
)

from .conftest import build_town


@pytest.mark.parametrize(("speed", "expected"), [("slow", 9), ("middle", 46), ("fast", 230)])
def test_top_speed_is_a_share_of_the_extent(town, speed, expected):
    assert town.extent == (1400, 900)
    assert top_speed(town, speed) == expected


def test_small_networks_are_refused():
    degrees = build_town(5, 5, step=0.001)
    with pytest.raises(InputError, match=r"add up to 0\.008; expected at least 250; .*in metres"):
        top_speed(degrees, "middle")


def test_speeds_of_the_original_generator():
    assert object_speeds(1009, 6).tolist() == [1009, 504.5, 252.25, 126.125, 63.0625, 31.53125]
    assert road_speeds(1009).tolist() == [1009, 672, 448, 298, 198, 132, 88, 58]


def test_slow_roads_still_move():
    assert road_speeds(2).min() == 1


def test_times_are_rounded_up():
    network = build_network([0, 3, 3, 0], [0, 0, 4, 4], [(0, 1), (1, 2), (2, 3), (3, 0)])
    times = arc_times(network, 7.0, road_speeds(9))
    assert set(times.tolist()) == {
        -(-3 * TICKS_PER_STEP // 7),
        -(-4 * TICKS_PER_STEP // 7),
    }


def test_edge_without_length_takes_a_tick():
    network = build_network([0, 0, 3, 3], [0, 0, 4, 0], [(0, 1), (1, 2), (2, 3), (3, 0)])
    assert arc_times(network, 5.0, road_speeds(9)).min() == 1


def test_classes_slower_than_all_roads_share_their_routes(town):
    limits = road_speeds(900)
    # Roads of classes 0 and 3 allow 900 and 266.
    metrics = build_metrics(town, object_speeds(900, 5), limits)
    assert metrics.tolist() == [0, 1, 2, 2, 2]


def test_one_road_class_has_one_metric():
    ring = build_network([0, 9, 9, 0], [0, 0, 9, 9], [(0, 1), (1, 2), (2, 3), (3, 0)], classes=5)
    metrics = build_metrics(ring, object_speeds(1000, 8), road_speeds(1000))
    assert np.unique(metrics).tolist() == [0]
