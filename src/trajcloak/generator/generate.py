"""From a number of users to a log on disk."""

import operator
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trajcloak.errors import OptionError
from trajcloak.generator.city import City, build_city
from trajcloak.generator.ids import ID_BITS, id_texts, user_ids
from trajcloak.generator.movers import Movers, build_movers, move
from trajcloak.generator.requests import (
    NO_REQUEST,
    REQUEST_COLUMNS,
    draw_requests,
    request_columns,
)
from trajcloak.kernels.threads import build_slices, default_threads
from trajcloak.log.write import ROWS_PER_GROUP, check_log_path, log_writer
from trajcloak.progress import Progress, silent

FIRST_MOMENT = np.datetime64("2024-05-06T08:00:00", "s")
"""The moment of the first instant: a Monday morning."""

_LONGEST_STEP = 86_400


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
    request_columns
        The columns with the request attributes.
    """

    rows: int
    requests: int
    users: int
    instants: int
    request_columns: tuple[str, ...] = REQUEST_COLUMNS


@dataclass(frozen=True)
class _Options:
    """The checked options of :func:`generate_log`."""

    users: int
    length: int
    seed: int
    request_share: float
    every_seconds: int


def generate_log(
    path: str | os.PathLike[str],
    *,
    users: int,
    length: int,
    seed: int = 0,
    request_share: float = 0.2,
    string_ids: bool = False,
    every_seconds: int = 60,
    progress: Progress = silent,
) -> GeneratedLog:
    """Write a log of the people of the embedded city.

    Users travel along the streets of the city; at some instants they send a
    request. The log has one row per user and instant, all users at the first
    instant, then all at the next: ``user_id``, ``time``, ``x``, ``y`` (metres,
    to 0.1), ``category``, ``detail`` (both null: a location without a request).

    The same options give the same rows on every machine, and the same bytes
    with the same version of Arrow. A user's rows depend on the seed and the
    user's number only: a log with more users holds the rows of one with fewer.

    Parameters
    ----------
    path
        The file to write: ``.parquet`` or ``.csv``. It must not exist; it
        appears complete or not at all.
    users, length
        Number of users, and of instants.
    seed
        Any number from 0 to 2^64 - 1.
    request_share
        The share of rows that carry a request, 0 to 1.
    string_ids
        Whether user ids are text such as ``u-00f3a97c21`` instead of integers.
    every_seconds
        Time from one instant to the next: 1 second to a day.
    progress
        Told of the stage ``generating``, in instants.

    Returns
    -------
    GeneratedLog
        The counts.

    Raises
    ------
    OptionError
        If an option has an unusable value, or ``path`` another ending.
    OutputError
        If ``path`` exists or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = generate_log(f"{folder}/city.parquet", users=50, length=4)
    >>> log.rows, log.users, log.instants
    (200, 50, 4)
    """
    options = _Options(
        users=_whole_number("users", users, 1, 1 << ID_BITS),
        length=_whole_number("length", length, 1, (1 << 31) - 1),
        seed=_whole_number("seed", seed, 0, (1 << 64) - 1),
        request_share=_share("request_share", request_share),
        every_seconds=_whole_number("every_seconds", every_seconds, 1, _LONGEST_STEP),
    )
    path = Path(path)
    check_log_path(path)
    progress("generating", 0, options.length)
    ids = user_ids(options.seed, options.users)
    column = id_texts(ids) if string_ids else pa.chunked_array([ids])
    return _write_log(path, options, column, progress)


def _write_log(path: Path, options: _Options, ids: Any, progress: Progress) -> GeneratedLog:
    """Generate and write block by block; a block is a whole number of instants."""
    schema = pa.schema(
        [
            ("user_id", ids.type),
            ("time", pa.timestamp("s")),
            ("x", pa.float64()),
            ("y", pa.float64()),
            *((name, pa.string()) for name in REQUEST_COLUMNS),
        ]
    )
    city = build_city()
    movers = build_movers(city, users=options.users, seed=options.seed)
    instants_per_block = max(1, ROWS_PER_GROUP // options.users)
    requests_sent = 0
    with log_writer(path, schema) as append, ThreadPoolExecutor(default_threads()) as pool:
        for start in range(0, options.length, instants_per_block):
            stop = min(start + instants_per_block, options.length)
            moments = (FIRST_MOMENT + np.arange(start, stop) * options.every_seconds).astype(
                np.int64
            )
            xs, ys, requests = _run_block(pool, options, city, movers, start, moments)
            requests_sent += int(np.count_nonzero(requests != NO_REQUEST))
            columns = [
                pa.chunked_array(ids.chunks * (stop - start)),
                pa.array(np.repeat(moments, options.users)).view(pa.timestamp("s")),
                pa.array(xs / 10),
                pa.array(ys / 10),
                *request_columns(requests),
            ]
            append(pa.table(columns, schema=schema))
            progress("generating", stop, options.length)
    return GeneratedLog(
        rows=options.users * options.length,
        requests=requests_sent,
        users=options.users,
        instants=options.length,
    )


def _run_block(
    pool: ThreadPoolExecutor,
    options: _Options,
    city: City,
    movers: Movers,
    first_instant: int,
    moments: Any,
) -> tuple[Any, Any, Any]:
    """Move the users through a block, each thread a slice of them.

    Returns x, y (decimetres) and request of each row, time-major.
    """
    shape = (moments.size, options.users)
    xs, ys, requests = (np.empty(shape, dtype) for dtype in (np.int32, np.int32, np.int16))

    def run_slice(start: int, stop: int) -> None:
        part = np.s_[:, start:stop]
        move(movers.part(start, stop), city, options.every_seconds, xs[part], ys[part])
        draw_requests(
            options.seed,
            options.request_share,
            moments,
            (first_instant, start),
            xs[part],
            ys[part],
            requests[part],
        )

    slices = build_slices(options.users, default_threads())
    for done in [pool.submit(run_slice, *part) for part in slices]:
        done.result()
    return xs.ravel(), ys.ravel(), requests.ravel()


def _whole_number(name: str, value: int, low: int, high: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or not low <= number <= high:
        raise OptionError(
            f"{name} is {value!r}; expected a whole number from {low} to {high}; "
            f"pass --{name.replace('_', '-')} such a number"
        )
    return number


def _share(name: str, value: float) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise OptionError(
            f"{name} is {value!r}; expected a number from 0 to 1; "
            f"pass 0.2 for one request in five locations"
        )
    return float(value)
