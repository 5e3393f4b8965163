"""From a number of users to a log on disk."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trajcloak.generator.ids import id_texts, user_ids
from trajcloak.generator.network import Network
from trajcloak.generator.networks import CITY, load_network
from trajcloak.generator.networks.city import JUNCTIONS
from trajcloak.generator.options import GeneratorOptions
from trajcloak.generator.requests import (
    NO_REQUEST,
    REQUEST_COLUMNS,
    draw_requests,
    request_columns,
)
from trajcloak.generator.roads import Roads, build_roads
from trajcloak.generator.simulation import Simulation
from trajcloak.kernels.threads import default_threads, run_sliced
from trajcloak.log.write import ROWS_PER_GROUP, check_log_path, log_writer
from trajcloak.progress import Progress, silent

FIRST_MOMENT = np.datetime64("2024-05-06T08:00:00", "s")
"""The moment of the first instant: a Monday morning."""


@dataclass(frozen=True)
class GeneratedLog:
    """What a generated log holds.

    Parameters
    ----------
    rows
        Rows of the file: one per user and instant.
    requests
        Rows that carry a request.
    users, instants
        Number of each.
    junctions, roads
        Nodes and edges of the network that users moved on.
    junctions_left_out
        Nodes of the network that were left out, because they are not part of its
        largest connected component.
    request_columns
        The columns with the request attributes.
    """

    rows: int
    requests: int
    users: int
    instants: int
    junctions: int
    roads: int
    junctions_left_out: int
    request_columns: tuple[str, ...] = REQUEST_COLUMNS


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
    progress: Progress = silent,
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
    progress
        Told of the stages ``preparing routes``, in sets of routes, and
        ``generating``, in instants.

    Returns
    -------
    GeneratedLog
        The counts.

    Raises
    ------
    OptionError
        If an option has an unusable value, or ``path`` another ending.
    InputError
        If the network cannot be read, or breaks a rule of ``docs/data-model.md``.
    OutputError
        If ``path`` exists or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = generate_log(f"{folder}/city.parquet", users=50, length=4, junctions=2_000)
    >>> log.rows, log.users, log.instants
    (200, 50, 4)
    """
    options = GeneratorOptions(
        users=users,
        length=length,
        seed=seed,
        request_share=request_share,
        every_seconds=every_seconds,
        junctions=junctions,
        speed=speed,
        classes=classes,
        on_arrival=on_arrival,
    )
    path = Path(path)
    check_log_path(path)
    streets = load_network(network, junctions)
    threads = default_threads()
    simulation = Simulation(
        _prepare(streets, options, threads, progress),
        users=users,
        seed=seed,
        stays=on_arrival == "stay",
        congestion=congestion,
        threads=threads,
    )
    ids = user_ids(seed, users)
    column = id_texts(ids) if string_ids else pa.chunked_array([ids])
    requests = _write_log(path, options, simulation, column, progress)
    return GeneratedLog(
        rows=users * length,
        requests=requests,
        users=users,
        instants=length,
        junctions=streets.num_nodes,
        roads=streets.num_edges,
        junctions_left_out=streets.left_out,
    )


def _prepare(
    network: Network, options: GeneratorOptions, threads: int, progress: Progress
) -> Roads:
    """Make a network ready for users to move on."""
    return build_roads(
        network,
        speed=options.speed,
        classes=options.classes,
        threads=threads,
        on_routes=lambda done, total: progress("preparing routes", done, total),
    )


def _write_log(
    path: Path, options: GeneratorOptions, simulation: Simulation, ids: Any, progress: Progress
) -> int:
    """Generate and write block by block; a block is a whole number of instants.

    Returns how many requests were sent.
    """
    schema = pa.schema(
        [
            ("user_id", ids.type),
            ("time", pa.timestamp("s")),
            ("x", pa.float64()),
            ("y", pa.float64()),
            *((name, pa.string()) for name in REQUEST_COLUMNS),
        ]
    )
    instants_per_block = max(1, ROWS_PER_GROUP // options.users)
    requests_sent = 0
    progress("generating", 0, options.length)
    with log_writer(path, schema) as append:
        for start in range(0, options.length, instants_per_block):
            stop = min(start + instants_per_block, options.length)
            moments = (FIRST_MOMENT + np.arange(start, stop) * options.every_seconds).astype(
                np.int64
            )
            reports = simulation.report(stop - start)
            requests = _draw_requests(options, start, moments, reports.place)
            requests_sent += int(np.count_nonzero(requests != NO_REQUEST))
            columns = [
                pa.chunked_array(ids.chunks * (stop - start)),
                pa.array(np.repeat(moments, options.users)).view(pa.timestamp("s")),
                pa.array(reports.x.ravel()),
                pa.array(reports.y.ravel()),
                *request_columns(requests),
            ]
            append(pa.table(columns, schema=schema))
            progress("generating", stop, options.length)
    return requests_sent


def _draw_requests(options: GeneratorOptions, first_instant: int, moments: Any, places: Any) -> Any:
    """Return the request of each row of a block, each thread a slice of the users."""
    requests = np.empty(places.shape, np.int16)

    def draw(start: int, stop: int) -> None:
        draw_requests(
            options.seed,
            options.request_share,
            moments,
            (first_instant, start),
            places[:, start:stop],
            requests[:, start:stop],
        )

    run_sliced(draw, options.users, default_threads())
    return requests.ravel()
