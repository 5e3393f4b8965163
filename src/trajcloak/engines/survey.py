"""From the rows of a log to its parts on the plane, by user, and to instants, windows and region.

Every question here is asked of the parts, each of which holds some users with all their rows,
and the answers are small; see :mod:`.partition` for what is done with a part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.engines.engine import Engine, Job, fetch
from trajcloak.engines.partition import (
    Description,
    Scene,
    bound_part_turned,
    compare_part_reports,
    count_part_measures,
    count_part_places,
    describe,
    find_part_beyond,
    find_part_far,
    find_part_outside,
    get_bounds,
    join_and_clean,
    number_part_found,
    place,
    read_and_split,
    sum_part_spans,
)
from trajcloak.engines.sources import Source
from trajcloak.log import LogSummary, SomeRows
from trajcloak.log.clean import check_reachable, check_some_left
from trajcloak.log.misplaced import Bulk, Find, Measure, judge_misplaced
from trajcloak.log.requests import merge_kinds
from trajcloak.log.rows import no_rows
from trajcloak.log.summary import add_counts, merge_bounds, merge_summaries
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import lay_out
from trajcloak.space import (
    Bounds,
    Projection,
    check_cells,
    check_size,
    choose_projection,
    fit_region,
    join_bounds,
    judge_inside,
    judge_outliers,
    judge_reach,
)
from trajcloak.trajectories import Ingest, Located, Reports, sum_up_ingest


@dataclass(frozen=True)
class SpreadLog:
    """A log in parts: each holds some users with all their rows.

    Attributes
    ----------
    parts : list of Job
        The first arguments of functions of a part: a handle of its
        :class:`trajcloak.engines.partition.Cleaned`, and of its ``Placement`` as soon as the
        log lies on the plane.
    summary : LogSummary
    kinds : pyarrow.Table
        The distinct requests of the whole log.
    """

    parts: list[Job]
    summary: LogSummary
    kinds: pa.Table


def exchange_log(
    engine: Engine, source: Source, columns: LogColumns, rows_per_part: int
) -> tuple[SpreadLog, list[npt.NDArray[np.int32]]]:
    """Read a log and give each user with all rows to one part.

    Returns also, of each part, the number of each of its distinct requests in the whole log.
    """
    num_parts = max(1, -(-source.num_rows // rows_per_part))
    *pieces, readings = engine.exchange(
        read_and_split,
        [
            (part.content, part.first_row, columns, source.head, num_parts, engine.threads)
            for part in source.parts
        ],
        num_parts + 1,
    )
    cleaned = engine.run(join_and_clean, [(of_part, columns) for of_part in pieces])
    del pieces
    described: list[Description] = engine.ask(describe, [(part,) for part in cleaned])
    dropped, shifted = (
        add_counts(counts) for counts in zip(*fetch(engine, readings), ({}, {}), strict=True)
    )
    kept = [i for i, part in enumerate(described) if part.summary is not None]
    if not kept:
        if any(part.dropped for part in described):
            check_some_left(0)
        raise no_rows(source.num_rows, source.name)
    summaries = [part.summary for part in described if part.summary is not None]
    cleaning = [part.dropped for part in described]
    summary = replace(
        merge_summaries(summaries, columns.user, columns.time),
        dropped=add_counts([dropped, *cleaning]),
        shifted=shifted,
    )
    check_reachable(SomeRows(part.far for part in described), summary, columns)
    kinds, numbers = merge_kinds([part.kinds for part in described if part.kinds is not None])
    return SpreadLog([(cleaned[i],) for i in kept], summary, kinds), numbers


def check_spread_misplaced(engine: Engine, log: SpreadLog) -> None:
    """Raise if rows are swapped or at 0, 0; see :func:`trajcloak.log.misplaced.check_misplaced`."""

    def count(measure: Measure, found: np.uint64, shift: int) -> list[npt.NDArray[np.int64]]:
        jobs = [(*part, measure, found, shift) for part in log.parts]
        return engine.ask(count_part_measures, jobs)

    def number(find: Find, bulk: Bulk) -> list[npt.NDArray[np.int64]]:
        jobs = [(*part, log.summary.bounds, find, bulk) for part in log.parts]
        return engine.ask(number_part_found, jobs)

    judge_misplaced(log.summary, count, number)


def place_log(
    engine: Engine, log: SpreadLog, numbers: Sequence[npt.NDArray[np.int32]]
) -> tuple[SpreadLog, str | None]:
    """Lay the parts of a log on the plane, and number their requests as the whole log does."""
    summary = log.summary
    projection = Projection(summary.crs, summary.bounds)
    if summary.geographic:
        bounds, joins = join_bounds(
            summary.bounds, lambda: engine.ask(bound_part_turned, log.parts)
        )
        projection = Projection(choose_projection(bounds), None, joins)
    kinds = engine.put(log.kinds)
    placed = engine.run(
        place,
        [
            (*part, summary, kinds, engine.put(number), projection, engine.threads)
            for part, number in zip(log.parts, numbers, strict=True)
        ],
    )
    parts = [(*part, placement) for part, placement in zip(log.parts, placed, strict=True)]
    return SpreadLog(parts, summary, log.kinds), projection.crs


def lay_out_log(engine: Engine, log: SpreadLog, asked: Options, crs: str | None) -> Scene:
    """Choose instants, windows and region."""

    def spans(step: int) -> int:
        return sum(engine.ask(sum_part_spans, [(*part, step) for part in log.parts]))

    grid, max_gap, ranges, region = lay_out(log.summary, asked, spans)
    bounds = merge_bounds(engine.ask(get_bounds, [(placement,) for _, placement in log.parts]))
    judge_reach(bounds, lambda: engine.ask(find_part_beyond, log.parts))
    if region is None:
        _check_outliers(engine, log, bounds)
        region = fit_region(bounds, asked.height, in_metres=crs is not None)
    else:
        jobs = [(*part, region) for part in log.parts]
        judge_inside(bounds, region, lambda: engine.ask(find_part_outside, jobs))
    check_cells(region)
    check_size(region)
    return Scene(asked, grid, max_gap, ranges, region, crs)


def _check_outliers(engine: Engine, log: SpreadLog, bounds: Bounds) -> None:
    """Raise if a few far rows blow the region up; see :func:`trajcloak.space.check_outliers`."""
    judge_outliers(
        bounds,
        lambda: engine.ask(count_part_places, [(*p, bounds, engine.threads) for p in log.parts]),
        lambda stretches: engine.ask(find_part_far, [(*part, stretches) for part in log.parts]),
    )


def build_spread_ingest(
    engine: Engine, log: SpreadLog, scene: Scene, parts: Sequence[Located]
) -> Ingest:
    """Report on the log, whose parts are not needed after that."""
    located = Located(*np.sum(parts, axis=0).tolist())
    ingest = sum_up_ingest(
        log.summary,
        scene.grid,
        scene.max_gap,
        located,
        lambda: compare_spread_reports(engine, log, scene.max_gap),
    )
    log.parts.clear()
    return ingest


def compare_spread_reports(engine: Engine, log: SpreadLog, long: int) -> Reports:
    """Compare the reports of all users; see :func:`trajcloak.trajectories.compare_reports`."""
    jobs = [(*part, long, engine.threads) for part in log.parts]
    parts: list[Reports] = engine.ask(compare_part_reports, jobs)
    return reduce(Reports.plus, parts)
