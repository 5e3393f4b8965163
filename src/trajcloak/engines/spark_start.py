"""Start Spark for one run, quiet and closed to others, and stop it at the end."""

import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from trajcloak.engines.stored import KEPT_MEMORY
from trajcloak.errors import OptionError

Context: TypeAlias = Any
"""A ``pyspark.SparkContext``."""

LOCAL = re.compile(r"local(\[(?P<cores>\*|[0-9]+)(?P<tries>, *[0-9]+)?\])?")
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


@contextmanager
def start_spark(master: str, folder: Path) -> Iterator[Context]:
    """Start a Spark, and Java for it."""
    from pyspark import SparkConf, SparkContext

    if SparkContext._active_spark_context is not None:
        raise OptionError(
            "this process has a Spark session already; expected none, since there can only be one; "
            "pass it as engine, or stop it"
        )
    settings = SETTINGS | {f"spark.executorEnv.{name}": KEPT_MEMORY[name] for name in KEPT_MEMORY}
    check_master(master)
    with ExitStack() as stack:
        if is_local(master):
            settings |= LOCAL_SETTINGS | _choose_local(stack, folder)
        # Spark takes over Ctrl-C, too.
        handler = signal.getsignal(signal.SIGINT)
        try:
            gateway = stack.enter_context(_launch_java(JAVA_OPTIONS if is_local(master) else {}))
            conf = SparkConf().setMaster(_count_tries(master)).setAll(list(settings.items()))
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
        if is_local(master):
            context.pythonExec = sys.executable
        yield context


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


def is_local(master: str) -> bool:
    """Whether Spark runs inside one process of this machine."""
    return LOCAL.fullmatch(master) is not None


def _count_tries(master: str) -> str:
    """Have a Spark inside one process repeat calls, too, which takes a number in its URL."""
    found = LOCAL.fullmatch(master)
    if found is None or found["tries"]:
        return master
    return f"local[{found['cores'] or 1},{TRIES}]"


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
