"""Projection, region and cells."""

import math
import re
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import trajcloak as tc
from runs import anonymize
from small_logs import Row, new_folder, read_rows
from trajcloak.engines.engine import MemoryEngine
from trajcloak.log import hold_in_memory, read_in_memory
from trajcloak.log.clean import check_misplaced
from trajcloak.log.sharded_log import build_shard
from trajcloak.space import (
    Region,
    check_cells,
    choose_projection,
    choose_region,
    default_height,
    find_cell,
    fit_region,
    place_log,
)
from zoo import examples

BERLIN = (13.40, 52.52)
MANY = settings(examples(300), derandomize=True)

coordinates = st.one_of(
    st.floats(-1e12, 1e12, allow_subnormal=False),
    st.floats(-1, 1).map(lambda part: 4e6 + part),
    st.floats(-1e-6, 1e-6).map(lambda part: -7.3e9 + part),
    st.integers(-(2**40), 2**40).map(float),
    st.sampled_from([0.0, -0.0, 1e-300, -1e-300, 0.1, 1 / 3, 2.0**-40]),
)


def read_degrees(lon, lat):
    """Read a log of longitudes and latitudes, one row per user."""
    n = len(lon)
    table = pa.table({"user_id": range(n), "time": [0] * n, "lon": list(lon), "lat": list(lat)})
    with new_folder() as folder:
        pq.write_table(table, folder / "log.parquet")
        return read_in_memory(folder / "log.parquet", threads=1)


class Placed(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    region: Region
    crs: str | None


def place(log, height=None, region=None, threads=1):
    """Project a log, and choose its region."""
    whole = hold_in_memory(log, MemoryEngine(threads))
    if region is None:
        check_misplaced(whole)
    placed, crs, bounds = place_log(whole)
    region = choose_region(placed, bounds, height=height, region=region, in_metres=crs is not None)
    return Placed(*build_shard(placed.shards[0]).plane, region, crs)


def city(n=300, seed=3, spread=0.05):
    rng = np.random.default_rng(seed)
    return [centre + spread * rng.uniform(-1, 1, size=n) for centre in BERLIN]


@MANY
@given(st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=6), st.booleans())
@example([(0.0, 0.0)], False)
@example([(1e12, -1e12)], True)
def test_the_region_holds_every_location_strictly_inside(places, in_metres):
    x, y = zip(*places, strict=True)
    region = fit_region((min(x), min(y), max(x), max(y)), None, in_metres=in_metres)
    assert region.x_min < min(x)
    assert max(x) < region.x_min + region.side
    assert region.y_min < min(y)
    assert max(y) < region.y_min + region.side
    # Corner and side are whole numbers of a power of two, a thousandth of the side.
    granule = 2.0 ** math.floor(math.log2(region.side)) / 2048
    for value in (region.x_min, region.y_min, region.side):
        assert value % granule == 0
    assert region.side > 100 * granule


@MANY
@given(
    st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=6),
    st.integers(1, 24),
    st.booleans(),
)
@example([(0.1, 0.2), (0.3, 0.7)], 16, False)
def test_every_location_is_inside_the_published_edges_of_its_cell(places, height, in_metres):
    x, y = zip(*places, strict=True)
    region = fit_region((min(x), min(y), max(x), max(y)), height, in_metres=in_metres)
    check_points_in_cells(region, [*x], [*y])


@MANY
@given(
    coordinates,
    coordinates,
    st.floats(1e-3, 1e9),
    st.integers(1, 24),
    st.lists(st.floats(0, 1, exclude_min=True, exclude_max=True), min_size=1, max_size=4),
    st.lists(st.integers(0, 2**24), max_size=4),
)
@example(0.1, -0.7, 0.3, 24, [1 / 3], [1, 3, 7])
@example(4e6, 4e6, 1e-3, 16, [0.5], [1])
def test_cells_of_any_region_that_a_caller_chooses(x_min, y_min, side, height, shares, cells):
    region = Region(x_min, y_min, side, height)
    try:
        check_cells(region)
    except tc.OptionError:
        assume(False)
    values = [[], []]
    for axis, low in ((0, x_min), (1, y_min)):
        for share in shares:
            values[axis].append(low + share * side)
        edges = region.edges(axis, np.array([cell % 2**height for cell in cells], np.uint32))
        for edge in edges.tolist():
            values[axis] += [edge, math.nextafter(edge, -math.inf), math.nextafter(edge, math.inf)]
        values[axis] = [v for v in values[axis] if low < v < low + side]
    check_points_in_cells(region, *values)


def check_points_in_cells(region, x, y):
    num_cells = 1 << region.height
    for axis, low, values in ((0, region.x_min, x), (1, region.y_min, y)):
        for value in values:
            cell = int(find_cell(value, low, region.cell, num_cells))
            assert 0 <= cell < num_cells
            start, stop = region.edges(axis, np.array([cell, cell + 1], np.uint32)).tolist()
            assert start <= value <= stop


