"""Hygiene of requests that are spread over workers: counts add up, since no user is in two."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.engines.engine import Engine, Job
from trajcloak.engines.partition import Placed, Scene, of_placed
from trajcloak.hygiene import (
    Attribute,
    RareColumn,
    Treatment,
    count_recurring,
    describe_rare,
    find_rare,
    list_attributes,
    list_sent,
    select_values,
    treat_rare,
)
from trajcloak.hygiene.check import judge_hygiene
from trajcloak.hygiene.identity import IdCounts, add_id_counts, count_ids
from trajcloak.hygiene.ids import Ids
from trajcloak.hygiene.places import PlaceCounts, count_places
from trajcloak.options import KEEP


def check_spread_requests(
    engine: Engine, parts: Sequence[Job], kinds: pa.Table, scene: Scene
) -> tuple[tuple[RareColumn, ...], Treatment | None]:
    """Refuse requests that must not be published; see :func:`trajcloak.pipeline.check_requests`."""
    asked = scene.asked
    counted = engine.ask(count_part_values, parts)
    attributes = [_add_up(of_parts) for of_parts in zip(*counted, strict=True)]
    rare = find_rare(attributes, asked.rare_below or asked.k)
    published = attributes
    if asked.rare != KEEP:
        published = [select_values(a, ~mask) for a, mask in zip(attributes, rare, strict=True)]
    digits = engine.ask(count_part_digits, parts)
    num_digits = np.sum([np.pad(d, (0, max(map(len, digits)) - len(d))) for d in digits], axis=0)
    shared = engine.put(attributes), engine.put(published)
    jobs = [(*part, num_digits, *shared, asked.allow) for part in parts]
    id_counts, place_counts = zip(*engine.ask(count_part_ids, jobs), strict=True)
    judge_hygiene(
        attributes,
        published,
        asked.allow,
        Ids(pa.array([], pa.int64()), num_digits),
        [add_id_counts(of_parts) for of_parts in zip(*id_counts, strict=True)],
        [
            None if of_parts[0] is None else np.sum(of_parts, axis=0)
            for of_parts in zip(*place_counts, strict=True)
        ],
    )
    windows = scene.grid.origin + scene.ranges * scene.grid.every

    def count(attribute: Attribute, is_rare: npt.NDArray[np.bool_]) -> int:
        shared = engine.put(attribute), engine.put(is_rare)
        jobs = [(*part, *shared, windows) for part in parts]
        return count_recurring(engine.ask(list_part_sent, jobs))

    return describe_rare(attributes, rare, count), treat_rare(kinds, attributes, rare, asked.rare)


@of_placed
def count_part_values(part: Placed) -> list[Attribute]:
    """Count requests and users of a part for each value of each attribute."""
    return list_attributes(part.log)


@of_placed
def count_part_digits(part: Placed) -> npt.NDArray[np.int64]:
    """Count the ids of a part that are numbers, by their digits."""
    return Ids(part.log.users).num_digits


@of_placed
def count_part_ids(
    part: Placed,
    num_digits: npt.NDArray[np.int64],
    attributes: Sequence[Attribute],
    published: Sequence[Attribute],
    allow: Sequence[str],
) -> tuple[list[IdCounts], list[PlaceCounts | None]]:
    """Find ids and places of a part in its requests, as they are found in a whole log."""
    log = part.log
    ids = Ids(log.users, num_digits)
    return (
        [count_ids(ids, log, attribute) for attribute in attributes],
        [None if a.name in allow else count_places(log, a) for a in published],
    )


@of_placed
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
