"""Uncompressed trees of cloak sequences.

A trajectory is a list of (x, y) cells, one per instant, each in [0, 2**height).
A tree is told by its splits: the first cuts the root, the next its children, and
so on; a split is a list of (instant, axis), and cuts each of these cloaks in two
halves along that axis, all at once. A split of s halvings gives 2**s children.
"""

from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

X, Y = 0, 1


class Cloak(NamedTuple):
    """The cells x0 .. x0 + width - 1 by y0 .. y0 + height - 1."""

    x0: int
    y0: int
    width: int
    height: int


@dataclass(eq=False)
class Node:
    """A cloak sequence, the trajectories it masks, and its non-empty children."""

    number: int
    cloaks: tuple[Cloak, ...]
    masked: list[int]
    split: list[tuple[int, int]] | None
    parent: "Node | None"
    children: list["Node"] = field(default_factory=list)

    @property
    def d(self):
        return len(self.masked)

    @property
    def is_leaf(self):
        return self.split is None

    @property
    def area(self):
        return sum(cloak.width * cloak.height for cloak in self.cloaks)


@dataclass(eq=False)
class Tree:
    """Nodes in the order of their numbers: a parent before its children."""

    trajectories: list
    nodes: list[Node]

    @property
    def root(self):
        return self.nodes[0]


def binary_axis_major_splits(height, length):
    """For level coarse to fine, axis x then y, instant 1 to l: one halving."""
    return [
        [(instant, axis)] for _ in range(height) for axis in (X, Y) for instant in range(length)
    ]


def binary_instant_major_splits(height, length):
    """For level coarse to fine, instant 1 to l, axis x then y: one halving."""
    return [
        [(instant, axis)] for _ in range(height) for instant in range(length) for axis in (X, Y)
    ]


def us_splits(height, length):
    """For level coarse to fine, instant 1 to l: both axes at once, four children."""
    return [[(instant, X), (instant, Y)] for _ in range(height) for instant in range(length)]


def u_splits(height, length):
    """For level coarse to fine: both axes of all instants at once, 4**l children."""
    return [
        [(instant, axis) for instant in range(length) for axis in (X, Y)] for _ in range(height)
    ]


SPLITS = {
    "binary-axis-major": binary_axis_major_splits,
    "binary-instant-major": binary_instant_major_splits,
    "us": us_splits,
    "u": u_splits,
}


def build_tree(trajectories, height, kind):
    """Build the tree of a kind named in SPLITS, down to the single cells."""
    length = len(trajectories[0])
    side = 2**height
    for trajectory in trajectories:
        if len(trajectory) != length:
            raise ValueError("trajectories of different lengths")
        if not all(0 <= c < side for cell in trajectory for c in cell):
            raise ValueError("a cell lies outside of the region")
    splits = SPLITS[kind](height, length)
    region = Cloak(0, 0, side, side)
    everyone = list(range(len(trajectories)))
    root = Node(0, (region,) * length, everyone, splits[0] if splits else None, None)
    nodes = [root]
    layer = [root]
    for depth in range(len(splits)):
        next_split = splits[depth + 1] if depth + 1 < len(splits) else None
        next_layer = []
        for node in layer:
            for upper, masked in sorted(_group_by_halves(node, trajectories).items()):
                cloaks = _child_cloaks(node, upper)
                child = Node(len(nodes), cloaks, masked, next_split, node)
                nodes.append(child)
                node.children.append(child)
                next_layer.append(child)
        layer = next_layer
    return Tree(trajectories, nodes)


def all_child_cloaks(node):
    """Cloak sequences of all children that a node has, the empty ones included."""
    return [_child_cloaks(node, upper) for upper in product((False, True), repeat=len(node.split))]


def is_masked(trajectory, cloaks):
    """Tell whether each location lies inside the cloak of its instant."""
    return all(
        cloak.x0 <= x < cloak.x0 + cloak.width and cloak.y0 <= y < cloak.y0 + cloak.height
        for (x, y), cloak in zip(trajectory, cloaks, strict=True)
    )


def path_to_root(node):
    """List a node and its ancestors, the root last."""
    path = []
    while node is not None:
        path.append(node)
        node = node.parent
    return path


def _group_by_halves(node, trajectories):
    """Group the masked trajectories by the halves that their locations fall into."""
    groups = {}
    for index in node.masked:
        upper = []
        for instant, axis in node.split:
            cloak = node.cloaks[instant]
            start = (cloak.x0, cloak.y0)[axis]
            extent = (cloak.width, cloak.height)[axis]
            upper.append(trajectories[index][instant][axis] >= start + extent // 2)
        groups.setdefault(tuple(upper), []).append(index)
    return groups


def _child_cloaks(node, upper):
    cloaks = list(node.cloaks)
    for (instant, axis), is_upper in zip(node.split, upper, strict=True):
        x0, y0, width, height = cloaks[instant]
        if axis == X:
            width //= 2
            x0 += width if is_upper else 0
        else:
            height //= 2
            y0 += height if is_upper else 0
        cloaks[instant] = Cloak(x0, y0, width, height)
    return tuple(cloaks)