def test_edges_of_a_region_by_hand():
    region = Region(-8.0, 4.0, 16.0, 4)
    assert region.cell == 1.0
    assert region.edges(0, np.array([0, 3, 16], np.uint32)).tolist() == [-8.0, -5.0, 8.0]
    assert region.edges(1, np.array([0, 16], np.uint32)).tolist() == [4.0, 20.0]
    assert [find_cell(v, -8.0, 1.0, 16) for v in (-7.5, -7.0, 0.0, 7.999)] == [0, 1, 8, 15]


@pytest.mark.parametrize(
    ("side", "height"), [(1, 1), (10, 1), (20, 1), (20.1, 2), (80, 3), (10_240, 10), (10_241, 11)]
)
def test_default_height_in_metres_is_the_least_with_cells_of_10_m(side, height):
    assert default_height(side, in_metres=True) == height
    assert default_height(side, in_metres=False) == 16


def test_default_heights_of_logs():
    places = place(read_degrees(*city()))
    assert places.region.cell <= 10.0 < 2 * places.region.cell
    assert place(read_rows([Row("a", 0, 1, 1), Row("b", 0, 5e6, 1)])).region.height == 16
    assert place(read_rows([Row("a", 0, 1, 1)]), height=5).region.height == 5


@pytest.mark.parametrize("height", [0, -1, 25])
def test_heights_that_cannot_be_used(height):
    with pytest.raises(tc.OptionError, match=rf"height is {height}; expected .*height="):
        anonymize(read_rows([Row("a", 0, 1, 1)]), 2, height=height)


def test_cells_too_fine_for_their_edges_to_differ_are_refused():
    rows = [Row("a", 0, 1e9, 1e9), Row("b", 0, 1e9, 1e9)]
    with pytest.raises(tc.OptionError, match="height is 24, which makes cells smaller than"):
        place(read_rows(rows), height=24)
    assert place(read_rows(rows)).region.cell > 4 * math.ulp(1e9)


def test_the_projection_is_centred_on_the_middle_of_the_bounding_box():
    lon, lat = [13.0, 13.1, 13.8125], [52.0, 52.9, 52.1]
    crs = place(read_degrees(lon, lat)).crs
    found = dict(re.findall(r"\+(\w+)=(\S+)", crs))
    assert found == {
        "proj": "laea", "lat_0": "52.45", "lon_0": "13.41", "datum": "WGS84", "units": "m",
    }  # fmt: skip
    operation = pyproj.CRS(crs).coordinate_operation
    assert operation.method_name == "Lambert Azimuthal Equal Area"
    assert place(read_rows([Row("a", 0, 1, 1)])).crs is None


@pytest.mark.parametrize("lon", [-179.0, -58.4, 13.4, 151.2])
@pytest.mark.parametrize("lat", [-89.0, -54.8, -33.9, 0.0, 37.8, 69.6])
@pytest.mark.parametrize("size", [0.002, 0.5])
def test_areas_are_right(lon, lat, size):
    """A small box has the area that geodesy gives it, up to a thousandth."""
    share = np.linspace(0, 1, 20, endpoint=False)
    west, south = lon - size / 2, lat - size / 2
    box_lon = west + size * np.concatenate([share, share**0, 1 - share, 0 * share])
    box_lat = south + size * np.concatenate([0 * share, share, share**0, 1 - share])
    expected, _ = pyproj.Geod(ellps="WGS84").polygon_area_perimeter(box_lon, box_lat)
    places = place(read_degrees(box_lon, box_lat))
    x, y = places.x, places.y
    area = 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))
    assert area == pytest.approx(expected, rel=1e-3)


def test_threads_do_not_change_places():
    log = read_degrees(*city())
    one, many = (place(log, threads=threads) for threads in (1, 5))
    assert one.region == many.region
    assert one.x.tolist() == many.x.tolist()
    assert one.y.tolist() == many.y.tolist()


def test_a_log_on_both_sides_of_the_180th_meridian():
    assert "lon_0=180.0" in place(read_degrees([179.9, -179.9], [0.0, 0.0])).crs
    with pytest.raises(tc.InputError, match=r"spans more than 180 degrees of longitude.*expected"):
        place(read_degrees([-120.0, 0.0, 120.0], [0.0, 0.0, 0.0]))
    assert "lon_0=0.0" in choose_projection((-90.0, -10.0, 90.0, 10.0))


def swap(lon, lat, rows):
    for row in rows:
        lon[row], lat[row] = lat[row], lon[row]


def to_null_island(lon, lat, rows):
    for row in rows:
        lon[row] = lat[row] = 0.0


def to_noise_around_null_island(lon, lat, rows):
    for number, row in enumerate(rows):
        lon[row] = lat[row] = 0.001 * (number + 1)


