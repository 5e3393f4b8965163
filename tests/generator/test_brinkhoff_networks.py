import struct

import pytest

from trajcloak.errors import InputError
from trajcloak.generator.network_files import load_network


def node(number, x, y, name=b"*"):
    return struct.pack(">b", len(name)) + name + struct.pack(">qii", number, x, y)


def edge(u, v, road_class, name=b"road"):
    ends = struct.pack(">qq", u, v)
    return ends + struct.pack(">b", len(name)) + name + struct.pack(">qi", 77, road_class)


NODES = [node(9, 0, 0), node(-4, 300, 0, b""), node(1 << 40, 300, 400, b"a name"), node(7, 0, 400)]
EDGES = [edge(9, -4, 0), edge(-4, 1 << 40, 6, b""), edge(1 << 40, 7, 3), edge(7, 9, 2)]


def write(folder, nodes=NODES, edges=EDGES):
    (folder / "town.node").write_bytes(b"".join(nodes))
    (folder / "town.edge").write_bytes(b"".join(edges))
    return folder / "town.node"


@pytest.mark.parametrize("suffix", [".node", ".edge"])
def test_read(tmp_path, suffix):
    network = load_network(write(tmp_path).with_suffix(suffix), 0)
    assert network.x.tolist() == [0, 300, 300, 0]
    assert network.y.tolist() == [0, 0, 400, 400]
    roads = zip(network.tails, network.heads, network.lengths, network.classes, strict=True)
    assert {(int(t), int(h), float(n), int(c)) for t, h, n, c in roads if t < h} == {
        (0, 1, 300.0, 0),
        (1, 2, 400.0, 6),
        (2, 3, 300.0, 3),
        (0, 3, 400.0, 2),
    }


@pytest.mark.parametrize(
    ("nodes", "edges", "says"),
    [
        ([], EDGES, r"town\.node: the file is empty; expected at least one record"),
        (NODES, [], r"town\.edge: the file is empty"),
        ([*NODES, NODES[0][:-1]], EDGES, r"town\.node: record 5 is cut short at byte \d+; .*again"),
        (NODES, [*EDGES, EDGES[0][:9]], r"town\.edge: record 5 is cut short"),
        (NODES, [*EDGES, EDGES[0][:16]], r"town\.edge: record 5 is cut short"),
        (NODES, [*EDGES, EDGES[0][:-3]], r"town\.edge: record 5 is cut short"),
        ([*NODES, NODES[1]], EDGES, r"town\.node: record 5: the id of this node is taken"),
        (NODES, [*EDGES, edge(9, 8, 0)], r"town\.edge: record 5: an end of this edge is no node"),
        (NODES, [edge(9, -4, 8)], r"town\.edge: record 1 has the road class 8; expected 0 to 7"),
        (NODES, [edge(9, -4, -1)], r"town\.edge: record 1 has the road class -1"),
        (NODES, EDGES[:2], r"largest connected part of the network has 3 of its 4 nodes"),
    ],
)
def test_bad_files(tmp_path, nodes, edges, says):
    with pytest.raises(InputError, match=says):
        load_network(write(tmp_path, nodes, edges), 0)


def test_sibling_is_missing(tmp_path):
    path = write(tmp_path)
    path.with_suffix(".edge").unlink()
    with pytest.raises(InputError, match=r"town\.edge: No such file.*side by side; check"):
        load_network(path, 0)
