"""A log whose rows are on disk, in parts that each hold all rows of some users."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.bounded.memory import release_memory
from trajcloak.bounded.spill import Columns, Spill
from trajcloak.bounded.work import WorkFolder
from trajcloak.log import RequestLog, Requests

PART_TYPES = {
    "user": np.int32,
    "time": np.int64,
    "x": np.float64,
    "y": np.float64,
    "file_row": np.int64,
    "kind": np.int32,
}
"""Users and kinds by the numbers that they had while the log was read; kind -1: no request."""

LOG, USERS, KINDS = "log.json", "users.arrow", "kinds.arrow"
USER_NUMBERS, KIND_NUMBERS = "user_numbers.npy", "kind_numbers.npy"
FACTS = (
    "has_timestamps", "zone", "geographic", "step", "time_range", "bounds", "clock", "crs",
    "dropped", "shifted", "reading",
)  # fmt: skip
"""What is known of a log besides its rows, users and requests."""


@dataclass(frozen=True, kw_only=True, repr=False)
class StoredLog(RequestLog):
    """A log of which only the users, the distinct requests and what is true of all rows are held.

    Attributes
    ----------
    spill : Spill
        Its rows; the columns of the log itself are empty.
    user_numbers, kind_numbers : int32
        Place in ``users`` and ``requests.kinds`` of the numbers in the files.
    stored_requests : int
    """

    spill: Spill
    user_numbers: npt.NDArray[np.int32]
    kind_numbers: npt.NDArray[np.int32]
    stored_requests: int

    @property
    def num_rows(self) -> int:
        """How many rows the log has."""
        return sum(self.spill.sizes)

    @property
    def num_requests(self) -> int:
        """How many requests the log has."""
        return self.stored_requests

    @property
    def num_parts(self) -> int:
        """In how many files the rows are."""
        return len(self.spill.sizes)

    @property
    def num_bytes(self) -> int:
        """How much memory that takes which is held."""
        held = self.users, self.requests.kinds, self.user_numbers, self.kind_numbers
        return sum(each.nbytes for each in held)

    def parts(self) -> Iterator[RequestLog]:
        """Yield the log in parts, each with all rows of some of the users."""
        return (part for _, part in self.numbered_parts())

    def numbered_parts(self) -> Iterator[tuple[int, RequestLog]]:
        """Yield the parts that have rows, with the numbers of their files."""
        for number in range(self.num_parts):
            if self.spill.sizes[number]:
                yield number, self.load(number)
                release_memory()

    def load(self, number: int) -> RequestLog:
        """Read the rows of a file."""
        columns = self.spill.load(number)
        return build_stretch(
            self,
            {
                **columns,
                "user": self.user_numbers[columns["user"]],
                # The last is that of -1, which stands for no request.
                "kind": self.kind_numbers[columns["kind"]],
            },
        )


def build_stretch(log: RequestLog, columns: Columns) -> RequestLog:
    """Build a log of some rows of another; kind -1 stands for no request."""
    rows = np.flatnonzero(columns["kind"] >= 0)
    facts = {name: getattr(log, name) for name in FACTS}
    return RequestLog(
        users=log.users,
        user=columns["user"],
        time=columns["time"],
        x=columns["x"],
        y=columns["y"],
        requests=Requests(rows, columns["kind"][rows], log.requests.kinds),
        file_row=columns.get("file_row"),
        **facts,
    )


def save_log(work: WorkFolder, log: StoredLog) -> None:
    """Note that all rows of a log are in the work folder."""
    with work.new_file(USERS) as path:
        _write_table(pa.table({"user": log.users}), path)
    with work.new_file(KINDS) as path:
        _write_table(log.requests.kinds, path)
    for name, numbers in ((USER_NUMBERS, log.user_numbers), (KIND_NUMBERS, log.kind_numbers)):
        with work.new_file(name) as path, path.open("wb") as file:
            np.save(file, numbers)
    facts = {name: getattr(log, name) for name in FACTS}
    work.save(
        LOG,
        {
            "facts": facts,
            "folder": log.spill.folder.name,
            "sizes": log.spill.sizes,
            "requests": log.stored_requests,
        },
    )


def load_log(work: WorkFolder) -> StoredLog | None:
    """Take over the log that an interrupted run has read; None if it has not."""
    known = work.load(LOG)
    if known is None:
        return None
    facts: dict[str, Any] = known["facts"]
    facts |= {name: tuple(facts[name]) for name in ("time_range", "bounds")}
    spill = Spill(work.path / known["folder"], PART_TYPES, known["sizes"])
    spill.check()
    return build_stored(
        _read_table(work.path / USERS).column(0).combine_chunks(),
        _read_table(work.path / KINDS),
        facts,
        spill,
        np.load(work.path / USER_NUMBERS),
        np.load(work.path / KIND_NUMBERS),
        known["requests"],
    )


def build_stored(
    users: pa.Array,
    kinds: pa.Table,
    facts: dict[str, Any],
    spill: Spill,
    user_numbers: npt.NDArray[np.int32],
    kind_numbers: npt.NDArray[np.int32],
    num_requests: int,
) -> StoredLog:
    """Put together what is held of a stored log."""
    nothing = np.empty(0, np.int32)
    return StoredLog(
        users=users,
        user=nothing,
        time=np.empty(0, np.int64),
        x=np.empty(0),
        y=np.empty(0),
        requests=Requests(np.empty(0, np.int64), nothing, kinds),
        **facts,
        spill=spill,
        user_numbers=user_numbers,
        kind_numbers=kind_numbers,
        stored_requests=num_requests,
    )


def _write_table(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _read_table(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        return reader.read_all()
