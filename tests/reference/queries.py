"""Bounds of a consumer's questions, by trying every way in which users can stand.

A box is (x0, y0, x1, y1) in cells of side 1, half open; a region is a closed rectangle
in the same units. A user in a cell may stand anywhere in it, its edges included.
"""

from itertools import permutations, product


def count_range(box, num_users, region, *, is_tight):
    """Find the least and the greatest number of users inside a region at one instant.

    ``is_tight``: the box is the bounding box of the users' cells.
    """
    x0, y0, x1, y1 = box
    cells = list(product(range(x0, x1), range(y0, y1)))
    least, most = num_users, 0
    for chosen in product(cells, repeat=num_users):
        if is_tight and bounding_box(chosen) != box:
            continue
        least = min(least, sum(is_within(cell, region) for cell in chosen))
        most = max(most, sum(touches(cell, region) for cell in chosen))
    return least, most


def follow_range(ranges, num_users):
    """Find the least and the greatest number of users inside at every one of several instants.

    ``ranges`` has the least and the greatest number inside at each. Every way to choose
    the users inside, instant by instant, is tried.
    """
    everyone = frozenset(range(num_users))
    sets = [frozenset(u for u in everyone if bits >> u & 1) for bits in range(2**num_users)]
    found = [
        len(everyone.intersection(*inside))
        for inside in product(sets, repeat=len(ranges))
        if all(low <= len(s) <= high for s, (low, high) in zip(inside, ranges, strict=True))
    ]
    return min(found), max(found)


def follow_parts_range(steps, num_users, *, is_tight, keeps_members):
    """Find the least and the greatest number of users of a bundle inside at every step.

    A step is a region and the parts at its instant: boxes, each with its number of users. Every
    way to divide the users and to place them in their boxes is tried. If ``keeps_members``,
    the n-th parts of all instants have the same users; who they are makes no difference.
    """
    everyone = list(permutations(range(num_users)))
    orders = everyone[:1] if keeps_members else everyone
    inside = [
        {frozenset(order[i] for i in chosen) for order in orders for chosen in possible}
        for possible in (_choose_inside(parts, region, is_tight) for region, parts in steps)
    ]
    found = [len(frozenset.intersection(*sets)) for sets in product(*inside)]
    return min(found), max(found)


def _choose_inside(parts, region, is_tight):
    """List all sets of users who can be inside a region, users numbered part by part."""
    sets, first = {frozenset()}, 0
    for (x0, y0, x1, y1), num_users in parts:
        users = range(first, first + num_users)
        first += num_users
        cells = list(product(range(x0, x1), range(y0, y1)))
        in_part = set()
        for chosen in product(cells, repeat=num_users):
            if is_tight and bounding_box(chosen) != (x0, y0, x1, y1):
                continue
            can = [{is_within(cell, region), touches(cell, region)} for cell in chosen]
            for are_inside in product(*can):
                in_part.add(frozenset(u for u, i in zip(users, are_inside, strict=True) if i))
        sets = {a | b for a in sets for b in in_part}
    return sets


def bounding_box(cells):
    """Find the smallest box around cells."""
    xs, ys = zip(*cells, strict=True)
    return min(xs), min(ys), max(xs) + 1, max(ys) + 1


def is_within(cell, region):
    """Tell whether all of a cell is inside a region."""
    x, y = cell
    left, bottom, right, top = region
    return left <= x and x + 1 <= right and bottom <= y and y + 1 <= top


def touches(cell, region):
    """Tell whether any point of a cell is inside a region."""
    x, y = cell
    left, bottom, right, top = region
    return x <= right and left <= x + 1 and y <= top and bottom <= y + 1


def is_inside(place, region):
    """Tell whether a place is inside a region."""
    x, y = place
    left, bottom, right, top = region
    return left <= x <= right and bottom <= y <= top


def true_followers(places, steps):
    """List the users who are in each region at its instant.

    ``places`` is a dict from (user, instant) to the place of a published user.
    """
    users = {user for user, _ in places}
    return {
        user
        for user in users
        if all(
            (user, instant) in places and is_inside(places[user, instant], region)
            for region, instant in steps
        )
    }


def true_requests(sent, meant):
    """Count the entries and the senders of each request value, given who is meant when.

    ``sent`` lists (user, bundle, instant, value) of published users; ``meant`` is a set
    of (user, instant).
    """
    entries, users = {}, {}
    for user, bundle, instant, value in sent:
        if (user, instant) in meant:
            entries.setdefault(value, set()).add((bundle, instant, value))
            users.setdefault(value, set()).add(user)
    return {value: (len(entries[value]), len(users[value])) for value in entries}
