"""The plan on Spark: a session of the caller's, or one that is started for the run."""

import gc
import logging
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from trajcloak.engines.shard_files import Scratch
from trajcloak.engines.stored import (
    KEPT_MEMORY,
    Call,
    StoredEngine,
    make_scratch,
    raise_failed,
    run_on_worker,
)
from trajcloak.errors import OptionError, import_extra
from trajcloak.kernels.threads import default_threads
from trajcloak.progress import Progress, silent

Context: TypeAlias = Any
"""A ``pyspark.SparkContext``."""

LOCAL = re.compile(r"local(\[(?P<cores>\*|[0-9]+)(?P<tries>, *[0-9]+)?\])?")
"""URLs of a Spark inside one process of this machine."""

OLDEST_JAVA = 17
TIMEOUT = 30
TRIES = 4
"""How often Spark tries a call; without a number, a local Spark gives up after the first try."""

SOCKET_NAME = 43
LONGEST_SOCKET_PATH = 100
"""Bytes of the name of a socket's file, and of its path, for which systems have about a hundred."""

SETTINGS = {
    "spark.app.name": "trajcloak",
    "spark.locality.wait": "0",
    "spark.log.level": "ERROR",
    "spark.python.task.killTimeout": "0",
    "spark.python.worker.reuse": "true",
    "spark.speculation": "false",
    "spark.task.maxFailures": str(TRIES),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Workers are reused because they keep kernels loaded, and nothing listens for a browser."""

LOCAL_SETTINGS = {
    "spark.authenticate": "true",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.io.encryption.enabled": "true",
    "spark.network.crypto.enabled": "true",
}
"""On this machine Spark makes up the secret itself."""

JAVA_OPTIONS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Has Java compile less: its part of the work is so small that compiling costs more."""

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
        """Run the job in a thread, so that this one can report progress and be interrupted."""
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
        # Another thread asks: each has its own connection to Java, and an interruption within a
        # question would leave that of this thread with an answer that nobody has read.
        with ThreadPoolExecutor(1) as asking:
            while wait([values], MOMENT).not_done:
                stages = asking.submit(self._list_stages, group).result()
                known = sum(stage.numCompletedTasks for stage in stages)
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
    """Build an engine for a session that the caller has."""
    try:
        context = session.sparkContext
    except Exception:
        raise OptionError(
            "the session has no Spark context; expected one that is connected to its master, and "
            "not to a server of Spark Connect, which runs no functions on executors; pass "
            "SparkSession.builder.master(URL).getOrCreate()"
        ) from None
    local = LOCAL.fullmatch(context.master) is not None
    if local and "PYSPARK_PYTHON" not in os.environ:
        # Spark takes the first Python in the path, which may not have the package.
        context.pythonExec = sys.executable
    return SparkEngine(context, make_scratch(scratch, is_local=local), progress)


@contextmanager
def open_spark(
    scratch: Path, master: str | None = None, *, progress: Progress = silent
) -> Iterator[SparkEngine]:
    """Start a Spark of one's own, and stop it at the end.

    ``scratch`` is a folder that client and workers share: shards wait in a private folder inside
    it. ``master`` is the URL of the master; default: this machine, with all cores. What else a
    cluster needs is read from ``spark-defaults.conf``, as Spark does.
    """
    import_extra("pyspark", "--engine=spark", "spark")
    check_java()
    from pyspark import SparkConf, SparkContext

    if SparkContext._active_spark_context is not None:
        raise OptionError(
            "this process has a Spark session already; expected none, since there can only be one; "
            "pass it as engine, or stop it"
        )
    master = master or f"local[{default_threads()}]"
    check_master(master)
    settings = SETTINGS | {f"spark.executorEnv.{name}": KEPT_MEMORY[name] for name in KEPT_MEMORY}
    with ExitStack() as stack:
        # The folder is closed last, when no worker on this machine can be writing.
        folder = stack.enter_context(closing(Scratch(scratch)))
        url, local = master, LOCAL.fullmatch(master)
        if local is not None:
            settings |= LOCAL_SETTINGS | _choose_local(stack, folder.folder)
            # A Spark inside one process repeats calls only if its URL says how often.
            url = f"local[{local['cores'] or 1}{local['tries'] or f',{TRIES}'}]"
        # Spark takes over Ctrl-C, too.
        handler = signal.getsignal(signal.SIGINT)
        try:
            gateway = stack.enter_context(_launch_java(JAVA_OPTIONS if local else {}))
            conf = SparkConf().setMaster(url).setAll(list(settings.items()))
            with warnings.catch_warnings():
                # Of pandas, which is not used.
                warnings.simplefilter("ignore", FutureWarning)
                context = SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            raise _explain_start(master, error) from None
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, handler)
        stack.callback(_stop, context)
        if local is not None:
            context.pythonExec = sys.executable
        yield SparkEngine(context, folder, progress)


