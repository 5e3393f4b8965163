"""Generate a log: check the options, move users on a network, write their rows.

User ids are a seeded scramble of the users' numbers, so that their order says nothing.
"""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trajcloak.errors import OptionError
from trajcloak.generator.city import FEWEST_JUNCTIONS, JUNCTIONS, MOST_JUNCTIONS
from trajcloak.generator.network_files import CITY, load_network
from trajcloak.generator.requests_by_place import (
    NO_REQUEST,
    REQUEST_COLUMNS,
    draw_requests,
    request_columns,
)
from trajcloak.generator.roads import MOST_CLASSES, SPEED_DIVISORS, build_roads
from trajcloak.generator.simulation import Simulation, TiedRoutesError
from trajcloak.kernels.splitmix import GAMMA, key_of, scramble
from trajcloak.kernels.threads import default_threads
from trajcloak.log.write import ROWS_PER_GROUP, check_log_path, log_writer
from trajcloak.options import check_choice, check_number, check_setting
from trajcloak.progress import Heard, Progress, listening

FIRST_MOMENT = int(np.datetime64("2024-05-06T08:00:00", "s").astype(np.int64))
"""The moment of the first instant, a Monday morning, in seconds since 1970."""

ON_ARRIVAL = ("continue", "stay")
"""What objects can do at the end of a trip."""

MOST_SEARCHED = 10_000
"""Rows of a log up to which routes are searched for one by one: preparing labels takes longer."""

_LONGEST_STEP = 86_400

ID_BITS = 40
"""Ids lie below 2^40."""

_MASK = np.uint64((1 << ID_BITS) - 1)
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
# The letters of a chunk must stay below 2^31, the reach of the offsets of Arrow text.
_IDS_PER_CHUNK = 1 << 20


@dataclass(frozen=True)
class GeneratedLog:
    """What a generated log holds.

    Parameters
    ----------
    users, instants
        Number of each.
    rows
        Rows of the file: one per user and instant.
    requests
        Rows that carry a request.
    request_columns
        The columns with the request attributes.
    junctions, roads
        Nodes and edges of the network that users moved on.
    junctions_left_out
        Nodes of the network that were left out, because they are not part of its
        largest connected component.
    """

    users: int
    instants: int
    rows: int
    requests: int
    request_columns: tuple[str, ...]
    junctions: int
    roads: int
    junctions_left_out: int


@dataclass(frozen=True)
class GeneratorOptions:
    """The options of ``generate_log``, which documents them, checked."""

    users: int
    length: int
    seed: int
    request_share: float
    every_seconds: int
    junctions: int
    speed: str
    classes: int
    on_arrival: str

    def __post_init__(self) -> None:
        check_number("users", self.users, 1, 1 << ID_BITS)
        check_number("length", self.length, 1, (1 << 31) - 1)
        check_number("seed", self.seed, 0, (1 << 64) - 1)
        check_number("every_seconds", self.every_seconds, 1, _LONGEST_STEP)
        check_number("junctions", self.junctions, FEWEST_JUNCTIONS, MOST_JUNCTIONS)
        check_number("classes", self.classes, 1, MOST_CLASSES)
        check_choice("speed", self.speed, tuple(SPEED_DIVISORS))
        check_choice("on_arrival", self.on_arrival, ON_ARRIVAL)
        check_setting(
            "request_share",
            self.request_share,
            "a number from 0 to 1",
            lambda share: isinstance(share, int | float) and 0 <= share <= 1,
        )


