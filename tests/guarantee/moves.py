"""The same log with requests that others sent: the published bytes must not tell."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import trajcloak as tc
from guarantee.movable_logs import (
    MARKED,
    MORNING,
    NOTHING,
    ONE_LOG,
    Inputs,
    MovableLog,
    Request,
    Values,
    draw_values,
    write_log,
)
from runs import anonymize
from small_logs import new_folder
from trajcloak.engines.engine import Engine
from trajcloak.log import read_in_memory
from trajcloak.options import Options
from trajcloak.pipeline import anonymize_on
from trajcloak.release.result import RunResult

Anonymize = Callable[[Inputs, Path], RunResult]
"""Takes the inputs of a run, and an empty folder."""


def anonymize_in_memory(given: Inputs, folder: Path) -> RunResult:
    return anonymize(
        given.source,
        given.k,
        columns=given.columns,
        request_log=given.request_log,
        threads=1,
        **given.options,
    )


def anonymize_with(engine: Engine, given: Inputs) -> RunResult:
    asked = Options(k=given.k, **given.options)
    return anonymize_on(engine, given.source, given.columns, asked, given.request_log)


class Outcome(NamedTuple):
    """The files of a release, or the error; and the private policy."""

    files: dict[str, bytes] | tuple[str, str]
    policy: list[Any]


def publish(
    log: MovableLog, requests: Sequence[Request], anonymize: Anonymize = anonymize_in_memory
) -> Outcome:
    with new_folder() as folder:
        given = write_log(log, requests, folder)
        (folder / "scratch").mkdir()
        try:
            result = anonymize(given, folder / "scratch")
            result.write(folder / "release", folder / "policy.parquet")
        except tc.TrajcloakError as error:
            message = str(error).replace(str(folder), "")
            return Outcome((type(error).__name__, message), [])
        return Outcome(
            {file.name: file.read_bytes() for file in sorted((folder / "release").iterdir())},
            pq.read_table(folder / "policy.parquet").to_pylist(),
        )


@dataclass(frozen=True)
class Sets:
    """Where requests can be published, from a release without any.

    Attributes
    ----------
    start
        When each instant starts, in seconds.
    every
        How long it lasts.
    window
        The window of each instant.
    members
        The users of each bundle.
    bundle
        The bundle of each window and user.
    """

    start: dict[int, int]
    every: int
    window: dict[int, int]
    members: dict[int, list[Any]]
    bundle: dict[tuple[int, Any], int]

    def find(self, user: Any, time: int) -> tuple[int, int] | None:
        """Find the bundle and the instant of a user and a time, if there is a set."""
        for instant, start in self.start.items():
            if start <= time < start + self.every:
                bundle = self.bundle.get((self.window[instant], user))
                return None if bundle is None else (bundle, instant)
        return None


def find_sets(log: MovableLog, blank: Outcome) -> Sets:
    assert isinstance(blank.files, dict)
    table = pq.read_table(pa.BufferReader(blank.files["bundles.parquet"])).to_pylist()
    origin = json.loads(blank.files["manifest.json"])["parameters"]["origin"]
    if log.has_moments:
        origin = int((datetime.fromisoformat(origin) - MORNING).total_seconds())
    members = defaultdict(list)
    for row in blank.policy:
        members[row["bundle_id"]].append(row["user_id"])
    return Sets(
        {row["instant"]: origin + row["instant"] * log.every for row in table},
        log.every,
        {row["instant"]: row["window"] for row in table},
        members,
        {(row["window"], row["user_id"]): row["bundle_id"] for row in blank.policy},
    )


def list_surviving(log: MovableLog) -> list[int]:
    """List the reports that survive cleaning."""
    with new_folder() as folder:
        given = write_log(log, [], folder)
        read = read_in_memory(given.source, given.columns, given.request_log, threads=1)
    return list(range(read.num_rows)) if read.file_row is None else read.file_row.tolist()


def find_rows(log: MovableLog, sets: Sets) -> dict[tuple[int, int], list[int]]:
    """One log: list the reports of each eligible set."""
    rows = defaultdict(list)
    for row in list_surviving(log):
        place = sets.find(*log.reports[row][:2])
        if place is not None:
            rows[place].append(row)
    return {
        place: found
        for place, found in rows.items()
        if len({log.reports[row].user for row in found}) >= log.k
    }


def swap_two(
    log: MovableLog,
    requests: Sequence[Request],
    rows: dict[tuple[int, int], list[int]],
    rng: np.random.Generator,
) -> list[Request]:
    """One log: swap the contents of two rows of two users, in one eligible set."""
    contents = {request.row: request.values for request in requests}
    pairs = [
        (one, other)
        for of_set in rows.values()
        for one in of_set
        for other in of_set
        if log.reports[one].user != log.reports[other].user
        and contents.get(one, NOTHING) != contents.get(other, NOTHING)
    ]
    if pairs:
        one, other = pairs[rng.integers(len(pairs))]
        swapped = contents.get(other, NOTHING), contents.get(one, NOTHING)
        contents[one], contents[other] = swapped
    return _carry(log, contents)


def rewrite_rows(
    log: MovableLog,
    requests: Sequence[Request],
    rows: dict[tuple[int, int], list[int]],
    rng: np.random.Generator,
) -> list[Request]:
    """One log: the same eligible sets, otherwise any contents of any rows.

    Those in an eligible set carry its requests, in any order and number; all other rows,
    dropped ones among them, carry anything.
    """
    before = {request.row: request.values for request in requests}
    contents = {
        row: NOTHING if rng.random() < 0.4 else draw_values(rng, log)
        for row in range(len(log.reports))
    }
    for of_set in rows.values():
        sent = sorted({before[row] for row in of_set if row in before}, key=repr)
        more = [*sent, NOTHING]
        filled = [more[rng.integers(len(more))] for _ in of_set[len(sent) :]]
        contents.update(zip(rng.permutation(of_set).tolist(), sent + filled, strict=True))
    return _carry(log, contents)


def _carry(log: MovableLog, contents: dict[Any, Values]) -> list[Request]:
    return [
        Request(*log.reports[row][:2], values, row)
        for row, values in contents.items()
        if values != NOTHING
    ]


def give_to_another(
    requests: Sequence[Request], sets: Sets, rng: np.random.Generator
) -> list[Request]:
    """Two inputs: give one request to another member of its bundle, at any second."""
    moved = list(requests)
    numbers = [n for n, request in enumerate(requests) if sets.find(*request[:2])]
    if numbers:
        number = numbers[rng.integers(len(numbers))]
        user, time, values, _ = requests[number]
        bundle, instant = sets.find(user, time) or (0, 0)
        others = [member for member in sets.members[bundle] if member != user]
        second = sets.start[instant] + int(rng.integers(sets.every))
        moved[number] = Request(others[rng.integers(len(others))], second, values)
    return moved


def rewrite_requests(
    log: MovableLog, requests: Sequence[Request], sets: Sets, rng: np.random.Generator
) -> list[Request]:
    """Two inputs: the same sets, sent by any members, any number of times; else anything.

    With marked reports, some requests are carried by a report.
    """
    sent = {(sets.find(*request[:2]), request.values) for request in requests}
    new = []
    for place, values in sorted(sent, key=repr):
        if place is not None:
            bundle, instant = place
            members = sets.members[bundle]
            for _ in range(int(rng.integers(1, 4))):
                second = sets.start[instant] + int(rng.integers(sets.every))
                new.append(Request(members[rng.integers(len(members))], second, values))
    end = max(report.time for report in log.reports) + 3 * sets.every
    users = [*sorted({report.user for report in log.reports}), "stranger"]
    for _ in range(int(rng.integers(0, 10))):
        user, time = users[rng.integers(len(users))], int(rng.integers(-sets.every, end))
        if sets.find(user, time) is None:
            new.append(Request(user, time, draw_values(rng, log)))
    if log.kind == MARKED:
        at = {report[:2]: row for row, report in enumerate(log.reports) if report.x is not None}
        carried: dict[int, Request] = {}
        for number, request in enumerate(new):
            row = at.get(request[:2])
            if row is not None and row not in carried:
                carried[row] = new[number] = request._replace(row=row)
    return [new[i] for i in rng.permutation(len(new))]


def check_moves(
    log: MovableLog,
    requests: list[Request],
    seed: int,
    anonymize: Anonymize = anonymize_in_memory,
    rounds: int = 2,
) -> bool:
    """Check that nothing published tells who sent requests; returns whether there is a release.

    An error must not depend on requests at all.
    """
    rng = np.random.default_rng(seed)
    blank, expected = publish(log, [], anonymize), publish(log, requests, anonymize)
    require(blank.policy == expected.policy, "requests decide who is bundled with whom")
    if not isinstance(blank.files, dict):
        require(expected.files == blank.files, "requests decide whether a run stops")
        return False
    sets = find_sets(log, blank)
    rows = find_rows(log, sets) if log.kind == ONE_LOG else {}
    for number in range(rounds):
        if log.kind == ONE_LOG:
            change = (swap_two, rewrite_rows)[number % 2]
            moved = change(log, requests, rows, rng)
        elif number % 2:
            moved = rewrite_requests(log, requests, sets, rng)
        else:
            moved = give_to_another(requests, sets, rng)
        require(publish(log, moved, anonymize) == expected, "bytes depend on who sent a request")
    return True


def require(condition: bool, message: str) -> None:
    """Fail with a message that tests can tell from that of other failures."""
    if not condition:
        raise AssertionError(f"moved requests: {message}")
