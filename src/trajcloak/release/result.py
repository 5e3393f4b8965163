"""The result of a run: a release to be written, and the private policy."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.bundles import Bundles, ShownKinds
from trajcloak.engines.engine import WRITING, Engine, Handle
from trajcloak.options import PER_INSTANT
from trajcloak.output import PRIVATE, new_file, new_folder
from trajcloak.progress import Progress, silent
from trajcloak.release.manifest import Totals
from trajcloak.release.published_rows import ReleaseHead, cut_groups
from trajcloak.release.reading import (
    BUNDLES_FILE,
    MANIFEST_FILE,
    PARTS_FILE,
    POLICY_FILE,
    REQUESTS_FILE,
    check_outputs,
    name_private_files,
)
from trajcloak.release.row_groups import ROWS_PER_GROUP, join_row_groups


@dataclass(frozen=True)
class BundleRange:
    """Some bundles of a window, in order."""

    handle: Handle  # Of a list of :class:`trajcloak.bundles.Bundles`.
    place: int  # Which one of the list.
    length: int  # Instants of the window.
    totals: Totals
    shown: ShownKinds  # The distinct requests that the bundles show.

    @property
    def num_requests(self) -> int:
        """How many requests the bundles show, each once in a set."""
        return int(self.shown.sets.sum())


@dataclass(frozen=True, repr=False)
class RunResult:
    """What a run made: bundles to publish, and the private policy."""

    manifest: dict[str, Any]  # The content of ``manifest.json``.
    # What became of the requests of the log. Private: no part of what is published.
    figures: dict[str, Any]
    _head: ReleaseHead = field(compare=False)
    _ranges: Sequence[BundleRange] = field(compare=False)
    _engine: Engine = field(compare=False)

    @property
    def kinds(self) -> pa.Table:
        """The distinct requests that are published."""
        return self._head.kinds

    @cached_property
    def windows(self) -> list[Bundles]:
        """The bundles, window by window, or range by range of a large window."""
        return [self._engine.read(r.handle)[r.place] for r in self._ranges]

    @cached_property
    def policy(self) -> pa.Table:
        """Private: which user is in which bundle and, with parts per window, in which part."""
        return self._build_table(POLICY_FILE)

    @cached_property
    def policy_parts(self) -> pa.Table | None:
        """Private: which user is in which part of the bundle at which instant.

        None unless there are parts per instant.
        """
        has_any = self._head.parts_per == PER_INSTANT
        return self._build_table(PARTS_FILE) if has_any else None

    def _build_table(self, name: str) -> pa.Table:
        return pq.read_table(pa.BufferReader(self.encode_file(name)))

    def encode_file(self, name: str) -> pa.Buffer:
        """Encode a file of the release, or a private one, in memory."""
        sink = pa.BufferOutputStream()
        self._write_file(name, sink)
        return sink.getvalue()

    def write(
        self,
        release: str | Path,
        policy: str | Path | None = None,
        *,
        progress: Progress = silent,
    ) -> None:
        """Write the release folder and, if asked for, the policy file: both or neither.

        With parts per instant, ``policy.parquet`` comes with ``policy-parts.parquet``.
        """
        policy = None if policy is None else Path(policy)
        private = name_private_files(policy, self._head.parts_per)
        progress(WRITING, 0, 1)
        self._engine.publish(self._write, Path(release), private)
        progress(WRITING, 1, 1)

    def _write(self, release: Path, private: Sequence[Path]) -> None:
        check_outputs(release, private)
        with ExitStack() as stack:
            # Everything gets its final name when the stack is closed.
            folder = stack.enter_context(new_folder(release))
            files = {name: folder / name for name in (BUNDLES_FILE, REQUESTS_FILE)}
            for name, path in zip((POLICY_FILE, PARTS_FILE), private, strict=False):
                files[name] = stack.enter_context(new_file(path, PRIVATE))
            for name, file in files.items():
                with file.open("wb") as stream:
                    self._write_file(name, stream)
            write_manifest(self.manifest, folder)

    def _write_file(self, name: str, stream: BinaryIO) -> None:
        """Have the row groups of a file encoded, and join them."""
        engine, ranges = self._engine, self._ranges
        num_rows: dict[str, Callable[[BundleRange], int]] = {
            BUNDLES_FILE: lambda r: r.totals.rows,
            REQUESTS_FILE: lambda r: r.num_requests,
            POLICY_FILE: lambda r: r.totals.users,
            PARTS_FILE: lambda r: r.totals.users * r.length,
        }
        counts = [num_rows[name](r) for r in ranges]
        first_ids = [0, *accumulate(r.totals.bundles for r in ranges)]
        head = engine.put(self._head)
        jobs = []
        for pieces in cut_groups(counts, ROWS_PER_GROUP):
            handles: list[Handle] = []
            parts = []
            for number, rows in pieces:
                chosen = ranges[number]
                if not handles or handles[-1] is not chosen.handle:
                    handles.append(chosen.handle)
                parts.append((len(handles) - 1, chosen.place, first_ids[number], rows))
            jobs.append((head, handles, name, tuple(parts)))
        # They are kept until the release is there: a run that is interrupted joins them again.
        groups = engine.derive(ReleaseHead.encode_group, jobs)
        join_row_groups((engine.read(group) for group in groups), stream)


def write_manifest(manifest: dict[str, Any], folder: Path) -> None:
    """Write ``manifest.json``."""
    text = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False)
    (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")
