"""How users are spread at an instant, by plain loops over all tiles."""


def find_shares(rectangles, users, region, side):
    """Find the share of each rectangle's users inside a region.

    ``rectangles`` are (x0, y0, x1, y1); the box around them is cut into ``side`` by ``side`` tiles.
    """
    x0, y0 = min(r[0] for r in rectangles), min(r[1] for r in rectangles)
    x1, y1 = max(r[2] for r in rectangles), max(r[3] for r in rectangles)
    tiles = [
        (
            x0 + (x1 - x0) * i / side,
            y0 + (y1 - y0) * j / side,
            x0 + (x1 - x0) * (i + 1) / side,
            y0 + (y1 - y0) * (j + 1) / side,
        )
        for i in range(side)
        for j in range(side)
    ]
    weights = []
    for tile in tiles:
        inside = [
            n * area(intersect(r, tile)) / area(r) for r, n in zip(rectangles, users, strict=True)
        ]
        total = sum(n / area(r) for r, n in zip(rectangles, inside, strict=True))
        weights.append(total ** (1 / 3))
    shares = []
    for r in rectangles:
        parts = [intersect(r, tile) for tile in tiles]
        total = sum(w * area(part) for w, part in zip(weights, parts, strict=True))
        inside = [intersect(part, region) for part in parts]
        shares.append(sum(w * area(p) for w, p in zip(weights, inside, strict=True)) / total)
    return shares


def intersect(a, b):
    return max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])


def area(r):
    return max(r[2] - r[0], 0.0) * max(r[3] - r[1], 0.0)
