"""Studies of logs and releases whose results are tables."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, Unpack

import pyarrow as pa

from trajcloak import attackers, comparison, inspection, plan, utility
from trajcloak.errors import name_keywords
from trajcloak.given_values import Box, Duration, Names, to_duration, to_names, to_square
from trajcloak.inspection import Inspection
from trajcloak.interface.logs import ColumnOptions, LogSource, check_keywords, open_log
from trajcloak.interface.releases import Release, hold_in_files, open_release
from trajcloak.log import RequestLog, read_all_rows, read_in_memory
from trajcloak.progress import Heard, listening


class StudyOptions(ColumnOptions, total=False):
    """How to read a log and lay it out, as :func:`trajcloak.anonymize` takes it."""

    every: Duration
    length: int
    max_gap: Duration
    missing: Literal["withhold", "hold"]
    align: Literal["none", "day"]
    windows: str
    height: int
    region: Box
    cloak: Literal["mbr", "quad"]
    members: int
    parts: int
    parts_per: Literal["window", "instant"]
    seed: int


def inspect_log(
    log: LogSource,
    *,
    k: int | None = None,
    every: Duration | None = None,
    max_gap: Duration | None = None,
    length: int | None = None,
    members: int | None = None,
    rows_alike: bool = False,
    region: Box | None = None,
    threads: int | None = None,
    progress: Heard = False,
    **columns: Unpack[ColumnOptions],
) -> Inspection:
    """Report on a log, and propose how to cut it into instants and windows.

    A log that :func:`anonymize` would refuse is inspected, too, without the rows that are refused;
    ``refusals`` says why.

    Parameters
    ----------
    log, threads, progress, **columns
        As for :func:`anonymize`.
    k
        As for :func:`anonymize`. With it, the proposal also keeps sets of requests.
    every, max_gap, length, members
        What is decided already; the others are proposed.
    rows_alike, region
        As for :func:`anonymize`; they decide whether it would refuse the log.

    Examples
    --------
    >>> import trajcloak as tc
    >>> found = tc.inspect_log("log.parquet")
    >>> found.settings
    {'every': '60s', 'max_gap': '120s', 'length': 30}
    >>> tc.anonymize("log.parquet", k=50, **found.settings).manifest["users"]
    600
    >>> found.choices.column_names[:4]
    ['varied', 'every', 'max_gap', 'length']
    """
    given: dict[str, Any] = {"k": k, "every": every, "max_gap": max_gap, "length": length}
    given |= {"members": members, "rows_alike": rows_alike, "region": region, "read": read_all_rows}
    found: Inspection = _study(inspection.inspect_rows, log, columns, threads, progress, **given)
    return replace(found, refusals=list(map(name_keywords, found.refusals)))


def plan_log(
    log: LogSource,
    *,
    k: int | None = None,
    every: Duration | None = None,
    max_gap: Duration | None = None,
    length: int | None = None,
    members: int | None = None,
    threads: int | None = None,
    progress: Heard = False,
    **columns: Unpack[ColumnOptions],
) -> pa.Table:
    """Measure what some choices of k, parts and windows would give, on a sample of the log.

    Parameters
    ----------
    k
        The only k to try. Default: 10, 50 and 100.
    log, every, max_gap, length, members, threads, progress, **columns
        As for :func:`anonymize`; shorter windows are tried, too.

    Returns
    -------
    pyarrow.Table
        For each choice: shares of users and of sets of requests that are withheld, the mean area
        in which a user is shown, and mean errors of answers about users.

    Examples
    --------
    >>> import trajcloak as tc
    >>> tc.plan_log("log.parquet", k=50)["parts"].to_pylist()[:3]
    [None, 10, 5]
    """
    given: dict[str, Any] = {"k": k, "every": every, "max_gap": max_gap, "length": length}
    given["members"] = members
    found = _study(plan.plan_rows, log, columns, threads, progress, **given)
    return pa.Table.from_pylist([vars(choice) for choice in found.choices])


def compare(
    log: LogSource,
    *,
    k: int,
    algorithms: Names = ("refined", "traj-anon"),
    time_limit: float | None = None,
    threads: int | None = None,
    progress: Heard = False,
    **options: Unpack[StudyOptions],
) -> pa.Table:
    """Compare algorithms on a log.

    Parameters
    ----------
    log, k, threads, progress
        As for :func:`anonymize`.
    algorithms
        Names, as for :func:`anonymize`; ``traj-anon:TREE`` for another tree of the paper,
        ``refined:EFFORT`` for another effort.
    time_limit
        Seconds for each algorithm; compiling not counted.
    **options
        How to read the log and lay it out, as for :func:`anonymize`: ``user``, ...; ``every``,
        ``length``, ``max_gap``, ``missing``, ``align``, ``windows``, ``height``, ``region``;
        ``cloak``, the kind whose cost is to be low; ``members``, ``parts``, ``parts_per``;
        ``seed``.

    Returns
    -------
    pyarrow.Table
        One row for each algorithm: how it ended, seconds, cost, sizes of bundles.

    Examples
    --------
    >>> import trajcloak as tc
    >>> table = tc.compare("log.parquet", k=50, algorithms="traj-anon")
    >>> table["status"].to_pylist()
    ['ok']
    """
    columns, layout = _split_options(options)
    layout |= {"k": k, "algorithms": to_names(algorithms), "time_limit": time_limit}
    found = _study(comparison.compare_algorithms, log, columns, threads, progress, **layout)
    return pa.Table.from_pylist(
        [{**asdict(row), "status": name_keywords(row.status)} for row in found]
    )


def attack(
    log: LogSource,
    *,
    k: int,
    algorithms: Names = ("traj-anon",),
    threads: int | None = None,
    progress: Heard = False,
    **options: Unpack[StudyOptions],
) -> pa.Table:
    """Attack the snapshot policies of a log, and the bundles that would be published of it.

    Parameters
    ----------
    log, k, threads, progress
        As for :func:`anonymize`. If no request columns are named, every row counts as a request.
    algorithms
        Whose bundles to attack.
    **options
        How to read the log and lay it out, as for :func:`compare`.

    Returns
    -------
    pyarrow.Table
        For each policy and attacker: how many requests have fewer than k possible senders, and
        how many possible senders there are.

    Examples
    --------
    >>> import trajcloak as tc
    >>> log = tc.read_log("log.parquet", requests=["category", "detail"])
    >>> found = tc.attack(log, k=50).to_pylist()
    >>> {row["breaches"] for row in found if row["policy"] == "traj-anon"}
    {0}
    """
    columns, layout = _split_options(options)
    layout |= {"k": k, "algorithms": to_names(algorithms)}
    found = _study(attackers.attack_policies, log, columns, threads, progress, **layout)
    return pa.Table.from_pylist([asdict(finding) for finding in found.findings])


def measure_utility(
    log: LogSource,
    release: Release | str | Path,
    policy: str | Path | None = None,
    *,
    queries: int = 1000,
    seed: int = 0,
    threads: int | None = None,
    progress: Heard = False,
    **columns: Unpack[ColumnOptions],
) -> pa.Table:
    """Measure how well a release answers questions about the log it was made of.

    Parameters
    ----------
    log
        As for :func:`anonymize`. One that was read already needs the request attributes of the
        release.
    release
        From :func:`anonymize`; or its folder.
    policy
        With a folder: the private policy file.
    queries
        Questions of each kind.
    seed
        Decides the questions.
    threads, progress
        As for :func:`anonymize`.
    **columns
        How to read the log, as for :func:`anonymize`: ``user``, ``requests``, ... Where no request
        attributes are named, those of the release are taken.

    Returns
    -------
    pyarrow.Table
        For each kind of question: errors of estimates, widths of bounds, and the share of true
        answers within the bounds.

    Examples
    --------
    >>> import trajcloak as tc
    >>> measured = tc.measure_utility("log.parquet", "release", "policy.parquet", queries=10)
    >>> measured["within"].to_pylist()
    [1.0, 1.0, 1.0]
    """
    opened = release if isinstance(release, Release) else open_release(release)
    made = opened.manifest["parameters"]
    rows = open_log(log, columns, threads, progress, made=made)._rows
    with hold_in_files(opened, policy) as files, listening(progress) as heard:
        found = utility.measure_answers(
            rows, *files, queries=queries, seed=seed, threads=threads, progress=heard
        )
    return pa.Table.from_pylist([asdict(row) for row in found])


def _study(
    study: Callable[..., Any],
    log: LogSource,
    columns: Mapping[str, Any],
    threads: int | None,
    progress: Heard,
    *,
    read: Callable[..., RequestLog] = read_in_memory,
    **settings: Any,
) -> Any:
    """Call a function on the rows of a log, with settings as the command line takes them."""
    rows = open_log(log, columns, threads, progress, read)._rows
    for name in ("every", "max_gap"):
        settings[name] = to_duration(settings.get(name))
    if settings.get("region") is not None:
        settings["region"] = to_square(settings["region"])
    with listening(progress) as heard:
        return study(rows, threads=threads, progress=heard, **settings)


def _split_options(options: StudyOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those that say how to read a log, and those that the plan takes."""
    check_keywords(options, StudyOptions.__annotations__)
    columns = {n: value for n, value in options.items() if n in ColumnOptions.__annotations__}
    return columns, {n: value for n, value in options.items() if n not in columns}
