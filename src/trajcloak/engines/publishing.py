"""From bundles that are spread over the workers to the files of a release."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.bundles import Bundles
from trajcloak.engines.bundling import Bundled
from trajcloak.engines.engine import Engine, Handle
from trajcloak.engines.finished import (
    Finished,
    choose_cuts,
    join_finished,
    sample_cloaks,
    split_finished,
)
from trajcloak.manifest import Totals, add_up
from trajcloak.space import Region

SAMPLE = 64
"""Bundles that are drawn for each range and worker's part, to find where to cut."""


def order_bundles(engine: Engine, bundled: Bundled) -> list[Handle]:
    """Sort the bundles of a window into ranges, in the order in which they are numbered."""
    parts = len(bundled.finished)
    if parts == 1:
        return engine.run(join_finished, [(bundled.finished,)])
    samples = engine.gather(
        engine.run(sample_cloaks, [(part, SAMPLE) for part in bundled.finished])
    )
    cuts = choose_cuts(samples, parts)
    pieces = engine.exchange(
        split_finished, [(part, cuts) for part in bundled.finished], len(cuts) + 1
    )
    return engine.run(join_finished, [(of_range,) for of_range in pieces])


def total_range(
    part: Finished, region: Region, num_kinds: int
) -> tuple[Totals | None, npt.NDArray[np.bool_]]:
    """Add up the bundles of a range, and mark the requests that they hold."""
    is_published = np.zeros(num_kinds, np.bool_)
    is_published[part.bundles.request_kind] = True
    return (add_up(part.bundles, region) if len(part.bundles.sizes) else None), is_published


def join_bundles(parts: Sequence[Finished], number: npt.NDArray[np.int32]) -> tuple[Bundles, Any]:
    """Put all ranges of a window together, requests numbered anew; and the members' ids."""
    starts = np.cumsum([0] + [len(part.bundles.sizes) for part in parts[:-1]])
    every = [part.bundles for part in parts]
    request_bundle = [
        b.request_bundle + np.int32(start) for b, start in zip(every, starts, strict=True)
    ]
    return replace(
        every[0],
        cloaks=np.concatenate([b.cloaks for b in every]),
        sizes=np.concatenate([b.sizes for b in every]),
        request_bundle=np.concatenate(request_bundle),
        request_instant=np.concatenate([b.request_instant for b in every]),
        request_kind=number[np.concatenate([b.request_kind for b in every])],
    ), pa.concat_arrays([part.ids for part in parts])