def _stop(context: Context) -> None:
    """Stop Spark, also if Java has ended before: the second call tidies up in Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(2):
            with suppress(Exception):
                context.stop()


def _choose_local(stack: ExitStack, folder: Path) -> dict[str, str]:
    """Choose folders and variables for a Spark on this machine."""
    settings = {
        "spark.local.dir": str(folder),
        # Workers find whatever the client does.
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(
            path or str(Path.cwd()) for path in sys.path
        ),
    }
    for name in KEPT_MEMORY.keys() & os.environ.keys():
        settings[f"spark.executorEnv.{name}"] = os.environ[name]
    # Through sockets of the network, each task waits 40 ms for an acknowledgement.
    sockets = stack.enter_context(tempfile.TemporaryDirectory(prefix="trajcloak-"))
    if os.name == "posix" and len(sockets) + SOCKET_NAME < LONGEST_SOCKET_PATH:
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = sockets
    return settings


@contextmanager
def _launch_java(options: Mapping[str, str]) -> Iterator[Any]:
    """Start Java for as long as it is needed, unless this process has it running already.

    What it prints goes nowhere: errors of workers are in it. What its client logs are errors that
    are raised as well.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        yield None
        return
    conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
    gateway = launch_gateway(conf, {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL})
    logger = logging.getLogger("py4j")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield gateway
    finally:
        logger.setLevel(level)
        SparkContext._gateway = SparkContext._jvm = None
        with suppress(Exception):
            gateway.shutdown()
        if gateway.proc is not None:
            gateway.proc.stdin.close()
            gateway.proc.wait()


def _explain_start(master: str, error: Exception) -> OptionError:
    from py4j.protocol import Py4JJavaError

    found = type(error).__name__
    if isinstance(error, Py4JJavaError):
        found = str(error.java_exception.getMessage()).partition("\n")[0]
    return OptionError(
        f"{master}: Spark does not start ({found}); expected the URL of a master, such as "
        f"local[4], spark://host:7077, yarn or k8s://https://host:6443; check --master, SPARK_HOME "
        f"and spark-defaults.conf"
    )


def check_master(master: str) -> None:
    """Raise if no master of Spark's own answers: Spark itself would try for a minute or more."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError, ValueError, OverflowError):
            socket.create_connection((host.strip("[]"), int(port)), TIMEOUT).close()
            return
    raise OptionError(
        f"{master}: no master answers; expected the URL of one, such as spark://host:7077; check "
        f"--master"
    )


def check_java() -> None:
    """Raise unless the Java that Spark would start is there, and new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    found = "is not installed" if home is None else "is not in JAVA_HOME"
    if java is not None:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
        version = re.search(r'version "([0-9]+)([^"]*)"', ran.stderr)
        if version is not None and int(version[1]) >= OLDEST_JAVA:
            return
        found = "does not start" if version is None else f"is of version {version[1]}{version[2]}"
    raise OptionError(
        f"Java {found}; expected version {OLDEST_JAVA} or later for --engine=spark; install it, "
        f"and have JAVA_HOME name its folder"
    )
