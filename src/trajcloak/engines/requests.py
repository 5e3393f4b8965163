"""Hygiene of requests that are spread over workers: counts add up, since no user is in two."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.engines.engine import Engine, Handle
from trajcloak.engines.partition import Placed, Scene
from trajcloak.hygiene import (
    Attribute,
    RareColumn,
    Treatment,
    check_hygiene,
    count_recurring,
    describe_rare,
    find_rare,
    group_by_sender,
    list_attributes,
    list_sent,
    select_values,
    treat_rare,
)
from trajcloak.log import LogSummary
from trajcloak.options import KEEP
from trajcloak.space import Bounds


def check_spread_requests(
    engine: Engine, parts: Sequence[Handle], kinds: pa.Table, scene: Scene, summary: LogSummary
) -> tuple[tuple[RareColumn, ...], Treatment | None]:
    """Refuse requests that must not be published; see :func:`trajcloak.pipeline.check_requests`."""
    asked = scene.asked
    counted = engine.gather(engine.run(count_part_values, [(part,) for part in parts]))
    attributes = [_add_up(of_parts) for of_parts in zip(*counted, strict=True)]
    rare = find_rare(attributes, asked.rare_below or asked.k)
    published = attributes
    if asked.rare != KEEP:
        published = [select_values(a, ~mask) for a, mask in zip(attributes, rare, strict=True)]
    jobs = [(part, summary.bounds, attributes, published, asked.allow) for part in parts]
    engine.gather(engine.run(check_part_hygiene, jobs))
    windows = scene.grid.origin + scene.ranges * scene.grid.every

    def count(attribute: Attribute, is_rare: npt.NDArray[np.bool_]) -> int:
        jobs = [(part, attribute, is_rare, windows) for part in parts]
        return count_recurring(engine.gather(engine.run(list_part_sent, jobs)))

    return describe_rare(attributes, rare, count), treat_rare(kinds, attributes, rare, asked.rare)


def count_part_values(part: Placed) -> list[Attribute]:
    """Count requests and users of a part for each value of each attribute."""
    return list_attributes(part.log, group_by_sender(part.log))


def check_part_hygiene(
    part: Placed,
    bounds: Bounds,
    attributes: Sequence[Attribute],
    published: Sequence[Attribute],
    allow: Sequence[str],
) -> None:
    """Check the requests of a part, with what is known of the whole log's values."""
    log = replace(part.log, bounds=bounds)
    check_hygiene(log, group_by_sender(log), attributes, published, allow)


def list_part_sent(
    part: Placed,
    attribute: Attribute,
    is_rare: npt.NDArray[np.bool_],
    windows: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """List the rare values that users of a part sent, with the windows."""
    return list_sent(part.log, attribute, is_rare, windows)


def _add_up(parts: Sequence[Attribute]) -> Attribute:
    """Add the counts of parts, which have the same values."""
    return replace(
        parts[0],
        sent=np.sum([part.sent for part in parts], axis=0),
        users=np.sum([part.users for part in parts], axis=0),
    )
