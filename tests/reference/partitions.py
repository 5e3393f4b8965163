"""The best way to split a tiny set of trajectories into groups of at least k.

Every partition is tried. A group's cost is its size times the sum over instants
of the area of the smallest cloak, of a given kind, that covers its locations.
"""

from .tree import Cloak


def all_partitions(items, k):
    """Yield each partition of a list into groups of at least k, once."""
    for groups in _all_set_partitions(list(items)):
        if all(len(group) >= k for group in groups):
            yield groups


def covering_quadrant(points, height):
    """Find the smallest quadrant of the region that covers the points."""
    return _smallest_cover(points, _quadrants(points[0], height))


def covering_semi_quadrant(points, height):
    """Find the smallest quadrant, or quadrant cut in x, that covers the points."""
    candidates = []
    for quadrant in _quadrants(points[0], height):
        candidates.append(quadrant)
        x0, y0, width, side = quadrant
        if width > 1:
            half = width // 2
            candidates.append(Cloak(x0, y0, half, side))
            candidates.append(Cloak(x0 + half, y0, half, side))
    return _smallest_cover(points, candidates)


def covering_box(points, height):
    """Find the bounding box in cells, edges snapped outward."""
    xs = [x for x, _ in points]
    ys = [y for _, y in points]
    return Cloak(min(xs), min(ys), max(xs) - min(xs) + 1, max(ys) - min(ys) + 1)


COVERS = {
    "quadrant": covering_quadrant,
    "semi-quadrant": covering_semi_quadrant,
    "box": covering_box,
}


def group_cloaks(trajectories, group, height, cover):
    """List the smallest covering cloak of a group at each instant."""
    return [
        COVERS[cover]([trajectories[member][instant] for member in group], height)
        for instant in range(len(trajectories[0]))
    ]


def group_cost(trajectories, group, height, cover):
    """Multiply a group's size by the summed areas of its cloaks, in cells."""
    cloaks = group_cloaks(trajectories, group, height, cover)
    return len(group) * sum(cloak.width * cloak.height for cloak in cloaks)


def partition_cost(trajectories, groups, height, cover):
    """Add up the costs of groups."""
    return sum(group_cost(trajectories, group, height, cover) for group in groups)


def best_partition(trajectories, k, height, cover):
    """Return the least cost over all partitions, and the first partition that has it."""
    best = None
    for groups in all_partitions(range(len(trajectories)), k):
        cost = partition_cost(trajectories, groups, height, cover)
        if best is None or cost < best[0]:
            best = (cost, groups)
    if best is None:
        raise ValueError(f"{len(trajectories)} trajectories make no group of {k}")
    return best


def _all_set_partitions(items):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for groups in _all_set_partitions(rest):
        yield [[first], *groups]
        for i, group in enumerate(groups):
            yield [*groups[:i], [first, *group], *groups[i + 1 :]]


def _quadrants(point, height):
    """List the quadrants that hold a point, from its cell to the whole region."""
    x, y = point
    sides = [2**level for level in range(height + 1)]
    return [Cloak(x // side * side, y // side * side, side, side) for side in sides]


def _smallest_cover(points, candidates):
    covers = [
        cloak
        for cloak in candidates
        if all(
            cloak.x0 <= x < cloak.x0 + cloak.width and cloak.y0 <= y < cloak.y0 + cloak.height
            for x, y in points
        )
    ]
    return min(covers, key=lambda cloak: cloak.width * cloak.height)
