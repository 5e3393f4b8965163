"""Damage to cloaks, one by one; tests name exactly the checks that must notice."""

import json

import pyarrow.parquet as pq
import pytest

from reference.release_by_hand import EDGES, geographic, planar, rectangle_wkb, refresh


def test_cloak_shrunk(find_failed):
    example = planar()
    row = example.bundles[-1]
    row["x_max"] = row["x_min"] + 16.0
    refresh(example)
    assert find_failed(example) == {"locations"}


def test_location_just_outside_a_cloak(find_failed):
    example = planar()
    log_row = next(row for row in example.log if row["user_id"] == example.policy[-1]["user_id"])
    for row in example.log:
        if row["user_id"] == log_row["user_id"] and row["time"] == log_row["time"]:
            row["x"] = example.bundles[-4]["x_max"] + 1e-9
    assert find_failed(example) == {"locations"}


def test_cloak_off_the_grid(find_failed):
    example = planar()
    example.bundles[-1]["x_max"] += 0.25
    refresh(example)
    assert find_failed(example) == {"cloaks"}


def test_cloak_outside_the_region(find_failed):
    example = planar()
    example.bundles[-1]["x_max"] = 1040.0
    refresh(example)
    assert find_failed(example) == {"cloaks", "locations"}


@pytest.mark.parametrize("edge", [float("nan"), float("inf"), 1e308])
def test_cloak_without_bounds(find_failed, edge):
    example = planar()
    example.bundles[-1]["y_max"] = edge
    cost, mean = example.manifest["cost"], example.manifest["mean_cloak_area"]
    refresh(example)
    example.manifest |= {"cost": cost, "mean_cloak_area": mean}
    assert "cloaks" in find_failed(example)


def test_cloak_without_an_area(find_failed):
    example = planar()
    example.bundles[-1]["x_max"] = example.bundles[-1]["x_min"]
    refresh(example)
    assert find_failed(example) == {"cloaks", "locations"}


def test_no_quadrant(find_failed):
    example = planar()
    example.manifest["cloak"] = "quad"
    assert find_failed(example) == {"cloaks"}


def test_semi_quadrant_cut_in_y(find_failed):
    example = planar(cloak="quad", group=lambda _, users: [users])
    for row in example.bundles:
        assert [row[edge] for edge in EDGES] == [0.0, 0.0, 1024.0, 1024.0]
        row["y_max"] = 512.0
    refresh(example)
    assert find_failed(example) == {"cloaks", "locations"}


def test_geometry_differs(find_failed):
    example = planar()
    example.bundles[7]["geometry"] = rectangle_wkb(0.0, 0.0, 16.0, 16.0)
    assert find_failed(example) == {"geometry"}


def test_geometry_is_longer(find_failed):
    example = planar()
    example.bundles[7]["geometry"] += b"\0"
    assert find_failed(example) == {"geometry"}


def change_geo(change):
    """Change the GeoParquet metadata: an object, or its spelling."""

    def damage(paths):
        path = paths.release / "bundles.parquet"
        table = pq.read_table(path)
        spelled = change(json.loads(table.schema.metadata[b"geo"]))
        pq.write_table(table.replace_schema_metadata({"geo": spelled}), path)

    return damage


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        ((), "version", "jane doe"),
        ((), "note", "jane doe"),
        (("columns", "geometry"), "bbox", [10**400, 1, 1, 1]),
        (("columns", "geometry"), "bbox", ["1", "1", "1", "1"]),
        (("columns", "geometry"), "crs", None),
        (("columns", "geometry"), "edges", "spherical"),
        (("columns", "geometry"), "epoch", 2020),
        (("columns", "geometry", "crs"), "remarks", "jane doe"),
        (("columns", "geometry", "crs"), "name", "jane doe"),
    ],
)
def test_geo_metadata_differs(find_failed, place, key, value):
    def change(geo):
        part = geo
        for step in place:
            part = part[step]
        part[key] = value
        return json.dumps(geo)

    assert find_failed(geographic(), change_geo(change)) == {"geometry"}


def test_geo_metadata_with_a_key_twice(find_failed):
    def change(geo):
        return json.dumps(geo).replace("{", '{"version": "jane doe", ', 1)

    assert find_failed(planar(), change_geo(change)) == {"geometry"}