@pytest.mark.parametrize("spoil", [swap, to_null_island, to_noise_around_null_island])
@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([41], "row 42 is far"),
        ([7, 299], r"2 rows \(8, 300\) are far"),
        ([1, 2, 3, 500, 600, 700], r"6 rows \(2, 3, 4, 501, 601, \.\.\.\) are far"),
    ],
)
def test_far_rows_are_refused_by_number(spoil, rows, named):
    lon, lat = city(n=900)
    spoil(lon, lat, rows)
    log = read_degrees(lon, lat)
    with pytest.raises(tc.InputError, match=named) as caught:
        place(log)
    _, message = str(caught.value).split(".parquet: ")
    assert "expected one connected area" in message
    assert "region=" in message
    # No number but the rows and the constants of the rule.
    assert set(re.findall(r"\d+", message)) <= {str(row + 1) for row in rows} | {
        str(len(rows)), "64", "0",
    }  # fmt: skip


def test_a_region_that_the_caller_gives_keeps_far_rows():
    lon, lat = city(n=900)
    to_null_island(lon, lat, [41])
    log = read_degrees(lon, lat)
    kept = anonymize(log, 2, region=(-4e6, -4e6, 8e6))
    assert kept.manifest["region"] == {"x_min": -4e6, "y_min": -4e6, "side": 8e6}
    assert kept.manifest["height"] == 20
    assert kept.manifest["users"] == 900


def test_two_towns_are_one_connected_area():
    """The towns are far from each other, but neither is just a few rows."""
    x = np.concatenate([np.random.default_rng(1).uniform(0, 1, 100) + town for town in (0, 1000)])
    rows = [Row(f"u{i}", 0, value, value) for i, value in enumerate(x)]
    assert place(read_rows(rows)).region.side > 1000


def test_few_far_rows_of_a_planar_log():
    rows = [Row(f"u{i}", 0, i % 20, i % 7) for i in range(400)]
    rows[50] = Row("u50", 0, 0, 1e6)
    with pytest.raises(tc.InputError, match="row 51 is far from all others"):
        place(read_rows(rows))
    rows[60] = Row("u60", 0, 1e6, 0)
    with pytest.raises(tc.InputError, match=r"2 rows \(51, 61\) are far from all others"):
        place(read_rows(rows))


def test_rows_that_are_not_so_far():
    """The other rows need a region 19 wide; this one makes it 26 times larger, not 64."""
    rows = [Row(f"u{i}", 0, i % 20, i % 7) for i in range(400)]
    rows[50] = Row("u50", 0, 0, 500)
    assert place(read_rows(rows)).region.side > 500


@pytest.mark.parametrize(
    ("region", "named"),
    [
        ((0.0, 0.0, 5.0), r"row 3 is outside the region"),
        ((1.0, 0.0, 90.0), r"row 1 is outside the region"),
        ((0.0, 2.0, 90.0), r"2 rows \(1, 2\) are outside the region"),
        ((0.0, 0.0, 9.0), r"row 3 is outside the region"),
        ((100.0, 0.0, 9.0), r"3 rows \(1, 2, 3\) are outside the region"),
    ],
)
def test_locations_must_be_strictly_inside_a_given_region(region, named):
    log = read_rows([Row("a", 0, 1, 1), Row("b", 0, 4, 2), Row("c", 0, 9, 8)])
    with pytest.raises(tc.InputError, match=named) as caught:
        anonymize(log, 2, region=region)
    assert "expected every location strictly inside it" in str(caught.value)
    anonymize(log, 2, region=(0.0, 0.0, math.nextafter(9.0, 10.0)))


@pytest.mark.parametrize("far", [1e300, -1.7e308, 2e100])
def test_coordinates_beyond_all_places_are_refused(far):
    rows = [Row(f"u{i}", 0, far if i == 0 else 1.0, 1.0, None) for i in range(4)]
    with pytest.raises(tc.InputError, match=r"row 1 is beyond 1e\+100; expected coordinates"):
        anonymize(read_rows(rows), 2)


def test_a_region_beyond_all_places_is_refused():
    rows = [Row(f"u{i}", 0, 1.0, 1.0, None) for i in range(4)]
    with pytest.raises(tc.InputError, match="reaches beyond"):
        anonymize(read_rows(rows), 2, region=(-1e300, -1e300, 3e300), height=4)


def test_rows_that_cannot_be_projected_are_counted(monkeypatch):
    class Halting:
        """PROJ answers infinity where a projection is not defined."""

        def transform(self, lon, lat):
            return np.where(lat > 52.9, np.inf, lon), lat

    log = read_degrees([13.0, 13.1, 13.2, 13.3], [52.0, 52.95, 52.5, 53.0])
    monkeypatch.setattr(pyproj.Transformer, "from_crs", lambda *_, **__: Halting())
    with pytest.raises(tc.InputError, match=r"2 rows \(2, 4\) are beyond 1e\+100"):
        place(log)
