"""The plan on Spark: a session of the caller's, or one that is started for the run."""

import gc
import os
import pickle
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from trajcloak.engines.shard_files import Scratch
from trajcloak.engines.spark_start import (
    Context,
    check_java,
    is_local,
    start_spark,
)
from trajcloak.engines.stored import (
    Call,
    StoredEngine,
    choose_parent,
    import_extra,
    raise_failed,
    run_on_worker,
)
from trajcloak.errors import OptionError
from trajcloak.kernels.threads import default_threads
from trajcloak.progress import Progress, silent

MOMENT = 0.2
"""Seconds between two looks at a job."""

LONGEST = 60
"""Seconds to wait for the calls of a job that was cancelled: Spark ends them after two."""

POOL = "spark.scheduler.pool"
"""Name of the scheduler's queue that the caller's thread has chosen, if any."""

MANY_OBJECTS = 20_000
"""So many objects take Python's garbage collector some milliseconds."""

LOST = (
    "workers were lost again and again in the same stage; expected workers with enough memory for "
    "what each of their cores works on; give them more of it (spark.executor.memoryOverhead), or "
    "fewer cores (spark.executor.cores)"
)
ENDED = (
    "Spark ended in mid-run; expected it to run until the release is written; look into the log of "
    "its master, and run again"
)
REMEDIES = {
    r"spark\.driver\.maxResultSize": (
        "the answers of a stage are larger than Spark lets the client receive; expected room for "
        "them; set spark.driver.maxResultSize and spark.driver.memory to more"
    ),
    "ModuleNotFoundError": (
        "the executors cannot import what a call needs; expected trajcloak, and the packages that "
        "it needs, where executors run Python; install them there, or set PYSPARK_PYTHON"
    ),
    "PYTHON_VERSION_MISMATCH": (
        "the executors run another version of Python than the client; expected the same; set "
        "PYSPARK_PYTHON"
    ),
    r"SparkContext was shut down|stopped SparkContext|NetworkError|Connection\w+Error": ENDED,
}
"""What to say if Spark gives up, by words of its error. The error itself is not shown."""


class SparkEngine(StoredEngine):
    """Runs calls on the executors of Spark, each as a task of its own."""

    def __init__(self, context: Context, scratch: Scratch, progress: Progress = silent) -> None:
        super().__init__(scratch, progress)
        self.context = context
        self.pool = context.getLocalProperty(POOL)

    @property
    def parallel(self) -> int:
        """How many cores the executors have."""
        return max(1, int(self.context.defaultParallelism))

    def run_calls(self, calls: Sequence[Call], stage: Path, label: str | None) -> list[Any]:
        """See :class:`trajcloak.engines.stored.StoredEngine`.

        The job runs in a thread, so that this one can report progress and be interrupted.
        """
        if not calls:
            return []
        group = f"{self.folder.name}/{stage.name}"
        values: Future[list[Any]] = Future()
        job = threading.Thread(target=self._collect, args=(calls, group, values), daemon=True)
        job.start()
        try:
            self._watch(values, group, label, len(calls))
        except BaseException:
            self._cancel(values, group)
            raise
        error = values.exception()
        if error is not None:
            self._wait_for_tasks(group)
            raise _explain(error) from None
        return raise_failed(values.result())

    def _collect(self, calls: Sequence[Call], group: str, values: Future[list[Any]]) -> None:
        from pyspark import cloudpickle

        try:
            # A task that is interrupted would leave its Python process alone, still writing.
            self.context.setJobGroup(group, group, interruptOnCancel=False)
            self.context.setLocalProperty(POOL, self.pool)
            # Other than Spark's own pickles, these may hold what a notebook defines.
            pickled = [cloudpickle.dumps(call) for call in calls]
            values.set_result(
                self.context.parallelize(pickled, len(pickled)).map(run_pickled).collect()
            )
        except BaseException as error:
            values.set_exception(error)

    def _watch(
        self, values: Future[list[Any]], group: str, label: str | None, num_calls: int
    ) -> None:
        """Wait for the end of a job, and report the calls that are done."""
        if label is None:
            wait([values])
            return
        done = 0
        self.progress(label, 0, num_calls)
        while wait([values], MOMENT).not_done:
            known = sum(stage.numCompletedTasks for stage in self._list_stages(group))
            if done < known < num_calls:
                done = known
                self.progress(label, done, num_calls)
        if values.exception() is None:
            self.progress(label, num_calls, num_calls)

    def _cancel(self, values: Future[list[Any]], group: str) -> None:
        """End a job. Nothing of it is written after that."""
        while not values.done():
            # The thread may not have submitted the job yet, so once is not enough.
            with suppress(Exception):
                self.context.cancelJobGroup(group)
            wait([values], MOMENT)
        self._wait_for_tasks(group)

    def _wait_for_tasks(self, group: str) -> None:
        """Wait for tasks that go on for a moment after their job has ended."""
        stop = time.monotonic() + LONGEST
        while time.monotonic() < stop and any(
            stage.numActiveTasks for stage in self._list_stages(group)
        ):
            time.sleep(MOMENT)

    def _list_stages(self, group: str) -> list[Any]:
        """List what Spark knows of the stages of a job: nothing, if it has ended."""
        stages = []
        with suppress(Exception):
            tracker = self.context.statusTracker()
            jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
            stages = [tracker.getStageInfo(id_) for job in jobs if job for id_ in job.stageIds]
        return [stage for stage in stages if stage]


