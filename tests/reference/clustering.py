"""Fast, slow and Hilbert-based clustering, straight from section 5.2 of the paper.

Trajectories are lists of (x, y) cells, one per instant. Their order decides ties.
Distance and cost are sums, over instants, of the logarithms of areas of bounding
rectangles, whose edges are snapped outward to cells. The sum of logarithms is the
logarithm of the product, so products are compared: whole numbers, never rounded.

Clusters are lists of the numbers of their members, in the order in which they joined.
"""

from fractions import Fraction
from math import prod


def area_product(trajectories, members):
    """Multiply, over instants, the areas of the members' bounding rectangles, in cells."""
    product = 1
    for instant in range(len(trajectories[0])):
        xs = [trajectories[member][instant][0] for member in members]
        ys = [trajectories[member][instant][1] for member in members]
        product *= (max(xs) - min(xs) + 1) * (max(ys) - min(ys) + 1)
    return product


def cluster_fast(trajectories, k, centres):
    """Take the first centre that is free, and the k - 1 nearest to it; and so on."""

    def grow(centre, free):
        nearest = sorted(free, key=lambda t: (area_product(trajectories, [centre, t]), t))
        return [centre, *nearest[: k - 1]]

    return _cluster(trajectories, k, centres, grow)


def cluster_slow(trajectories, k, centres):
    """Take the first centre that is free, and add what makes the cluster cheapest, one by one."""

    def grow(centre, free):
        cluster = [centre]
        while len(cluster) < k:
            left = [t for t in free if t not in cluster]
            best = min(left, key=lambda t: (area_product(trajectories, [*cluster, t]), t))
            cluster.append(best)
        return cluster

    return _cluster(trajectories, k, centres, grow)


def place_leftovers(trajectories, clusters, left):
    """Add each to the cluster whose cost it raises least; ties to the cluster grown first."""
    for t in left:
        raised = [
            Fraction(area_product(trajectories, [*cluster, t]), area_product(trajectories, cluster))
            for cluster in clusters
        ]
        clusters[raised.index(min(raised))].append(t)


def _cluster(trajectories, k, centres, grow):
    free = list(range(len(trajectories)))
    clusters = []
    while len(free) >= k:
        centre = next(t for t in centres if t in free)
        cluster = grow(centre, [t for t in free if t != centre])
        free = [t for t in free if t not in cluster]
        clusters.append(cluster)
    place_leftovers(trajectories, clusters, free)
    return clusters


def hilbert_curve(order):
    """List the cells of a square of 2**order by 2**order cells as Hilbert's curve visits them.

    Four copies of the curve of the order below: the first and the last are mirrored, so
    that each ends beside the start of the next. From the lower left to the lower right.
    """
    if order == 0:
        return [(0, 0)]
    before = hilbert_curve(order - 1)
    side = 2 ** (order - 1)
    return [
        *((y, x) for x, y in before),
        *((x, y + side) for x, y in before),
        *((x + side, y + side) for x, y in before),
        *((2 * side - 1 - y, side - 1 - x) for x, y in before),
    ]


def hilbert_index(cell, order):
    """Find the place of a cell on the curve without listing the curve."""
    if order == 0:
        return 0
    x, y = cell
    side = 2 ** (order - 1)
    if x < side and y < side:
        return hilbert_index((y, x), order - 1)
    if x < side:
        return side**2 + hilbert_index((x, y - side), order - 1)
    if y >= side:
        return 2 * side**2 + hilbert_index((x - side, y - side), order - 1)
    return 3 * side**2 + hilbert_index((side - 1 - y, 2 * side - 1 - x), order - 1)


def hilbert_neighbours(trajectories, height, k):
    """Find each trajectory's k - 1 nearest, ties by number."""
    indexes = [[hilbert_index(cell, height) for cell in t] for t in trajectories]

    def distance(a, b):
        return sum(abs(i - j) for i, j in zip(indexes[a], indexes[b], strict=True))

    everyone = range(len(trajectories))
    return [
        sorted((t for t in everyone if t != own), key=lambda t, own=own: (distance(own, t), t))[
            : k - 1
        ]
        for own in everyone
    ]


def merge_overlapping(groups):
    """Merge sets with a common member until there are none."""
    groups = [set(group) for group in groups]
    merged = []
    while groups:
        group = groups.pop()
        overlapping = [other for other in groups if other & group]
        if overlapping:
            groups = [other for other in groups if not other & group]
            groups.append(group.union(*overlapping))
        else:
            merged.append(group)
    return merged


def cluster_hilbert(trajectories, height, k):
    """Take each trajectory with its nearest, and merge what overlaps."""
    nearest = hilbert_neighbours(trajectories, height, k)
    return merge_overlapping([{own, *others} for own, others in enumerate(nearest)])


def cost(trajectories, clusters):
    """Add up, over clusters, size times the summed areas of the bounding rectangles."""
    return sum(
        len(cluster)
        * sum(
            prod(max(t[axis] for t in places) - min(t[axis] for t in places) + 1 for axis in (0, 1))
            for instant in range(len(trajectories[0]))
            for places in [[trajectories[member][instant] for member in cluster]]
        )
        for cluster in clusters
    )
