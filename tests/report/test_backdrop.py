"""Streets and outlines lie where the cloaks do."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from runs import anonymize
from trajcloak.log import read_in_memory
from trajcloak.options import WGS84
from trajcloak.query import open_published
from trajcloak.report.backdrop import STEPS, build_backdrop, clip_lines, read_outline

EDGES = "edge,u,v\n1,1,2\n2,2,3\n3,3,4\n4,4,1\n"


def write_network(folder, nodes):
    folder.mkdir()
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(EDGES)
    return folder


@pytest.fixture
def in_degrees(tmp_path):
    """A release of a log in degrees."""
    lon = [10 + i % 7 / 100 for i in range(40)]
    lat = [50 + i % 11 / 100 for i in range(40)]
    table = pa.table({"user_id": range(40), "time": [0] * 40, "lon": lon, "lat": lat})
    pq.write_table(table, tmp_path / "log.parquet")
    anonymize(read_in_memory(tmp_path / "log.parquet"), 3).write(tmp_path / "release")
    return open_published(tmp_path / "release")


def to_places(release, backdrop):
    """The ends of the lines in the release's coordinates."""
    region = release.manifest["region"]
    corner = [region["x_min"], region["y_min"]] * 2
    return backdrop.ends * (region["side"] / STEPS) + corner


def test_nothing_asked_for(release):
    assert build_backdrop(release, None, None) is None


def test_streets(release, tmp_path):
    nodes = "node,x,y\n1,10,10\n2,300,10\n3,300,300\n4,10,300\n"
    backdrop = build_backdrop(release, write_network(tmp_path / "net", nodes), None)
    assert backdrop.words == "Streets: 4 roads."
    found = to_places(release, backdrop)
    assert found.min(axis=0) == pytest.approx([10, 10, 10, 10], abs=0.1)
    assert found.max(axis=0) == pytest.approx([300, 300, 300, 300], abs=0.1)


def test_streets_elsewhere(release, tmp_path):
    nodes = "node,x,y\n1,1e7,1e7\n2,3e7,1e7\n3,3e7,3e7\n4,1e7,3e7\n"
    with pytest.raises(tc.InputError, match="nothing of it lies inside the release's region"):
        build_backdrop(release, write_network(tmp_path / "net", nodes), None)


def test_degrees_are_projected_as_the_release_is(in_degrees, tmp_path):
    """Not around the middle of the network."""
    nodes = "node,lon,lat\n1,10.0,50.0\n2,10.06,50.0\n3,10.06,50.02\n4,10.0,50.02\n"
    outline = tmp_path / "outline.geojson"
    line = {"type": "LineString", "coordinates": [[10.0, 50.0], [10.06, 50.02]]}
    outline.write_text(json.dumps(line))
    ((x, y),) = in_degrees.place_points([(10.0, 50.0)], WGS84)
    network = write_network(tmp_path / "net", nodes)
    for sources in ((network, None), (None, outline)):
        found = to_places(in_degrees, build_backdrop(in_degrees, *sources))
        assert found[:, :2].min(axis=0) == pytest.approx([x, y], abs=1)


def test_every_kind_of_geometry(release, tmp_path):
    line, ring = [[1, 1], [2, 2], [3, 1, 99]], [[0, 0], [9, 0], [9, 9], [0, 0]]
    geometries = [
        {"type": "LineString", "coordinates": line},
        {"type": "MultiLineString", "coordinates": [line, line]},
        {"type": "Polygon", "coordinates": [ring, ring]},
        {"type": "MultiPolygon", "coordinates": [[ring], [ring, ring]]},
        {"type": "Point", "coordinates": [5, 5]},
    ]
    features = [{"type": "Feature", "geometry": g, "properties": {}} for g in geometries]
    features += [{"type": "Feature", "geometry": None}]
    features += [{"type": "GeometryCollection", "geometries": geometries}]
    file = tmp_path / "outline.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    once = 3 * 2 + 5 * 3
    assert read_outline(file, release).shape == (2 * once, 4)
    assert build_backdrop(release, None, file).words == f"Outline: {2 * once} lines."


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read as GeoJSON"),
        ("[]", "cannot be read as GeoJSON"),
        ("[" * 100_000, "cannot be read as GeoJSON"),
        ('{"type": "LineString", "coordinates": [[1, "a"], [2, 2]]}', "cannot be read as GeoJSON"),
        ('{"type": "LineString", "coordinates": [[1], [2]]}', "holds no line"),
        ('{"type": "Point", "coordinates": [1, 2]}', "holds no line"),
        ('{"type": "LineString", "coordinates": [[1e9, 1], [2e9, 2]]}', "nothing of it lies"),
    ],
)
def test_outlines_that_are_none(release, tmp_path, text, says):
    file = tmp_path / "outline.geojson"
    file.write_text(text)
    with pytest.raises(tc.InputError, match=says):
        build_backdrop(release, None, file)


numbers = st.integers(-20, 30).map(float)


@given(st.lists(st.tuples(numbers, numbers, numbers, numbers), min_size=1, max_size=8))
def test_lines_are_cut_off_at_the_edges(drawn):
    """Against many points of each line."""
    ends = np.array(drawn)
    cut, kept = clip_lines(ends, 10)
    assert ((cut >= 0) & (cut <= 10)).all()
    for i, (x0, y0, x1, y1) in enumerate(drawn):
        shares = np.linspace(0, 1, 301)
        points = np.stack([x0 + (x1 - x0) * shares, y0 + (y1 - y0) * shares], axis=1)
        inside = points[((points > 1e-9) & (points < 10 - 1e-9)).all(axis=1)]
        if len(inside):
            (row,) = np.flatnonzero(kept == i)
            low, high = np.sort(cut[row].reshape(2, 2), axis=0)
            assert (inside >= low - 1e-9).all()
            assert (inside <= high + 1e-9).all()
