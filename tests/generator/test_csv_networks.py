import numpy as np
import pytest

from trajcloak.errors import InputError
from trajcloak.generator.network_files import load_network

NODES = ["node,osm_id,x_m,y_m", "a,1,0,0", "b,2,300,0", "007,3,300,400", "7,4,0,400"]
EDGES = ["u,v,length_m,class", "a,b,310.5,0", "b,007,400,7", "007,7,1,3", "7,a,400,2"]


def write(folder, nodes=NODES, edges=EDGES):
    (folder / "nodes.csv").write_text("\n".join(nodes) + "\n")
    (folder / "edges.csv").write_text("\n".join(edges) + "\n")
    return folder


def replace(lines, number, line):
    return [*lines[:number], line, *lines[number + 1 :]]


def list_roads(network):
    roads = zip(network.tails, network.heads, network.lengths, network.classes, strict=True)
    return {(int(t), int(h), float(n), int(c)) for t, h, n, c in roads if t < h}


def test_read(tmp_path):
    network = load_network(write(tmp_path), 0)
    assert network.x.tolist() == [0, 300, 300, 0]
    assert network.y.tolist() == [0, 0, 400, 400]
    assert list_roads(network) == {(0, 1, 310.5, 0), (1, 2, 400, 7), (2, 3, 300, 3), (0, 3, 400, 2)}


def test_lengths_and_classes_are_optional(tmp_path):
    edges = [",".join(line.split(",")[:2]) for line in EDGES]
    network = load_network(write(tmp_path, edges=edges), 0)
    assert list_roads(network) == {(0, 1, 300, 0), (1, 2, 400, 0), (2, 3, 300, 0), (0, 3, 400, 0)}


def test_plain_names_of_planar_columns(tmp_path):
    network = load_network(write(tmp_path, replace(NODES, 0, "node,osm_id,x,y")), 0)
    assert network.extent == (300, 400)


def test_degrees_are_projected(tmp_path):
    nodes = ["node,lat,lon", "a,52,13", "b,52,13.1", "007,52.1,13.1", "7,52.1,13"]
    network = load_network(write(tmp_path, nodes), 0)
    # A degree of latitude is 111 km; one of longitude cos(52 degrees) of that.
    assert network.extent == pytest.approx((6860, 11120), rel=0.01)
    assert (network.x == np.round(network.x, 3)).all()


def test_planar_columns_are_preferred(tmp_path):
    nodes = ["node,lat,lon,x_m,y_m", "a,1,2,0,0", "b,1,2,3,0", "007,1,2,3,4", "7,1,2,0,4"]
    assert load_network(write(tmp_path, nodes), 0).extent == (3, 4)


@pytest.mark.parametrize(
    ("nodes", "edges", "says"),
    [
        (NODES[:1], EDGES, r"nodes\.csv: there are no rows; expected at least one"),
        ([""], EDGES, r"nodes\.csv: .*; expected a CSV file with a header line"),
        (replace(NODES, 2, "b,2,3"), EDGES, r"nodes\.csv: .*Expected 4 columns, got 3"),
        (replace(NODES, 0, "id,osm_id,x,y"), EDGES, r"nodes\.csv: no column 'node' among id, osm"),
        (replace(NODES, 0, "node,osm_id,x,z"), EDGES, r"no pair of coordinates among node, osm_id"),
        (replace(NODES, 2, "b,2,east,0"), EDGES, r"nodes\.csv: row 2: column 'x_m' holds 'east'"),
        (replace(NODES, 2, "b,2,nan,0"), EDGES, r"nodes\.csv: row 2: column 'x_m' holds 'nan'"),
        (replace(NODES, 2, "b,2,,0"), EDGES, r"nodes\.csv: row 2: column 'x_m' holds ''; exp"),
        (replace(NODES, 2, "a,2,0,0"), EDGES, r"nodes\.csv: row 2: the id of this node is taken"),
        (NODES, replace(EDGES, 0, "from,v,length_m,class"), r"edges\.csv: no column 'u'"),
        (NODES, replace(EDGES, 1, "a,z,1,1"), r"edges\.csv: row 1: an end of this edge is no node"),
        (NODES, replace(EDGES, 1, "a,b,-1,1"), r"edges\.csv: row 1: column 'length_m' holds '-1';"),
        (
            NODES,
            replace(EDGES, 1, "a,b,inf,1"),
            r"edges\.csv: row 1: column 'length_m' holds 'inf'",
        ),
        (NODES, replace(EDGES, 1, "a,b,1,8"), r"column 'class' holds '8'; expected a whole number"),
        (NODES, replace(EDGES, 1, "a,b,1,0.5"), r"column 'class' holds '0\.5'; expected a whole"),
        (["node,lon,lat", "a,52,113"], ["u,v", "a,a"], r"row 1: .*latitude 113; .*swapped"),
        (["node,lon,lat", "a,0,0", "b,50,0"], ["u,v", "a,b"], r"spans 50 degrees .*at most 10;"),
    ],
)
def test_bad_files(tmp_path, nodes, edges, says):
    with pytest.raises(InputError, match=says):
        load_network(write(tmp_path, nodes, edges), 0)


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv"])
def test_missing_file(tmp_path, name):
    (write(tmp_path) / name).unlink()
    with pytest.raises(InputError, match=rf"{name}: .*No such file.*a folder with nodes\.csv and"):
        load_network(tmp_path, 0)


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match=r"moon: no such file or folder; expected a \.node or"):
        load_network(tmp_path / "moon", 0)


def test_unknown_kind(tmp_path):
    path = tmp_path / "roads.shp"
    path.write_text("")
    with pytest.raises(InputError, match=r"roads\.shp: not a known kind of network; expected a"):
        load_network(path, 0)