def generate_log(
    path: str | os.PathLike[str],
    *,
    users: int,
    length: int,
    seed: int = 0,
    network: str | os.PathLike[str] = CITY,
    junctions: int = JUNCTIONS,
    speed: str = "middle",
    classes: int = 5,
    on_arrival: str = "continue",
    congestion: bool = False,
    request_share: float = 0.2,
    string_ids: bool = False,
    every_seconds: int = 60,
    request_log: str | os.PathLike[str] | None = None,
    progress: Heard = False,
) -> GeneratedLog:
    """Write a log of people who move on a road network.

    Users travel along roads as the objects of Brinkhoff's generator do; at some
    instants they send a request. The log has one row per user and instant, all
    users at the first instant, then all at the next: ``user_id``, ``time``, ``x``,
    ``y`` (in the network's unit), ``category``, ``detail`` (both null: a location
    without a request). ``docs/generator.md`` says more.

    The same options give the same rows on every machine, and the same bytes with
    the same version of Arrow. Without congestion, a user's rows depend on the seed
    and the user's number only: a log with more users holds the rows of one with
    fewer.

    Parameters
    ----------
    path
        The file to write: ``.parquet`` or ``.csv``. It must not exist; it
        appears complete or not at all.
    users, length
        Number of users, and of instants.
    seed
        Any number from 0 to 2^64 - 1.
    network
        ``city``, the embedded one, or a path: a ``.node`` or ``.edge`` file of
        Brinkhoff's generator, a folder with ``nodes.csv`` and ``edges.csv``, or a
        ``.graphml`` file.
    junctions
        About how many junctions the embedded city has.
    speed
        ``slow``, ``middle`` or ``fast``: the width plus the height of the network,
        divided by 250, 50 or 10, is the way of the fastest user between two
        instants, however far apart these are.
    classes
        Classes of users, each half as fast as the one before.
    on_arrival
        ``continue`` with another trip, or ``stay`` where the first one ends.
    congestion
        Whether a road slows down when too many users are on it.
    request_share
        The share of rows that carry a request, 0 to 1.
    string_ids
        Whether user ids are text such as ``u-00f3a97c21`` instead of integers.
    every_seconds
        Time from one instant to the next: 1 second to a day.
    request_log
        A second file for the requests: ``user_id``, ``time`` (a random second after the
        instant and before the next), ``category``, ``detail``. Then ``path`` gets the
        locations alone. Default: rows of ``path`` carry the requests.
    progress
        True: show bars; or a function that is called with the stages ``preparing routes`` (not for
        small logs), in sets of routes, and ``generating``, in instants.

    Returns
    -------
    GeneratedLog
        The counts.

    Raises
    ------
    OptionError
        If an option has an unusable value, or a path another ending.
    InputError
        If the network cannot be read, or breaks a rule of ``docs/data-model.md``.
    OutputError
        If a path exists or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = generate_log(f"{folder}/city.parquet", users=50, length=4, junctions=2_000)
    >>> log.rows, log.users, log.instants
    (200, 50, 4)
    """
    options = GeneratorOptions(
        users, length, seed, request_share, every_seconds, junctions, speed, classes, on_arrival
    )
    paths = [Path(path)] if request_log is None else [Path(path), Path(request_log)]
    for file in paths:
        check_log_path(file)
    if len({file.absolute() for file in paths}) < len(paths):
        raise OptionError(
            f"{path}: locations and requests are to be written to one file; expected two; pass "
            f"another --request-log, or leave it out"
        )
    streets = load_network(network, junctions)
    threads = default_threads()
    ids = user_ids(seed, users)
    column = id_texts(ids) if string_ids else pa.chunked_array([ids])

    def write(progress: Progress, *, has_labels: bool) -> int:
        roads = build_roads(
            streets,
            speed=speed,
            classes=classes,
            threads=threads,
            has_labels=has_labels,
            on_routes=lambda done, total: progress("preparing routes", done, total),
        )
        simulation = Simulation(
            roads,
            users=users,
            seed=seed,
            stays=on_arrival == "stay",
            congestion=congestion,
            threads=threads,
        )
        return _write_log(paths, options, simulation, column, progress)

    with listening(progress) as heard:
        try:
            requests = write(heard, has_labels=users * length > MOST_SEARCHED)
        except TiedRoutesError:
            # Whoever travels in a larger log must take the same way.
            requests = write(heard, has_labels=True)
    return GeneratedLog(
        users=users,
        instants=length,
        rows=users * length,
        requests=requests,
        request_columns=REQUEST_COLUMNS,
        junctions=streets.num_nodes,
        roads=streets.num_edges,
        junctions_left_out=streets.left_out,
    )


