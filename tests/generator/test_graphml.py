import pytest

from trajcloak.errors import InputError
from trajcloak.generator.network_files import load_network

HEAD = """<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="graph" attr.name="crs" attr.type="string"/>
<key id="d1" for="node" attr.name="y" attr.type="string"/>
<key id="d2" for="node" attr.name="x" attr.type="string"/>
<key id="d3" for="edge" attr.name="length" attr.type="string"/>
<key id="d4" for="edge" attr.name="highway" attr.type="string"/>
<key id="d5" for="edge" attr.name="oneway" attr.type="string"/>
<key id="d6" for="edge" attr.name="geometry" attr.type="string"/>
"""
TAIL = "</graph></graphml>\n"


def node(name, x, y):
    return f'<node id="{name}"><data key="d1">{y}</data><data key="d2">{x}</data></node>\n'


def edge(source, target, length="1", highway="residential", oneway="False"):
    data = "".join(
        f'<data key="{key}">{value}</data>'
        for key, value in (("d3", length), ("d4", highway), ("d5", oneway))
        if value is not None
    )
    line = '<data key="d6">LINESTRING (0 0, 5 5)</data>'
    return f'<edge source="{source}" target="{target}" id="0">{data}{line}</edge>\n'


SQUARE = [node("a", 0, 0), node("b", 300, 0), node("c", 300, 400), node("d", 0, 400)]
BOTH = [edge(u, v) for u, v in ("ab", "ba", "bc", "cb", "cd", "dc", "da", "ad")]


def write(folder, *items, crs="epsg:32633", default="directed", head=HEAD):
    crs = f'<data key="d0">{crs}</data>' if crs else ""
    path = folder / "town.graphml"
    path.write_text(f'{head}<graph edgedefault="{default}">{crs}\n{"".join(items)}{TAIL}')
    return path


def list_arcs(network):
    return sorted(zip(network.tails.tolist(), network.heads.tolist(), strict=True))


def test_two_directions_are_one_edge(tmp_path):
    network = load_network(write(tmp_path, *SQUARE, *BOTH), 0)
    assert (network.num_nodes, network.num_edges, network.heads.size) == (4, 4, 8)
    assert network.extent == (300, 400)
    assert set(network.lengths) == {300.0, 400.0}


def test_one_way_streets(tmp_path):
    ring = [edge(u, v, oneway="True") for u, v in ("ab", "bc", "cd", "da")]
    network = load_network(write(tmp_path, *SQUARE, *ring), 0)
    assert list_arcs(network) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    pair = [edge("a", "c", oneway="True"), edge("c", "a", oneway="True")]
    network = load_network(write(tmp_path, *SQUARE, *ring, *pair), 0)
    assert (network.num_edges, network.heads.size) == (6, 6)


def test_edges_without_oneway_follow_the_graph(tmp_path):
    ring = [edge(u, v, oneway=None) for u, v in ("ab", "bc", "cd", "da")]
    assert load_network(write(tmp_path, *SQUARE, *ring), 0).heads.size == 4
    path = write(tmp_path, *SQUARE, *ring, default="undirected")
    assert load_network(path, 0).heads.size == 8


def test_parallel_streets_stay(tmp_path):
    more = [edge("a", "b", "350"), edge("b", "a", "350")]
    network = load_network(write(tmp_path, *SQUARE, *BOTH, *more), 0)
    assert (network.num_edges, network.heads.size) == (5, 10)


def test_classes_of_tags(tmp_path):
    tags = ["motorway_link", "['primary', 'service']", "corridor", None]
    ring = [
        edge(*ends, highway=tag) for ends, tag in zip(("ab", "bc", "cd", "da"), tags, strict=True)
    ]
    network = load_network(write(tmp_path, *SQUARE, *ring), 0)
    assert network.classes[network.tails < network.heads].tolist() == [0, 6, 2, 6]


@pytest.mark.parametrize("crs", ["", "epsg:4326", "EPSG:4326"])
def test_degrees_are_projected(tmp_path, crs):
    nodes = [node("a", 13, 52), node("b", 13.1, 52), node("c", 13.1, 52.1), node("d", 13, 52.1)]
    network = load_network(write(tmp_path, *nodes, *BOTH, crs=crs), 0)
    assert network.extent == pytest.approx((6860, 11120), rel=0.01)


def test_document_type_is_refused(tmp_path):
    bomb = HEAD.replace(
        "<graphml ",
        '<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>\n<graphml ',
    )
    path = write(tmp_path, *SQUARE, *BOTH, head=bomb)
    with pytest.raises(InputError, match=r"town\.graphml: line 2: a document type is declared,"):
        load_network(path, 0)


def test_encodings_that_are_not_read(tmp_path):
    path = write(tmp_path, *SQUARE, *BOTH)
    text = path.read_text().partition("\n")[2]
    path.write_text(f'<?xml version="1.0" encoding="UTF-7"?>\n{text}')
    with pytest.raises(InputError, match="line 1: the text has an encoding that is not read"):
        load_network(path, 0)


@pytest.mark.parametrize(
    ("items", "crs", "says"),
    [
        ([], "", r"town\.graphml: 0 nodes and 0 edges; expected at least one of each"),
        (SQUARE, "", r"4 nodes and 0 edges"),
        ([*SQUARE, "<edge"], "", r"town\.graphml: line 15: not well-formed XML .*fetch"),
        ([*SQUARE, node("e", "far", 0)], "", r"line 15: 'x' of this node is 'far'; expected a fin"),
        ([*SQUARE, node("e", "inf", 0)], "", r"line 15: 'x' of this node is 'inf'"),
        ([*SQUARE, '<node id="e"/>\n'], "", r"line 15: 'x' of this node is ''"),
        ([*SQUARE, node("a", 0, 0), *BOTH], "epsg:32633", r"line 15: the id of this node is taken"),
        ([*SQUARE, edge("a", "z")], "epsg:32633", r"line 15: an end of this edge is no node"),
        ([*SQUARE, edge("a", "b", "-3")], "", r"line 15: a length of -3; expected at least 0"),
        ([*SQUARE, edge("a", "b", "long")], "", r"line 15: 'length' of this edge is 'long'"),
        ([*SQUARE, '<edge source="a"/>\n'], "", r"line 15: this edge has no 'target'"),
        ([*SQUARE, *BOTH], "", r"line 12: longitude 300 .*planar coordinates\?"),
        ([*SQUARE, *BOTH], "moon", r"crs is not one that PROJ knows .*epsg:4326"),
    ],
)
def test_bad_files(tmp_path, items, crs, says):
    with pytest.raises(InputError, match=says):
        load_network(write(tmp_path, *items, crs=crs), 0)
