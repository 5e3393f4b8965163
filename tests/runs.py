"""A run without the public interface: what is tested stands below it."""

from typing import Any

from trajcloak.engines import open_engine
from trajcloak.log import RequestLog
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import anonymize_log, anonymize_on
from trajcloak.progress import Progress, silent
from trajcloak.release.result import RunResult


def anonymize(
    log: Any,
    k: int,
    *,
    columns: LogColumns | None = None,
    request_log: Any = None,
    engine: Any = None,
    memory: Any = None,
    scratch: Any = None,
    threads: int | None = None,
    progress: Progress = silent,
    **options: Any,
) -> RunResult:
    """Bundle the users of a log that was read, or of files or a table."""
    asked = Options(k=k, **options)
    if isinstance(log, RequestLog):
        return anonymize_log(log, asked, threads=threads, progress=progress)
    opened = open_engine(engine, memory=memory, scratch=scratch, threads=threads, progress=progress)
    try:
        return anonymize_on(opened, log, columns or LogColumns(), asked, request_log)
    except BaseException:
        opened.close()
        raise
