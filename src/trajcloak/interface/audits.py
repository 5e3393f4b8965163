"""Audits of releases and of tables of other tools, and the page about a release."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Unpack

import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak import auditor, report
from trajcloak.auditor import AuditReport
from trajcloak.errors import OptionError, name_keywords
from trajcloak.given_values import Duration, to_duration
from trajcloak.interface.logs import ColumnOptions, LogInput, LogSource, find_input
from trajcloak.log.frames import to_table
from trajcloak.progress import Heard, listening
from trajcloak.report import Report


def audit(
    log: LogSource,
    release: str | Path,
    policy: str | Path,
    *,
    k: int | None = None,
    vocabulary: str | Path | Mapping[str, Sequence[Any]] | None = None,
    replay: bool = False,
    rewrite: str | Path | None = None,
    memory: int | None = None,
    progress: Heard = False,
    **columns: Unpack[ColumnOptions],
) -> AuditReport:
    """Check, with code of its own, that a release keeps every rule and the guarantee.

    Parameters
    ----------
    log
        The log that was anonymized, as :func:`anonymize` takes it. The audit reads it itself.
    release
        The release folder.
    policy
        The private policy file that belongs to the release.
    k
        The least number of possible senders that is asked for; default: that of the release.
    vocabulary
        The public list of values, or a file of it, if the release was made with one.
    replay
        Whether to run the algorithm again, which must give the same groups.
    rewrite
        A new folder for a clean copy of the checked tables.
    memory
        Most bytes that rows of the log may take; the others wait in private files.
    progress, **columns
        As for :func:`anonymize`. Where no request attributes are named, those of the release are
        taken.

    Returns
    -------
    AuditReport
        One line for each check, always all of them. Damaged files of the release
        and a damaged policy file are failed checks.

    Raises
    ------
    InputError
        If a path leads to nothing, or the log breaks a rule of the data model.
    OptionError
        If the release was made with a vocabulary, and none is given.

    Examples
    --------
    >>> report = audit("log.parquet", "release", "policy.parquet")
    >>> [check.name for check in report.checks if not check.passed]
    []
    """
    given = log if isinstance(log, LogInput) else find_input(log, columns)
    with TemporaryDirectory(prefix="trajcloak-") as folder, listening(progress) as heard:
        found = auditor.audit_files(
            _bring_here(given.source, Path(folder, "log")),
            release,
            policy,
            given.columns,
            request_log=_bring_here(given.request_log, Path(folder, "requests")),
            k=k,
            vocabulary=vocabulary,
            replay=replay,
            rewrite=rewrite,
            memory=memory,
            progress=heard,
        )
    return _name_keywords(found)


def _bring_here(source: Any, folder: Path) -> Any:
    """Write the partitions of a dask DataFrame into private files, one after another."""
    if not hasattr(source, "to_delayed"):
        return source
    folder.mkdir()
    for number, partition in enumerate(source.to_delayed()):
        table = to_table(partition.compute())
        if table is not None and len(table):
            pq.write_table(table, folder / f"{number:06}.parquet")
    return folder


def _name_keywords(found: AuditReport) -> AuditReport:
    checks = (replace(check, detail=name_keywords(check.detail)) for check in found.checks)
    return replace(found, checks=tuple(checks), notes=tuple(map(name_keywords, found.notes)))


def audit_foreign(
    log: LogSource,
    table: str | Path,
    *,
    k: int,
    policy: str | Path | None = None,
    group: str | None = None,
    every: Duration | None = None,
    max_gap: Duration | None = None,
    missing: Literal["withhold", "hold"] | None = None,
    progress: Heard = False,
    **columns: Unpack[ColumnOptions],
) -> AuditReport:
    """Check what a published table of any tool gives away to somebody who has the log.

    Parameters
    ----------
    log
        The log, as :func:`anonymize` takes it.
    table
        What was published, as CSV or Parquet: a rectangle per row, with its time.
    k
        Least number of users who could have sent a row, and all rows that are linked to it.
    policy
        A private table of users and their groups: then members count, not candidates.
    group
        Column of groups, all of whose rows have one sender. Every other column is tried as
        such a link, too; those that could be one are judged as well, and the worst is named.
    every, max_gap, missing, progress, **columns
        As for :func:`anonymize`.

    Raises
    ------
    InputError
        If a file cannot be read, or the table does not fit the log.

    Examples
    --------
    >>> audit_foreign("log.parquet", "cells.csv", k=2)["rectangles"].passed
    True
    """
    given = find_input(log, columns)
    with listening(progress) as heard:
        found = auditor.audit_foreign_table(
            given.source,
            table,
            k,
            given.columns,
            policy=policy,
            group=group,
            every=to_duration(every),
            max_gap=to_duration(max_gap),
            missing=missing,
            progress=heard,
        )
    return _name_keywords(found)


def write_report(
    release: str | Path,
    path: str | Path,
    *,
    log: LogSource | None = None,
    policy: str | Path | None = None,
    vocabulary: Mapping[str, Sequence[Any]] | None = None,
    network: str | os.PathLike[str] | None = None,
    outline: str | os.PathLike[str] | None = None,
    replay: bool = False,
    attack: bool = True,
    threads: int | None = None,
    progress: Heard = False,
    **columns: Unpack[ColumnOptions],
) -> Report:
    """Write one HTML page about a release; it needs no network and no other file.

    Parameters
    ----------
    release
        The release folder.
    path
        The page to create.
    log, policy
        The private log, as :func:`anonymize` takes it, in files, and the policy file. With them
        the page shows the audit and what attackers learn, says in red that it is private, and is
        readable by its owner only.
    vocabulary
        With the log: the values that requests may have, if the release was made with such a list.
    network
        Streets to draw under the cloaks: ``city`` or a path, as :func:`generate_log` takes it.
        Those of ``city`` are in metres, and so are the lengths of a release over them.
    outline
        A GeoJSON file to draw there: a coast, a border, districts.
    replay
        Whether the audit also runs the algorithm again, as that of :func:`audit` can.
    attack
        Whether to attack too; takes long where there are very many users.
    threads, progress, **columns
        As for :func:`anonymize`.

    Raises
    ------
    InputError
        If a file cannot be read, or breaks a rule of ``docs/data-model.md``.
    OptionError
        If only one of log and policy is given, or the page would stand inside a
        release or the log.
    OutputError
        If the path exists already or cannot be written.

    Examples
    --------
    >>> report = write_report("release", "report.html")
    >>> report.passed, report.private
    (True, False)
    """
    source, read_as, request_log = (None, None, None) if log is None else find_input(log, columns)
    if isinstance(source, pa.Table) or isinstance(request_log, pa.Table):
        raise OptionError(
            "the log is a table in memory; expected files, whose SHA-256 the page shows; write it "
            "to a .parquet file first"
        )
    with listening(progress) as heard:
        return report.write_report_page(
            release,
            path,
            log=source,
            policy=policy,
            columns=read_as,
            request_log=request_log,
            vocabulary=vocabulary,
            network=network,
            outline=outline,
            replay=replay,
            attack=attack,
            threads=threads,
            progress=heard,
        )