def run_pickled(call: bytes) -> Any:
    """Run a call on an executor."""
    # Spark has brought it from the client.
    value = run_on_worker(pickle.loads(call))  # noqa: S301
    # Spark has Python collect garbage after each task, which takes longer than many a task if
    # it looks at all modules and kernels every time. Frozen objects are not looked at.
    if len(gc.get_objects()) > MANY_OBJECTS:
        gc.collect()
        gc.freeze()
    return value


def _explain(error: BaseException) -> BaseException:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if not isinstance(error, Py4JError | PySparkException | ConnectionError):
        return error
    try:
        text = f"{type(error).__name__}: {error}"
    except ConnectionError:
        # The text would have come from Java.
        return OptionError(ENDED)
    found = (REMEDIES[words] for words in REMEDIES if re.search(words, text))
    return OptionError(next(found, LOST))


def connect_spark(
    session: Any, scratch: str | Path | None, progress: Progress = silent
) -> SparkEngine:
    """Build an engine for a session that the caller has.

    The default of ``scratch`` is the system's folder for temporary files if the master is
    ``local``; otherwise workers may be on other machines, and there is none.
    """
    try:
        context = session.sparkContext
    except Exception:
        raise OptionError(
            "the session has no Spark context; expected one that is connected to its master, and "
            "not to a server of Spark Connect, which runs no functions on executors; pass "
            "SparkSession.builder.master(URL).getOrCreate()"
        ) from None
    default = None
    if is_local(context.master):
        default = Path(tempfile.gettempdir())
        if "PYSPARK_PYTHON" not in os.environ:
            # Spark takes the first Python in the path, which may not have the package.
            context.pythonExec = sys.executable
    return SparkEngine(context, Scratch(choose_parent(scratch, default)), progress)


@contextmanager
def open_spark(
    scratch: Path, master: str | None = None, *, progress: Progress = silent
) -> Iterator[SparkEngine]:
    """Start a Spark of one's own, and stop it at the end.

    ``scratch`` is a folder that client and workers share: shards wait in a private folder inside
    it. ``master`` is the URL of the master; default: this machine, with all cores. What else a
    cluster needs is read from ``spark-defaults.conf``, as Spark does.
    """
    import_extra("pyspark", "spark")
    check_java()
    with ExitStack() as stack:
        # Closed last, when no worker on this machine can be writing.
        folder = Scratch(scratch)
        stack.callback(folder.close)
        context = stack.enter_context(
            start_spark(master or f"local[{default_threads()}]", folder.folder)
        )
        yield SparkEngine(context, folder, progress)
