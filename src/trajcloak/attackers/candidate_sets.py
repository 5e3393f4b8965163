"""The candidate set of each request, for each class of attacker.

All attackers know where every user was. They differ in what else they know:

==================  ==========================================  =======================
attacker            of a snapshot policy                        of bundles
==================  ==========================================  =======================
policy-unaware      everyone inside the cloak                   everyone inside the cloak
policy-aware        who is mapped to the cloak                  who is mapped to the bundle
trajectory-aware    inside all cloaks of the same pseudonym     inside all cloaks of the bundle
tp-aware            mapped to all cloaks of the same pseudonym  who is mapped to the bundle
==================  ==========================================  =======================

A snapshot policy publishes each request with its cloak and the sender's pseudonym
(section 1 of the paper); bundles carry no pseudonyms.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.policy import Policy
from trajcloak.kernels.threads import run_sliced
from trajcloak.snapshot import Snapshot

POLICY_UNAWARE = "policy-unaware"
POLICY_AWARE = "policy-aware"
TRAJECTORY_AWARE = "trajectory-aware"
TP_AWARE = "tp-aware"
ATTACKERS = (POLICY_UNAWARE, POLICY_AWARE, TRAJECTORY_AWARE, TP_AWARE)


@dataclass(frozen=True)
class Finding:
    """What one attacker learns from one policy.

    Attributes
    ----------
    policy, attacker : str
    requests : int
        How many requests were attacked.
    breaches : int
        Requests with fewer than k candidates.
    smallest_candidate_set : int
    identified : int
        Requests with a single candidate: the sender is known.
    """

    policy: str
    attacker: str
    requests: int
    breaches: int
    smallest_candidate_set: int
    identified: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary."""
        return asdict(self)


@dataclass(frozen=True)
class Sent:
    """Pairs of a sender and an instant at which they sent at least one request.

    Attributes
    ----------
    user, instant : (pairs,) int32
        Sorted by user, then instant.
    first : (senders + 1,) int64
        Where each sender's pairs start.
    count : (pairs,) int64
        How many requests each pair stands for.
    """

    user: npt.NDArray[np.int32]
    instant: npt.NDArray[np.int32]
    first: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]


def build_sent(user: npt.NDArray[np.int32], instant: npt.NDArray[np.int32], length: int) -> Sent:
    """Gather the requests of each user and instant."""
    pairs, count = np.unique(user.astype(np.int64) * length + instant, return_counts=True)
    sender, when = np.divmod(pairs, length)
    first = np.flatnonzero(np.diff(sender, prepend=-1, append=np.iinfo(np.int64).max))
    return Sent(sender.astype(np.int32), when.astype(np.int32), first, count)


def attack_snapshots(
    snapshots: Sequence[Snapshot], sent: Sent, threads: int
) -> dict[str, npt.NDArray[np.int64]]:
    """Attack a snapshot policy; returns the candidates of each pair, by attacker."""
    cloak = np.stack([snapshot.cloak for snapshot in snapshots])
    start = np.stack([s.start[s.cloak] for s in snapshots])
    stop = np.stack([s.stop[s.cloak] for s in snapshots])
    order = np.stack([snapshot.order for snapshot in snapshots])
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(order.shape[1], dtype=order.dtype)[None], axis=1)
    inside = (stop - start)[sent.instant, sent.user].astype(np.int64)
    mapped = np.stack([np.bincount(c, minlength=int(cloak.max()) + 1)[c] for c in cloak])
    pairs = sent.user, sent.instant, sent.first
    policy = cloak, start, stop, order, place
    linked = np.empty(len(sent.first) - 1, np.int64)
    linked_mapped = np.empty_like(linked)
    run_sliced(
        lambda a, b: _intersect(pairs, policy, a, b, linked, linked_mapped),
        len(linked),
        threads,
    )
    per_sender = np.diff(sent.first)
    return {
        POLICY_UNAWARE: inside,
        POLICY_AWARE: mapped[sent.instant, sent.user],
        TRAJECTORY_AWARE: np.repeat(linked, per_sender),
        TP_AWARE: np.repeat(linked_mapped, per_sender),
    }


def attack_bundles(
    cells: npt.NDArray[np.uint32], policy: Policy, sent: Sent, threads: int
) -> dict[str, npt.NDArray[np.int64]]:
    """Attack a policy of bundles; returns the candidates of each pair, by attacker.

    Pairs of suppressed users are not published and count as having all users as
    candidates.
    """
    num_users = len(cells)
    columns = np.ascontiguousarray(cells.reshape(num_users, -1).T)
    inside = np.empty(policy.cloaks.shape[:2], np.int64)
    along = np.empty(policy.num_bundles, np.int64)
    run_sliced(
        lambda a, b: _count_inside(columns, policy.cloaks, a, b, inside, along),
        policy.num_bundles,
        threads,
    )
    bundle = policy.bundle[sent.user]
    members = policy.sizes.astype(np.int64)[bundle]
    found = {
        POLICY_UNAWARE: inside[bundle, sent.instant],
        POLICY_AWARE: members,
        TRAJECTORY_AWARE: along[bundle],
        TP_AWARE: members,
    }
    return {name: np.where(bundle < 0, num_users, sizes) for name, sizes in found.items()}


def summarize(
    policy: str, attacker: str, candidates: npt.NDArray[np.int64], sent: Sent, k: int
) -> Finding:
    """Count the breaches among candidate sets."""
    return Finding(
        policy=policy,
        attacker=attacker,
        requests=int(sent.count.sum()),
        breaches=int(sent.count[candidates < k].sum()),
        smallest_candidate_set=int(candidates.min()) if len(candidates) else 0,
        identified=int(sent.count[candidates == 1].sum()),
    )


@njit(cache=True, nogil=True)
def _intersect(pairs, policy, begin, end, linked, linked_mapped):  # type: ignore[no-untyped-def]
    """Count, for some senders, the users who fit all their requests.

    Starts from the cloak that holds the fewest users and drops those who do not
    fit another one. Memory: none beyond the output.

    ``start`` and ``stop`` (instants, users) say which stretch of ``order`` is inside the
    cloak of a user, and ``place`` is the inverse of ``order``.
    """
    user, instant, first = pairs
    cloak, start, stop, order, place = policy
    for s in range(begin, end):
        # The pairs of this sender are first[s] .. first[s + 1] - 1; p is one of them.
        sender = user[first[s]]
        fewest = instant[first[s]]
        for p in range(first[s] + 1, first[s + 1]):
            i = instant[p]
            size = stop[i, sender] - start[i, sender]
            if size < stop[fewest, sender] - start[fewest, sender]:
                fewest = i
        fits = 0
        fits_mapped = 0
        for o in range(start[fewest, sender], stop[fewest, sender]):
            other = order[fewest, o]
            fit = True
            mapped = True
            for p in range(first[s], first[s + 1]):
                i = instant[p]
                if not start[i, sender] <= place[i, other] < stop[i, sender]:
                    fit = False
                    break
                mapped &= cloak[i, other] == cloak[i, sender]
            if fit:
                fits += 1
                fits_mapped += mapped
        linked[s] = fits
        linked_mapped[s] = fits_mapped


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
