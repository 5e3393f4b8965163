"""The candidate set of each published request, for each class of attacker.

All attackers know where every user was. They differ in what else they know:

==================  ==========================================  ==============================
attacker            of a snapshot policy                        of bundles
==================  ==========================================  ==============================
policy-unaware      everyone inside the cloak                   everyone inside the cloak
policy-aware        who is mapped to the cloak                  who is mapped to the bundle
trajectory-aware    inside all cloaks of the same pseudonym     inside all cloaks of the bundle
tp-aware            mapped to all cloaks of the same pseudonym  who is mapped to the bundle
report-aware        ... with a row at each of these instants    ... with a row at the instant
linking             ... and possible in all other windows       ... and possible wherever an
                    that show the same request                  equal request is shown
==================  ==========================================  ==============================

A snapshot policy publishes each request with its cloak and the sender's pseudonym
(section 1 of the paper), a new one in each window; bundles carry no pseudonyms. Rows tell
attackers something only where they carry the requests: in one log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.policy import Policy
from trajcloak.kernels.sort import group_by_number
from trajcloak.kernels.threads import run_sliced
from trajcloak.options import REPORT_AWARE, TP_AWARE
from trajcloak.snapshot import Snapshot

POLICY_UNAWARE = "policy-unaware"
POLICY_AWARE = "policy-aware"
TRAJECTORY_AWARE = "trajectory-aware"
LINKING = "linking"
ATTACKERS = (POLICY_UNAWARE, POLICY_AWARE, TRAJECTORY_AWARE, TP_AWARE, REPORT_AWARE, LINKING)

CandidateSizes = dict[str, npt.NDArray[np.int64]]
"""By attacker: the size of the candidate set of each request."""


@dataclass(frozen=True)
class Finding:
    """What one attacker learns from one policy."""

    policy: str
    attacker: str
    requests: int  # that the policy publishes; bundles show equal ones of a set once
    breaches: int  # requests with fewer than k candidates
    smallest_candidate_set: int
    identified: int  # requests with a single candidate: the sender is known


@dataclass(frozen=True)
class Sent:
    """The requests that users of a window sent, sorted by user and instant."""

    user: npt.NDArray[np.int32]
    instant: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int32]  # numbers the distinct requests
    first: npt.NDArray[np.int64]  # where each sender's requests start


@dataclass(frozen=True)
class Shown:
    """The requests that the bundles of a window show."""

    bundle: npt.NDArray[np.int32]
    instant: npt.NDArray[np.int32]  # from the start of the window
    kind: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Suspects:
    """Possible senders of requests of a window that an attacker takes for those of one sender."""

    group: npt.NDArray[np.int64]  # of each request: equal for those taken for one sender's
    kind: npt.NDArray[np.int32]  # of each group: the distinct request that these are
    first: npt.NDArray[np.int64]  # where the possible senders of each group start in ``user``
    user: npt.NDArray[np.int32]


def build_sent(
    user: npt.NDArray[np.int32], instant: npt.NDArray[np.int32], kind: npt.NDArray[np.int32]
) -> Sent:
    """Sort requests by sender and instant."""
    order = np.lexsort((instant, user))
    user = user[order]
    first = np.flatnonzero(np.diff(user, prepend=-1, append=np.iinfo(np.int32).max))
    return Sent(user, instant[order], kind[order], first)


def attack_snapshots(
    snapshots: Sequence[Snapshot], sent: Sent, has_row: npt.NDArray[np.bool_], threads: int
) -> tuple[CandidateSizes, Suspects]:
    """Attack a snapshot policy.

    ``has_row`` (users, instants) says who may have sent a request when. Returns the sizes of
    candidate sets for all attackers but the linking one, and what that one starts from.
    """
    cloak = np.stack([snapshot.cloak for snapshot in snapshots])
    start = np.stack([s.start[s.cloak] for s in snapshots])
    stop = np.stack([s.stop[s.cloak] for s in snapshots])
    order = np.stack([snapshot.order for snapshot in snapshots])
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(order.shape[1], dtype=order.dtype)[None], axis=1)
    inside = (stop - start)[sent.instant, sent.user].astype(np.int64)
    mapped = np.stack([np.bincount(c, minlength=int(cloak.max()) + 1)[c] for c in cloak])
    requests = sent.user, sent.instant, sent.first
    policy = cloak, start, stop, order, place
    sizes = np.empty((3, len(sent.first) - 1), np.int64)
    parts = run_sliced(
        lambda a, b: _intersect(requests, policy, has_row, a, b, sizes), sizes.shape[1], threads
    )
    possible = np.concatenate(parts)
    sender = np.repeat(np.arange(sizes.shape[1]), np.diff(sent.first))
    linked, linked_mapped, linked_reported = sizes[:, sender]
    found = {
        POLICY_UNAWARE: inside,
        POLICY_AWARE: mapped[sent.instant, sent.user],
        TRAJECTORY_AWARE: linked,
        TP_AWARE: linked_mapped,
        REPORT_AWARE: linked_reported,
    }
    (of_sender, kind), group = _number_pairs(sender, sent.kind)
    count = sizes[2, of_sender]
    first = np.append(0, np.cumsum(count))
    starts = np.append(0, np.cumsum(sizes[2]))[of_sender]
    listed = np.repeat(starts - first[:-1], count) + np.arange(first[-1])
    return found, Suspects(group, kind.astype(np.int32), first, possible[listed])


def attack_bundles(
    cells: npt.NDArray[np.uint32],
    policy: Policy,
    shown: Shown,
    has_row: npt.NDArray[np.bool_],
    threads: int,
) -> tuple[CandidateSizes, Suspects]:
    """Attack a policy of bundles; takes and returns the same as :func:`attack_snapshots`."""
    num_users, num_bundles = len(cells), policy.num_bundles
    columns = np.ascontiguousarray(cells.reshape(num_users, -1).T)
    inside = np.empty(policy.cloaks.shape[:2], np.int64)
    along = np.empty(num_bundles, np.int64)
    run_sliced(
        lambda a, b: _count_inside(columns, policy.cloaks, a, b, inside, along),
        num_bundles,
        threads,
    )
    is_bundled = policy.bundle >= 0
    reporters = np.zeros((num_bundles, has_row.shape[1]), np.int64)
    np.add.at(reporters, policy.bundle[is_bundled], has_row[is_bundled])
    members = policy.sizes.astype(np.int64)[shown.bundle]
    found = {
        POLICY_UNAWARE: inside[shown.bundle, shown.instant],
        POLICY_AWARE: members,
        TRAJECTORY_AWARE: along[shown.bundle],
        TP_AWARE: members,
        REPORT_AWARE: reporters[shown.bundle, shown.instant],
    }
    (bundle, kind), group = _number_pairs(shown.bundle, shown.kind)
    entries, first_entry = group_by_number(group, len(bundle))
    groups = bundle, shown.instant[entries], first_entry
    users = group_by_number(policy.bundle, num_bundles)
    count = np.empty(len(bundle), np.int64)
    parts = run_sliced(
        lambda a, b: _list_reporters(groups, users, has_row, a, b, count), len(bundle), threads
    )
    first = np.append(0, np.cumsum(count))
    return found, Suspects(group, kind.astype(np.int32), first, np.concatenate(parts))


def link_windows(windows: Sequence[Suspects], num_users: int) -> npt.NDArray[np.int64]:
    """Intersect the possible senders of equal requests over all windows that show them.

    The sender of a request is among those of its own group, and, in every other window that
    shows an equal one, among those of any group that does. ``user`` of all windows must number
    the same users. Returns the sizes of candidate sets, window after window.
    """

    def pair(window: Suspects) -> npt.NDArray[np.int64]:
        kind = np.repeat(window.kind, np.diff(window.first)).astype(np.int64)
        return kind * num_users + window.user

    # Pairs of a distinct request and a user who may have sent it, each once in a window.
    possible = [np.unique(pair(window)) for window in windows]
    pairs, count = np.unique(np.concatenate(possible), return_counts=True)
    shown_in = np.bincount(np.concatenate([np.unique(window.kind) for window in windows]))
    everywhere = pairs[count == shown_in[pairs // num_users]]
    sizes = []
    for window in windows:
        is_left = np.append(0, np.cumsum(np.isin(pair(window), everywhere)))
        sizes.append(np.diff(is_left[window.first])[window.group])
    return np.concatenate(sizes)


def _number_pairs(
    one: npt.NDArray[Any], other: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """List the distinct pairs of two columns, and give each row the number of its own."""
    size = int(other.max(initial=0)) + 1
    distinct, number = np.unique(one.astype(np.int64) * size + other, return_inverse=True)
    return np.stack(np.divmod(distinct, size)), number


def count_breaches(
    policy: str, attacker: str, candidates: npt.NDArray[np.int64], k: int
) -> Finding:
    """Count the requests with too few candidates, and with a single one."""
    return Finding(
        policy=policy,
        attacker=attacker,
        requests=len(candidates),
        breaches=int((candidates < k).sum()),
        smallest_candidate_set=int(candidates.min()) if len(candidates) else 0,
        identified=int((candidates == 1).sum()),
    )


@njit(cache=True, nogil=True)
def _intersect(requests, policy, has_row, begin, end, sizes):  # type: ignore[no-untyped-def]
    """Find, for some senders, the users who fit all their requests.

    Starts from the cloak that holds the fewest users and drops those who do not
    fit another one. ``start`` and ``stop`` (instants, users) say which stretch of ``order`` is
    inside the cloak of a user, and ``place`` is the inverse of ``order``.

    Fills ``sizes``, a column for each sender: how many are inside all cloaks, of these mapped to
    all cloaks, and of these with rows at all instants. Returns the last ones, sender by sender.
    """
    user, instant, first = requests
    cloak, start, stop, order, place = policy
    possible = np.empty(1024, np.int32)
    num_possible = 0
    for s in range(begin, end):
        # The requests of this sender are first[s] .. first[s + 1] - 1; r is one of them.
        sender = user[first[s]]
        fewest = instant[first[s]]
        for r in range(first[s] + 1, first[s + 1]):
            i = instant[r]
            size = stop[i, sender] - start[i, sender]
            if size < stop[fewest, sender] - start[fewest, sender]:
                fewest = i
        sizes[:, s] = 0
        for o in range(start[fewest, sender], stop[fewest, sender]):
            other = order[fewest, o]
            fit = True
            mapped = True
            reported = True
            for r in range(first[s], first[s + 1]):
                i = instant[r]
                if not start[i, sender] <= place[i, other] < stop[i, sender]:
                    fit = False
                    break
                mapped &= cloak[i, other] == cloak[i, sender]
                reported &= has_row[other, i]
            if fit:
                sizes[0, s] += 1
                sizes[1, s] += mapped
                if mapped and reported:
                    sizes[2, s] += 1
                    if num_possible == len(possible):
                        possible = np.concatenate((possible, possible))
                    possible[num_possible] = other
                    num_possible += 1
    return possible[:num_possible]


@njit(cache=True, nogil=True)
def _list_reporters(groups, members, has_row, begin, end, count):  # type: ignore[no-untyped-def]
    """List, for some groups of requests, the members with a row at all their instants.

    ``groups``: the bundle of each, the instants of all requests, and where each group's start.
    ``members``: users by bundle, and where each bundle's start. Fills ``count``, how many there
    are of each group.
    """
    bundle, instant, first = groups
    user, first_member = members
    possible = np.empty(1024, np.int32)
    num_possible = 0
    for g in range(begin, end):
        count[g] = 0
        for m in range(first_member[bundle[g]], first_member[bundle[g] + 1]):
            reported = True
            for r in range(first[g], first[g + 1]):
                reported &= has_row[user[m], instant[r]]
            if reported:
                count[g] += 1
                if num_possible == len(possible):
                    possible = np.concatenate((possible, possible))
                possible[num_possible] = user[m]
                num_possible += 1
    return possible[:num_possible]


@njit(cache=True, nogil=True)
def _count_inside(columns, cloaks, begin, end, inside, along):  # type: ignore[no-untyped-def]
    """Count, for some bundles, the users inside each cloak and inside all of them."""
    num_users = columns.shape[1]
    length = cloaks.shape[1]
    # Whether a user was inside all cloaks of the bundle so far.
    still = np.empty(num_users, np.bool_)
    for b in range(begin, end):
        still[:] = True
        for i in range(length):
            x_start, y_start, x_stop, y_stop = cloaks[b, i]
            xs = columns[2 * i]
            ys = columns[2 * i + 1]
            count = 0
            for u in range(num_users):
                here = (xs[u] >= x_start) & (xs[u] < x_stop) & (ys[u] >= y_start) & (ys[u] < y_stop)
                count += here
                still[u] &= here
            inside[b, i] = count
        along[b] = still.sum()
