"""Who holds the shards of a log, and who works on them: memory, folder, dask, Spark.

:mod:`.engine` says what the plan in :mod:`trajcloak.pipeline` asks of an engine.
"""

from pathlib import Path
from typing import Any

from trajcloak.engines.engine import Engine, MemoryEngine
from trajcloak.engines.folder import FolderEngine, parse_memory
from trajcloak.engines.stored import make_scratch
from trajcloak.errors import OptionError
from trajcloak.progress import Progress


def open_engine(
    engine: Any,
    *,
    memory: str | int | None,
    scratch: str | Path | None,
    threads: int | None,
    progress: Progress,
) -> Engine:
    """Build the engine for a cluster, for bounded memory, or for this process.

    ``engine`` is a ``distributed.Client``, a ``SparkSession``, or None.
    """
    if engine is not None and memory is not None:
        raise OptionError(
            "memory is limited, and the engine is a cluster; expected the limit of its workers, "
            "which hold a shard of the log at a time; leave out memory, or engine"
        )
    if engine is not None:
        packages = {base.__module__.split(".")[0] for base in type(engine).__mro__}
        if "distributed" in packages:
            from trajcloak.engines.dask import connect_dask

            return connect_dask(engine, scratch, progress)
        if "pyspark" in packages:
            from trajcloak.engines.spark import connect_spark

            return connect_spark(engine, scratch, progress)
        raise OptionError(
            f"engine is a {type(engine).__name__}; expected a distributed.Client or a "
            f"SparkSession; connect one first"
        )
    if memory is None:
        if scratch is not None:
            raise OptionError(
                "a scratch folder is given, and the log is held in memory; expected it with an "
                "engine or with memory; leave it out"
            )
        return MemoryEngine(threads, progress)
    limit = parse_memory(memory)
    return FolderEngine(make_scratch(scratch, is_local=True), limit, threads, progress)
