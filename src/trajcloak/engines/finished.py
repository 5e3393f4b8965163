"""Bundles of a window on their way to the place where they are written.

Bundles are numbered by their cloak sequences (invariant 2 of ``docs/guarantee.md``), so
they are cut into ranges of that order, and each range is sorted on its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.bundles import Bundles
from trajcloak.cloaks import encode_cloaks, group_members, order_by_cloaks
from trajcloak.kernels.group import group_by_number

SAMPLE = 64
"""Bundles that are drawn for each range and part, to find where to cut."""


@dataclass(frozen=True)
class Finished:
    """Bundles of a window, and what decides between those that are alike.

    Attributes
    ----------
    bundles : Bundles
        ``user`` and ``bundle`` are left empty; see ``members``.
    rank : (bundles, 2) int64
        Where a bundle stands among all of its window if cloaks and sizes are the same.
    ids : pyarrow.Array
        Ids of the members, bundle after bundle, ascending in each. Private.
    """

    bundles: Bundles
    rank: npt.NDArray[np.int64]
    ids: pa.Array


def finish(
    bundles: Bundles,
    rank: npt.NDArray[np.int64],
    policy_bundle: npt.NDArray[np.int32],
    ids: pa.Array,
) -> Finished:
    """Take what is written of bundles.

    Parameters
    ----------
    bundles
    rank : (bundles, 2) int64
        As the policy numbers bundles.
    policy_bundle
        The policy's bundle of each participant.
    ids
        Of all participants, ascending.
    """
    is_in = bundles.bundle >= 0
    number = np.empty(len(bundles.sizes), np.int64)
    number[bundles.bundle[is_in]] = policy_bundle[is_in]
    members, _ = group_members(bundles.bundle, len(bundles.sizes))
    nobody = np.empty(0, np.int32)
    return Finished(
        replace(bundles, user=nobody, bundle=nobody), rank[number], ids.take(pa.array(members))
    )


def sample_cloaks(finished: Finished, count: int) -> npt.NDArray[np.void]:
    """Draw up to ``count`` cloak sequences, evenly from the sorted bundles."""
    cloaks = finished.bundles.cloaks
    chosen = np.unique(np.linspace(0, len(cloaks) - 1, min(count, len(cloaks))).astype(np.int64))
    return encode_cloaks(cloaks[chosen])


def choose_cuts(samples: Sequence[npt.NDArray[np.void]], parts: int) -> npt.NDArray[np.void]:
    """Choose up to ``parts - 1`` cloak sequences, ascending, that cut the bundles evenly."""
    every = np.sort(np.concatenate(samples))
    if not len(every):
        return every
    return np.unique(every[[len(every) * part // parts for part in range(1, parts)]])


def split_finished(finished: Finished, cuts: npt.NDArray[np.void]) -> list[Finished]:
    """Cut bundles into ranges of the order of cloak sequences."""
    bundles = finished.bundles
    place = np.searchsorted(cuts, encode_cloaks(bundles.cloaks), side="right")
    chosen, first = group_by_number(place, len(cuts) + 1)
    return [
        _select(finished, chosen[first[part] : first[part + 1]]) for part in range(len(cuts) + 1)
    ]


def join_finished(parts: Sequence[Finished]) -> Finished:
    """Put the bundles of a range together, in the order in which they are numbered."""
    sizes = np.concatenate([part.bundles.sizes for part in parts])
    cloaks = np.concatenate([part.bundles.cloaks for part in parts])
    rank = np.concatenate([part.rank for part in parts])
    starts = np.cumsum([0] + [len(part.bundles.sizes) for part in parts[:-1]])
    request_bundle = [
        part.bundles.request_bundle + np.int32(start)
        for part, start in zip(parts, starts, strict=True)
    ]
    one = parts[0].bundles
    whole = Finished(
        replace(
            one,
            cloaks=cloaks,
            sizes=sizes,
            request_bundle=np.concatenate(request_bundle),
            request_instant=np.concatenate([part.bundles.request_instant for part in parts]),
            request_kind=np.concatenate([part.bundles.request_kind for part in parts]),
        ),
        rank,
        pa.concat_arrays([part.ids for part in parts]),
    )
    by_rank = np.lexsort(rank.T[::-1])
    return _select(whole, by_rank[order_by_cloaks(cloaks[by_rank], sizes[by_rank])])


def _select(finished: Finished, chosen: npt.NDArray[np.integer]) -> Finished:
    """Take some bundles, in the order given."""
    bundles = finished.bundles
    number = np.full(len(bundles.sizes), -1, np.int32)
    number[chosen] = np.arange(len(chosen), dtype=np.int32)
    requests, first = group_by_number(number[bundles.request_bundle], len(chosen))
    members, _ = group_by_number(np.repeat(number, bundles.sizes), len(chosen))
    return Finished(
        replace(
            bundles,
            cloaks=bundles.cloaks[chosen],
            sizes=bundles.sizes[chosen],
            request_bundle=np.repeat(np.arange(len(chosen), dtype=np.int32), np.diff(first)),
            request_instant=bundles.request_instant[requests],
            request_kind=bundles.request_kind[requests],
        ),
        finished.rank[chosen],
        finished.ids.take(pa.array(members)),
    )
