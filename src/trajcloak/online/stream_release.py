"""The release of a stream: its finished epochs, written anew when one more is finished."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.errors import OutputError
from trajcloak.log import LogFacts
from trajcloak.log.request_values import merge_kinds
from trajcloak.online.epoch_files import LOCATIONS_FILE, SHOWN_REQUESTS_FILE, read_cloaks
from trajcloak.online.online_options import OnlineOptions
from trajcloak.online.stream_state import StreamStart, StreamState, replace_private, sync
from trajcloak.online.stream_tables import StreamUsers, add_users
from trajcloak.options import PER_INSTANT, PER_WINDOW, LogColumns, Options
from trajcloak.output import check_new
from trajcloak.release.manifest import (
    LeftOut,
    Totals,
    build_manifest,
    build_totals,
    compute_published_areas,
    merge_totals,
)
from trajcloak.release.published_rows import ReleaseHead, cut_groups, place_box
from trajcloak.release.reading import (
    BUNDLES_FILE,
    PARTS_FILE,
    POLICY_FILE,
    REQUESTS_FILE,
    name_private_files,
    read_manifest,
)
from trajcloak.release.result import write_manifest
from trajcloak.release.row_groups import ROWS_PER_GROUP, join_row_groups
from trajcloak.trajectories import Layout, Located, TimeGrid, build_ingest
from trajcloak.trajectories.reports import add_gaps

ZONE = "UTC"


class FinishedEpoch(NamedTuple):
    """An epoch that is published: its folder, and what is in it."""

    folder: Path
    first_id: int  # The number of its first bundle.
    num_requests: int
    totals: Totals


class StreamRelease:
    """Adds up finished epochs, and writes their release.

    Memory is bounded by the users of the stream and the distinct requests that are shown.

    It stands at ``path``, and the private policy file at ``policy``. The start of ``state`` is
    decided; ``names`` are the request attributes.
    """

    def __init__(
        self,
        path: Path,
        policy: Path,
        state: StreamState,
        options: OnlineOptions,
        names: Sequence[str],
    ) -> None:
        assert state.start is not None
        self._path = path
        self._policy = policy
        self._start: StreamStart = state.start
        self._asked = options
        self._parts_per = None if options.parts is None else PER_INSTANT
        self._epochs: list[FinishedEpoch] = []
        self._num_silent = self._num_rows = 0
        self._kinds = pa.table({name: pa.array([], pa.string()) for name in names})
        self._users = StreamUsers()
        # Of each user: the last instant with a row, and whether they are published.
        self._seen = np.empty(0, np.int64)
        self._is_published = np.empty(0, np.bool_)
        self._gaps: Counter[int] = Counter()
        for folder in state.list_finished():
            self.add(folder)

    @property
    def num_bundles(self) -> int:
        """How many bundles the finished epochs have."""
        return sum(epoch.totals.bundles for epoch in self._epochs)

    def add(self, folder: Path) -> None:
        """Add a finished epoch."""
        self._add_locations(folder)
        members = pq.read_table(folder / POLICY_FILE, columns=["user_id", "bundle_id"])
        self._is_published[self._users.number(members["user_id"])] = True
        columns, cells = read_cloaks(folder)
        first_id = self.num_bundles
        sizes = np.bincount(members["bundle_id"].to_numpy() - first_id)
        areas = compute_published_areas(cells, self._start.region)
        first = np.flatnonzero(np.diff(columns["bundle"], prepend=-1))
        area, cost = (np.add.reduceat(v, first) for v in (areas, areas * columns["users"]))
        totals = build_totals(sizes, cells, area, cost)
        shown = pq.read_table(folder / SHOWN_REQUESTS_FILE)
        self._epochs.append(FinishedEpoch(folder, first_id, shown.num_rows, totals))
        num_sets = len(np.unique(columns["bundle"] * np.int64(2**32) + columns["instant"]))
        self._num_silent += len(sizes) * self._asked.epoch - num_sets
        if self._kinds.num_columns:
            distinct = shown.select(self._kinds.column_names).group_by(self._kinds.column_names)
            self._kinds, _ = merge_kinds([self._kinds, distinct.aggregate([])])

    def _add_locations(self, folder: Path) -> None:
        """Add who was located when; epochs come in order, and instants in each."""
        origin, every = self._start.origin, self._asked.every
        with pq.ParquetFile(folder / LOCATIONS_FILE) as file:
            for batch in file.iter_batches(columns=["user_id", "time"]):
                table = pa.Table.from_batches([batch])
                user = self._users.number(table["user_id"])
                self._seen = add_users(self._seen, self._users.count, -1)
                self._is_published = add_users(self._is_published, self._users.count, False)
                instant = (table["time"].cast(pa.int64()).to_numpy() - origin) // every
                # A user has one row at an instant, and a batch may hold several instants.
                for now in np.unique(instant):
                    here = user[instant == now]
                    gap = now - self._seen[here]
                    known, counts = np.unique(gap[self._seen[here] >= 0], return_counts=True)
                    self._gaps.update(dict(zip(known.tolist(), counts.tolist(), strict=True)))
                    self._seen[here] = now
                self._num_rows += len(user)

    def write(self) -> None:
        """Write the release of all finished epochs, and the private policy; none: nothing."""
        if not self._epochs:
            return
        asked, start = self._asked, self._start
        total = merge_totals([epoch.totals for epoch in self._epochs])
        head = ReleaseHead(
            start.crs,
            self._kinds,
            start.region,
            (start.origin, asked.every),
            ZONE,
            place_box(start.region, total.low, total.high),
            self._parts_per,
        )
        fresh = self._path.with_name(f".{self._path.name}.next")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        for name, counts, build in (
            (BUNDLES_FILE, [e.totals.rows for e in self._epochs], _build_bundle_rows),
            (REQUESTS_FILE, [e.num_requests for e in self._epochs], _build_request_rows),
        ):
            groups = (
                head.encode_rows(name, [build(head, self._epochs[e], rows) for e, rows in pieces])
                for pieces in cut_groups(counts, ROWS_PER_GROUP)
            )
            with (fresh / name).open("wb") as stream:
                join_row_groups(groups, stream)
        write_manifest(self.build_manifest(), fresh)
        for file in (*fresh.iterdir(), fresh):
            sync(file)
        self._write_policy()
        self._exchange(fresh)

    def _exchange(self, fresh: Path) -> None:
        """Put a release in the place of the one before; for a moment there is none."""
        old = self._path.with_name(f".{self._path.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if self._path.exists():
            self._check_own()
            self._path.rename(old)
        check_new(self._path)
        fresh.rename(self._path)
        shutil.rmtree(old, ignore_errors=True)

    def _write_policy(self) -> None:
        private = name_private_files(self._policy, self._parts_per)
        for name, file in zip((POLICY_FILE, PARTS_FILE), private, strict=False):
            parts = (pa.memory_map(str(e.folder / name)).read_buffer() for e in self._epochs)
            with replace_private(file) as stream:
                join_row_groups(parts, stream)

    def build_manifest(self) -> dict[str, Any]:
        """Build the content of ``manifest.json``."""
        asked, start = self._asked, self._start
        num_windows = int(self._epochs[-1].folder.name) + 1
        grid = TimeGrid(start.origin, asked.every, num_windows * asked.epoch, True)
        options = Options(
            k=asked.k,
            length=asked.epoch,
            parts=asked.parts,
            parts_per=self._parts_per or PER_WINDOW,
            vocabulary=asked.vocabulary,
            rare=asked.rare,
            rare_below=asked.rare_below,
        )
        layout = Layout(
            options, grid, asked.every, np.empty((0, 2), np.int64), start.region, start.crs, False
        )
        facts = self._describe_log()
        left_out = LeftOut(
            published_users=int(self._is_published.sum()),
            gone_users=int((~self._is_published).sum()),
            num_windows=num_windows - len(self._epochs),
            num_sets=self._num_silent,
        )
        gaps = {length * asked.every: count for length, count in self._gaps.items()}
        missing = facts.num_users * grid.num_instants - facts.num_rows
        manifest = build_manifest(
            facts,
            layout,
            [(asked.epoch, epoch.totals) for epoch in self._epochs],
            left_out,
            build_ingest(
                facts,
                grid,
                asked.every,
                Located(facts.num_rows, 0, 0, missing),
                add_gaps(gaps, asked.every),
            ),
            self._kinds.column_names,
            facts.num_requests,
            0,
        )
        manifest["parameters"]["stream"] = asked.describe()
        return manifest

    def _check_own(self) -> None:
        """Raise if what stands in the place of the release is not of this stream."""
        found: Mapping[str, Any] = read_manifest(self._path)
        own = self.build_manifest()
        names = ("k", "parameters", "crs", "region", "height", "parts")
        if any(found[name] != own[name] for name in names):
            raise OutputError(
                f"{self._path}: holds the release of something else; expected that of this stream, "
                f"or nothing; pass another --output"
            )

    def _describe_log(self) -> LogFacts:
        """Describe the private log of the stream as if it had been read."""
        start, every = self._start, self._asked.every
        region = start.region
        x_max, y_max = region.x_min + region.side, region.y_min + region.side
        return LogFacts(
            num_rows=self._num_rows,
            num_users=self._users.count,
            num_requests=sum(epoch.num_requests for epoch in self._epochs),
            has_integer_ids=False,
            has_timestamps=True,
            zone=ZONE,
            geographic=False,
            step=every,
            time_range=(start.origin, start.origin + int(self._seen.max()) * every),
            bounds=(region.x_min, region.y_min, x_max, y_max),
            crs=start.crs,
            reading=LogColumns(crs=start.crs).reading,
            is_one_log=False,
        )


def _build_bundle_rows(head: ReleaseHead, epoch: FinishedEpoch, rows: slice) -> list[Any]:
    columns, cells = read_cloaks(epoch.folder)
    return head.build_bundle_columns(
        int(epoch.folder.name),
        epoch.first_id + columns["bundle"][rows].astype(np.int64),
        columns["instant"][rows].astype(np.int64),
        [] if head.parts_per is None else [columns["part"][rows]],
        cells[rows],
        columns["users"][rows],
    )


def _build_request_rows(head: ReleaseHead, epoch: FinishedEpoch, rows: slice) -> list[Any]:
    shown = pq.read_table(epoch.folder / SHOWN_REQUESTS_FILE)
    # By instant in the file; by bundle first in the release.
    order = np.lexsort([shown["instant"].to_numpy(), shown["bundle"].to_numpy()])
    shown = shown.take(pa.array(order[rows]))
    kind = np.empty(0, np.int32)
    if shown.num_rows:
        _, (_, kind) = merge_kinds([head.kinds, shown.select(head.kinds.column_names)])
    return head.build_request_columns(
        int(epoch.folder.name),
        epoch.first_id + shown["bundle"].to_numpy().astype(np.int64),
        shown["instant"].to_numpy(),
        kind,
    )
