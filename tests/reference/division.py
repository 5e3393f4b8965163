"""The cheapest division of a few places into parts, by trying all of them."""

from itertools import combinations


def least_cost(places, least):
    """Find the least cost of a division into parts of at least ``least``: area times members."""
    if not places:
        return 0
    first, *rest = places
    found = []
    for count in range(least - 1, len(rest) + 1):
        left = len(rest) - count
        if 0 < left < least:
            continue
        for chosen in combinations(range(len(rest)), count):
            part = [first, *(rest[i] for i in chosen)]
            others = [rest[i] for i in range(len(rest)) if i not in chosen]
            found.append(cost(part) + least_cost(others, least))
    return min(found)


def cost(part):
    """Compute the area of the box of cells around a part, times its members."""
    xs, ys = zip(*part, strict=True)
    return (max(xs) - min(xs) + 1) * (max(ys) - min(ys) + 1) * len(part)
