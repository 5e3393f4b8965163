"""Withhold requests that recur in several windows and would narrow down who sent them all.

An attacker may take equal requests in different windows for those of one sender, and
intersect the members of the bundles that show them. A request is shown in a window only if
at least k users of each of these bundles are left.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.bundles import Bundles
from trajcloak.engines.engine import Engine
from trajcloak.kernels.intern import IntegerIds, TextIds
from trajcloak.release.result import BundleRange


class Possible(NamedTuple):
    """Users who may have sent a request, in the windows that show it so far."""

    # Members of the bundles that show it, bundle after bundle, as far as they are possible senders
    # in all windows.
    user: npt.NDArray[np.int32]  # Their numbers.
    bundle: npt.NDArray[np.int32]  # Numbers the bundle of each; ascending.
    num_bundles: int


def keep_unlinked(
    engine: Engine,
    windows: Sequence[Sequence[BundleRange]],
    shown: Sequence[npt.NDArray[np.int32]],
    num_kinds: int,
    k: int,
) -> list[npt.NDArray[np.bool_]]:
    """Mark, for each window, the distinct requests that stay safe against linking.

    ``shown`` are those that each window would show, ascending, of ``num_kinds`` in all.
    """
    numbers: IntegerIds | TextIds | None = None
    possible: dict[int, Possible] = {}
    safe = []
    for ranges, kinds in zip(windows, shown, strict=True):
        shared = engine.put(kinds)
        jobs = [(r.handle, r.place, shared) for r in ranges]
        found: dict[int, Possible] = {}
        for ids, senders in engine.ask(list_senders, jobs):
            if numbers is None:
                numbers = IntegerIds() if pa.types.is_integer(ids.type) else TextIds()
            number = numbers.intern(ids)
            for kind, members in senders.items():
                one = members._replace(user=number[members.user])
                found[kind] = _join(found[kind], one) if kind in found else one
        kept = np.zeros(num_kinds, np.bool_)
        for kind, here in found.items():
            left = narrow(possible.get(kind), here, k)
            if left is not None:
                possible[kind] = left
                kept[kind] = True
        safe.append(kept)
    return safe


def _join(one: Possible, other: Possible) -> Possible:
    return Possible(
        np.concatenate([one.user, other.user]),
        np.concatenate([one.bundle, other.bundle + one.num_bundles]),
        one.num_bundles + other.num_bundles,
    )


def narrow(before: Possible | None, here: Possible, k: int) -> Possible | None:
    """Intersect the possible senders of one more window; None if fewer than k are left of a bundle.

    The bundles of ``here`` have no member in common.
    """
    left = here
    if before is not None:
        whole = _join(before, here)
        is_left = np.isin(whole.user, here.user[np.isin(here.user, before.user)])
        left = Possible(whole.user[is_left], whole.bundle[is_left], whole.num_bundles)
    counts = np.bincount(left.bundle, minlength=left.num_bundles)
    return left if counts.min(initial=k) >= k else None


def list_senders(
    run: Sequence[Bundles], place: int, kinds: npt.NDArray[np.int32]
) -> tuple[pa.Array, dict[int, Possible]]:
    """List who could have sent each of some distinct requests, in a range of bundles.

    They are those who have a row at every instant where their bundle shows it. Returns the ids of
    all members, and for each distinct request that is shown the positions of its senders in them.
    """
    bundles = run[place]
    length = bundles.stop - bundles.start
    last = np.cumsum(bundles.sizes)
    order = np.argsort(bundles.request_kind, kind="stable")
    edges = np.searchsorted(bundles.request_kind[order], np.append(kinds, kinds + 1))
    senders = {}
    for kind, start, stop in zip(
        kinds.tolist(), edges[: len(kinds)], edges[len(kinds) :], strict=True
    ):
        if start == stop:
            continue
        # Bundles and instants of the sets that show it; bundles ascending.
        bundle, instant = (
            column[order[start:stop]]
            for column in (bundles.request_bundle, bundles.request_instant)
        )
        is_first = np.diff(bundle, prepend=-1) > 0
        shows = bundle[is_first]
        sizes = bundles.sizes[shows]
        rank = np.repeat(np.arange(len(shows)), sizes)
        position = np.arange(len(rank)) + (last[shows] - np.cumsum(sizes))[rank]
        if bundles.has_row is not None:
            needed = np.zeros((len(shows), length), np.bool_)
            needed[np.cumsum(is_first) - 1, instant] = True
            is_possible = (bundles.has_row[position] | ~needed[rank]).all(axis=1)
            position, rank = position[is_possible], rank[is_possible]
        senders[kind] = Possible(position.astype(np.int32), rank.astype(np.int32), len(shows))
    return bundles.ids, senders
