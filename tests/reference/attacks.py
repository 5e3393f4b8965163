"""What each class of attacker learns, as plain sets of users.

Users are numbers, trajectories are lists of (x, y) cells. A snapshot policy is a list,
by instant, of lists, by user, of cloaks. Bundles are a list, by user, of bundle numbers,
and the cloak sequence of each bundle. A snapshot policy publishes requests with pseudonyms:
(user, instant, what). Bundles publish (bundle, instant, what). ``can_send(user, instant)``
tells whether a user may have sent something. The answers are, for each attacker, the set of
possible senders of each request, in order.
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


def attack_snapshots(trajectories, policies, requests, can_send):
    """Attack requests that were published with their cloak and the sender's pseudonym."""
    everyone = set(range(len(trajectories)))

    def inside(user, instant):
        cloak = policies[instant][user]
        return {u for u in everyone if is_inside(trajectories[u][instant], cloak)}

    def mapped(user, instant):
        return {u for u in everyone if policies[instant][u] == policies[instant][user]}

    def reporting(user, instant):
        return {u for u in mapped(user, instant) if can_send(u, instant)}

    def linked(user, fitting):
        """Intersect over all requests of the same pseudonym."""
        return everyone.intersection(*(fitting(user, i) for u, i, _ in requests if u == user))

    return {
        "policy-unaware": [inside(user, i) for user, i, _ in requests],
        "policy-aware": [mapped(user, i) for user, i, _ in requests],
        "trajectory-aware": [linked(user, inside) for user, *_ in requests],
        "tp-aware": [linked(user, mapped) for user, *_ in requests],
        "report-aware": [linked(user, reporting) for user, *_ in requests],
    }


def attack_bundles(trajectories, bundles, cloaks, shown, can_send):
    """Attack requests that were published in bundles, without pseudonyms."""
    everyone = set(range(len(trajectories)))

    def inside(bundle, instant):
        return {u for u in everyone if is_inside(trajectories[u][instant], cloaks[bundle][instant])}

    def along(bundle):
        return {u for u in everyone if all(map(is_inside, trajectories[u], cloaks[bundle]))}

    def members(bundle):
        return {u for u in everyone if bundles[u] == bundle}

    def reporting(bundle, instant):
        return {u for u in members(bundle) if can_send(u, instant)}

    return {
        "policy-unaware": [inside(b, i) for b, i, _ in shown],
        "policy-aware": [members(b) for b, *_ in shown],
        "trajectory-aware": [along(b) for b, *_ in shown],
        "tp-aware": [members(b) for b, *_ in shown],
        "report-aware": [reporting(b, i) for b, i, _ in shown],
    }


def suspect_one_sender(bundles, shown, can_send):
    """Take equal requests of a bundle for those of one sender: who can have sent them all?"""
    return [
        {
            user
            for user, of_user in enumerate(bundles)
            if of_user == bundle
            and all(can_send(user, i) for b, i, w in shown if (b, w) == (bundle, what))
        }
        for bundle, _, what in shown
    ]


def link_windows(windows):
    """Take equal requests of all windows for those of one sender.

    ``windows`` are lists of (what, suspects), one for each request, users numbered alike in all
    of them. The sender is among the suspects of the request, and in every other window that shows
    an equal one among the suspects of any such request.
    """
    candidates = []
    for window in windows:
        others = [other for other in windows if other is not window]
        for what, suspects in window:
            left = set(suspects)
            for other in others:
                equal = [found for w, found in other if w == what]
                if equal:
                    left &= set().union(*equal)
            candidates.append(left)
    return candidates
