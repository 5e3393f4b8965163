"""From bundles that are spread over the workers to the files of a release."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.engines.bundling import Bundled
from trajcloak.engines.engine import Engine, Handle
from trajcloak.engines.finished import (
    Finished,
    choose_cuts,
    join_finished,
    sample_cloaks,
    split_finished,
)
from trajcloak.engines.scratch import remove_folder
from trajcloak.manifest import Totals, add_up
from trajcloak.output import PRIVATE, new_file, new_folder
from trajcloak.parquet import encode_row_group, join_row_groups
from trajcloak.published import BUNDLES_FILE, REQUESTS_FILE
from trajcloak.release import (
    ROWS_PER_GROUP,
    Piece,
    Release,
    check_outputs,
    cut_groups,
    write_manifest,
)
from trajcloak.space import Region

SAMPLE = 64
"""Bundles that are drawn for each range and part, to find where to cut."""


def order_bundles(engine: Engine, bundled: Bundled) -> Sequence[Handle]:
    """Sort the bundles of a window into ranges, in the order in which they are numbered."""
    parts = len(bundled.finished)
    if parts == 1:
        return engine.run(join_finished, [(list(bundled.finished),)])
    samples = engine.ask(sample_cloaks, [(part, SAMPLE) for part in bundled.finished])
    cuts = choose_cuts(samples, parts)
    shared = engine.put(cuts)
    pieces = engine.exchange(
        split_finished, [(part, shared) for part in bundled.finished], len(cuts) + 1
    )
    return engine.run(join_finished, [(of_range,) for of_range in pieces])


def total_range(
    part: Finished, region: Region, num_kinds: int
) -> tuple[Totals | None, npt.NDArray[np.bool_]]:
    """Add up the bundles of a range, and mark the requests that they hold."""
    is_published = np.zeros(num_kinds, np.bool_)
    is_published[part.bundles.request_kind] = True
    return (add_up(part.bundles, region) if len(part.bundles.sizes) else None), is_published


@dataclass(frozen=True)
class Range:
    """Some bundles of a window, in order, on a worker.

    Attributes
    ----------
    finished : Handle
    window : int
    totals : Totals
    length : int
        Instants of the window.
    """

    finished: Handle
    window: int
    totals: Totals
    length: int


@dataclass(frozen=True)
class SpreadRelease:
    """A release whose bundles are spread over workers.

    Attributes
    ----------
    engine : Engine
    head : Release
        All but the bundles.
    ranges : sequence of Range
        Of all windows, in order.
    number : (kinds,) int32
        What number each distinct request has among the published ones.
    """

    engine: Engine
    head: Release
    ranges: Sequence[Range]
    number: npt.NDArray[np.int32]

    def write(self, path: Path, policy: Path | None) -> None:
        """Write the release folder and, if asked for, the policy file: both or neither."""
        check_outputs(path, policy)
        with ExitStack() as stack:
            parts = stack.enter_context(_parts_folder(path))
            folder = stack.enter_context(new_folder(path))
            if policy is not None:
                file = stack.enter_context(new_file(policy, PRIVATE))
                self._join(self._write_policy(parts), file)
            for name, counts in (
                (BUNDLES_FILE, [r.totals.bundles * r.length for r in self.ranges]),
                (REQUESTS_FILE, [r.totals.requests for r in self.ranges]),
            ):
                self._join(self._write_groups(parts, name, counts), folder / name)
            write_manifest(self.head.manifest, folder)

    @property
    def _first_ids(self) -> list[int]:
        return [0, *accumulate(r.totals.bundles for r in self.ranges)]

    def _write_groups(self, parts: Path, name: str, counts: Sequence[int]) -> list[Path]:
        first_ids = self._first_ids
        head, number = self.engine.put(self.head), self.engine.put(self.number)
        jobs = []
        for group, pieces in enumerate(cut_groups(counts, ROWS_PER_GROUP)):
            chosen = [self.ranges[r].finished for r, _ in pieces]
            firsts = [first_ids[r] for r, _ in pieces]
            slices = [(i, rows) for i, (_, rows) in enumerate(pieces)]
            file = parts / f"{name}.{group}"
            jobs.append((chosen, head, number, firsts, name, slices, file))
        return self.engine.ask(write_group, jobs)

    def _write_policy(self, parts: Path) -> list[Path]:
        jobs = [
            (r.finished, r.window, first_id, parts / f"policy.{i}")
            for i, (r, first_id) in enumerate(zip(self.ranges, self._first_ids, strict=False))
        ]
        return self.engine.ask(write_members, jobs)

    def _join(self, files: list[Path], path: Path) -> None:
        self.engine.ask(join_files, [(files, path)])


def write_group(
    ranges: Sequence[Finished],
    head: Release,
    number: npt.NDArray[np.int32],
    first_ids: Sequence[int],
    name: str,
    pieces: Sequence[Piece],
    path: Path,
) -> Path:
    """Encode a row group of a file and write it beside the others; returns its path."""
    windows = [
        replace(part.bundles, request_kind=number[part.bundles.request_kind]) for part in ranges
    ]
    release = replace(head, windows=windows, first_ids=first_ids)
    batch = release.build_group(name, pieces)
    return _put(encode_row_group(batch, store_schema=head.stores_schema(name)), path)


def write_members(part: Finished, window: int, first_id: int, path: Path) -> Path:
    """Encode the members of a range of bundles as a row group of the policy file."""
    sizes = part.bundles.sizes
    batch = pa.record_batch(
        {
            "window": np.full(len(part.ids), window, np.int32),
            "user_id": part.ids,
            "bundle_id": first_id + np.repeat(np.arange(len(sizes)), sizes),
        }
    )
    return _put(encode_row_group(batch, store_schema=False), path)


def _put(content: pa.Buffer, path: Path) -> Path:
    """Write a file that another try may be writing too: it appears complete."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)
    return path


def join_files(parts: Sequence[Path], path: Path) -> None:
    """Join the row groups of a file."""
    with path.open("wb") as file:
        join_row_groups((pa.memory_map(str(part)).read_buffer() for part in parts), file)


@contextmanager
def _parts_folder(path: Path) -> Iterator[Path]:
    """Make a private folder beside the release, and remove it in the end."""
    folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".parts"))
    try:
        yield folder
    finally:
        remove_folder(folder)
