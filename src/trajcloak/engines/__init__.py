"""The same release from several workers: one plan, and an engine for each kind of cluster.

:mod:`.plan` lists the stages, :mod:`.engine` what it asks of an engine. ``docs/scale.md``
says how it works and what it costs.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from trajcloak import pipeline
from trajcloak.engines.dask import DaskEngine, choose_scratch, open_frame
from trajcloak.engines.plan import Sizes, SpreadResult, choose_sizes, run_plan
from trajcloak.engines.scratch import Scratch
from trajcloak.engines.sources import list_parquet, open_files
from trajcloak.errors import OptionError
from trajcloak.log import RequestLog
from trajcloak.log.files import count_rows
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import Result
from trajcloak.progress import Progress, silent

if TYPE_CHECKING:
    from trajcloak.engines.engine import Engine

__all__ = ["SpreadResult", "anonymize", "anonymize_on"]


@overload
def anonymize(
    log: RequestLog,
    k: int,
    *,
    engine: None = None,
    columns: None = None,
    scratch: None = None,
    threads: int | None = None,
    progress: Progress = silent,
    **options: Any,
) -> Result: ...


@overload
def anonymize(
    log: Any,
    k: int,
    *,
    engine: Any,
    columns: LogColumns | None = None,
    scratch: str | Path | None = None,
    threads: int | None = None,
    progress: Progress = silent,
    **options: Any,
) -> SpreadResult: ...


def anonymize(
    log: Any,
    k: int,
    *,
    engine: Any = None,
    columns: LogColumns | None = None,
    scratch: str | Path | None = None,
    threads: int | None = None,
    progress: Progress = silent,
    **options: Any,
) -> Result | SpreadResult:
    """Bundle the users of a log so that every request has at least k possible senders.

    Parameters
    ----------
    log : RequestLog
        From :func:`trajcloak.read_log`. With an ``engine``: a folder, a glob or a list of
        Parquet files, or a dask DataFrame.
    k : int
        Least number of users in a bundle; at least 2.
    engine : distributed.Client, optional
        The cluster to work on; default: in this process. The release is the same for
        ``traj-anon``; see ``docs/scale.md``.
    columns : LogColumns, optional
        Which columns to read; with an ``engine`` only.
    scratch : str or Path, optional
        With an ``engine`` only: a folder that client and workers share, as private as the
        log. What workers hand on waits in a private folder inside it, as long as the result
        is there. Default: the system's folder for temporary files, if the cluster is a
        ``LocalCluster``; for any other it has to be given.
    threads : int, optional
        In this process; default: all cores. Never changes the result.
    progress : Progress
        Called as work is done.
    **options
        The other fields of :class:`Options`.

    Returns
    -------
    Result or SpreadResult
        Both have ``manifest``, ``rare`` and ``write(release, policy)``.

    Raises
    ------
    OptionError
        If an option cannot be used.
    InputError
        If the log breaks a rule, or a request attribute looks like identifiers or places
        and is not allowed.
    NotEnoughUsersError
        If no window has k users whose location is known throughout.
    OutputError
        If something cannot be written into the scratch folder.

    Examples
    --------
    >>> import trajcloak as tc
    >>> log = tc.read_log("log.parquet")
    >>> result = tc.anonymize(log, k=50)
    >>> result.write("anonymized")

    With a cluster: ``tc.anonymize("logs/", k=50, engine=Client("tls://scheduler:8786"),
    scratch="/shared/private")``.
    """
    if engine is None:
        if columns is not None or scratch is not None or not isinstance(log, RequestLog):
            raise OptionError(
                "the log is not read yet; expected a RequestLog, or an engine to read it; pass "
                "read_log(log, columns), or engine"
            )
        return pipeline.anonymize(log, k, threads=threads, progress=progress, **options)
    if isinstance(log, RequestLog):
        raise OptionError(
            "the log is in memory; an engine of several workers expects Parquet files or a dask "
            "DataFrame, which its workers read; pass the path of the log"
        )
    asked = Options(k=k, **options)
    folder = Scratch(choose_scratch(engine) if scratch is None else Path(scratch))
    try:
        return anonymize_on(
            DaskEngine(engine, folder), log, columns or LogColumns(), asked, progress=progress
        )
    except BaseException:
        folder.close()
        raise


def anonymize_on(
    engine: "Engine",
    log: Any,
    columns: LogColumns,
    asked: Options,
    *,
    sizes: Sizes | None = None,
    progress: Progress = silent,
) -> SpreadResult:
    """Run the plan on an engine."""
    if isinstance(engine, DaskEngine) and hasattr(log, "to_delayed"):
        source = open_frame(engine, log)
        sizes = sizes or choose_sizes(source.num_rows)
    else:
        files = list_parquet(log)
        sizes = sizes or choose_sizes(count_rows(files))
        # What is read is held several times over, encoded and decoded, so it is half as much.
        source = open_files(files, -(-sizes.rows // 2))
    return run_plan(engine, source, columns, asked, sizes, progress)
