"""What each class of attacker learns, as plain sets of users.

Users are numbers, trajectories are lists of (x, y) cells. A snapshot policy is a list,
by instant, of lists, by user, of cloaks. Bundles are a list, by user, of bundle numbers,
and the cloak sequence of each bundle. A request is a pair (user, instant). The answers
are dicts from an attacker to a dict from a request to the set of its possible senders.
"""

from .tree import Cloak


def is_inside(place, cloak):
    """Tell whether a cell lies inside a cloak."""
    x, y = place
    return cloak.x0 <= x < cloak.x0 + cloak.width and cloak.y0 <= y < cloak.y0 + cloak.height


def all_semi_quadrants(height):
    """List every quadrant of the region, and every quadrant cut in x, smallest first."""
    found = []
    for level in range(height + 1):
        side = 2**level
        for x0 in range(0, 2**height, side):
            for y0 in range(0, 2**height, side):
                found.append(Cloak(x0, y0, side, side))
                if side > 1:
                    found.append(Cloak(x0, y0, side // 2, side))
                    found.append(Cloak(x0 + side // 2, y0, side // 2, side))
    return sorted(found, key=lambda cloak: cloak.width * cloak.height)


def k_inside(places, height, k):
    """Find for each user the smallest (semi-)quadrant around it that holds k users."""
    held = [
        cloak
        for cloak in all_semi_quadrants(height)
        if sum(is_inside(place, cloak) for place in places) >= k
    ]
    return [next(cloak for cloak in held if is_inside(place, cloak)) for place in places]


def attack_snapshots(trajectories, policies, requests):
    """Attack requests that were published with their cloak and the sender's pseudonym."""
    everyone = set(range(len(trajectories)))

    def inside(request):
        user, instant = request
        cloak = policies[instant][user]
        return {u for u in everyone if is_inside(trajectories[u][instant], cloak)}

    def mapped(request):
        user, instant = request
        return {u for u in everyone if policies[instant][u] == policies[instant][user]}

    def linked(request, fitting):
        """Intersect over all requests of the same pseudonym."""
        return everyone.intersection(*(fitting(r) for r in requests if r[0] == request[0]))

    return {
        "policy-unaware": {r: inside(r) for r in requests},
        "policy-aware": {r: mapped(r) for r in requests},
        "trajectory-aware": {r: linked(r, inside) for r in requests},
        "tp-aware": {r: linked(r, mapped) for r in requests},
    }


def attack_bundles(trajectories, bundles, cloaks, requests):
    """Attack requests that were published in bundles, without pseudonyms."""
    everyone = set(range(len(trajectories)))

    def inside(request):
        user, instant = request
        cloak = cloaks[bundles[user]][instant]
        return {u for u in everyone if is_inside(trajectories[u][instant], cloak)}

    def along(request):
        sequence = cloaks[bundles[request[0]]]
        return {u for u in everyone if all(map(is_inside, trajectories[u], sequence))}

    def members(request):
        return {u for u in everyone if bundles[u] == bundles[request[0]]}

    return {
        "policy-unaware": {r: inside(r) for r in requests},
        "policy-aware": {r: members(r) for r in requests},
        "trajectory-aware": {r: along(r) for r in requests},
        "tp-aware": {r: members(r) for r in requests},
    }