def _write_log(
    paths: list[Path],
    options: GeneratorOptions,
    simulation: Simulation,
    ids: Any,
    progress: Progress,
) -> int:
    """Generate and write blocks of whole instants; returns how many requests were sent."""
    keys = [("user_id", ids.type), ("time", pa.timestamp("s"))]
    place = [("x", pa.float64()), ("y", pa.float64())]
    attributes = [(name, pa.string()) for name in REQUEST_COLUMNS]
    is_one = len(paths) == 1
    schema = pa.schema([*keys, *place, *(attributes if is_one else [])])
    request_schema = pa.schema([*keys, *attributes])
    instants_per_block = max(1, ROWS_PER_GROUP // options.users)
    requests_sent = 0
    progress("generating", 0, options.length)
    with ExitStack() as stack:
        append = stack.enter_context(log_writer(paths[0], schema))
        if not is_one:
            append_requests = stack.enter_context(log_writer(paths[1], request_schema))
        for start in range(0, options.length, instants_per_block):
            stop = min(start + instants_per_block, options.length)
            moments = FIRST_MOMENT + np.arange(start, stop) * options.every_seconds
            positions = simulation.report(stop - start)
            requests = draw_requests(
                options.seed,
                options.request_share,
                moments,
                start,
                positions.place,
                default_threads(),
            ).ravel()
            requests_sent += int(np.count_nonzero(requests != NO_REQUEST))
            columns = [
                pa.chunked_array(ids.chunks * (stop - start)),
                pa.array(np.repeat(moments, options.users)).view(pa.timestamp("s")),
                pa.array(positions.x.ravel()),
                pa.array(positions.y.ravel()),
            ]
            if is_one:
                columns += request_columns(requests)
            else:
                user, time, kind = _draw_times(options, start, moments, requests)
                rows = [ids.take(pa.array(user)), pa.array(time).view(pa.timestamp("s"))]
                append_requests(pa.table([*rows, *request_columns(kind)], schema=request_schema))
            append(pa.table(columns, schema=schema))
            progress("generating", stop, options.length)
    return requests_sent


def _draw_times(
    options: GeneratorOptions, first_instant: int, moments: Any, requests: Any
) -> tuple[Any, Any, Any]:
    """List the requests of a block by time, at random seconds: users' numbers, times, requests."""
    sent = np.flatnonzero(requests != NO_REQUEST)
    instant, user = np.divmod(sent, options.users)
    with np.errstate(over="ignore"):
        stream = scramble(key_of(options.seed, "request times") + GAMMA * user.astype(np.uint64))
        drawn = scramble(stream + GAMMA * (first_instant + instant).astype(np.uint64))
    time = moments[instant] + (drawn % np.uint64(options.every_seconds)).astype(np.int64)
    order = np.argsort(time, kind="stable")
    return user[order], time[order], requests[sent[order]]


def user_ids(seed: int, users: int) -> NDArray[np.int64]:
    """Return the ids of users 0, 1, 2, ...; no two are equal.

    Requires ``users`` to be at most 2^40. Every step below is a bijection of
    the numbers of 40 bits: adding, multiplying by an odd number, and mixing the
    high half into the low one.
    """
    ids = np.arange(users, dtype=np.uint64)
    ids += key_of(seed, "ids")
    for factor in _FACTORS:
        ids &= _MASK
        ids ^= ids >> np.uint64(ID_BITS // 2)
        ids *= factor
    ids &= _MASK
    ids ^= ids >> np.uint64(ID_BITS // 2)
    return ids.astype(np.int64)


def id_texts(ids: NDArray[np.int64]) -> Any:
    """Write ids as a chunked Arrow array of text such as ``u-00f3a97c21``."""
    chunks = (
        ids[start : start + _IDS_PER_CHUNK].tolist() for start in range(0, ids.size, _IDS_PER_CHUNK)
    )
    return pa.chunked_array([[f"u-{number:010x}" for number in chunk] for chunk in chunks])
