"""Calls on a real Spark with two cores. The workers import their functions from here."""

import operator
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trajcloak.engines.spark import (
    MANY_OBJECTS,
    SparkEngine,
    check_java,
    check_master,
    connect_spark,
    open_spark,
)
from trajcloak.errors import InputError, OptionError

LONGEST = 120
SECRET = "u-4711"


# Of pyspark, for each job.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def engine(spark_engine: SparkEngine) -> SparkEngine:
    return spark_engine


def wait_for(*paths: Path) -> None:
    stop = time.monotonic() + LONGEST
    while not all(path.exists() for path in paths):
        assert time.monotonic() < stop
        time.sleep(0.01)


def cut(values: np.ndarray, parts: int) -> Iterator[list[np.ndarray]]:
    """Yield two chunks of pieces."""
    for half in np.array_split(values, 2):
        yield [half[half % parts == part] for part in range(parts)]


def refuse(value: str) -> None:
    raise InputError(f"row 3: {value.upper()}")


def meet(folder: Path, name: str, other: str) -> int:
    (folder / name).touch()
    wait_for(folder / other)
    return os.getpid()


def die_once(folder: Path, name: str) -> str:
    """End the first process that gets here without a word."""
    try:
        (folder / name).touch(exist_ok=False)
    except FileExistsError:
        return name
    os._exit(1)


def die(_: object) -> None:
    os._exit(1)


def keep_writing(folder: Path, name: str) -> None:
    for number in range(LONGEST * 20):
        (folder / f"{name}-{number}").touch()
        time.sleep(0.05)


def count_objects() -> int:
    import gc

    return len(gc.get_objects())


def find_variables(*names: str) -> list[str | None]:
    return [os.environ.get(name) for name in names]


@pytest.mark.cluster
def test_verbs(engine):
    arrays = engine.derive(np.arange, [(6,), (9,), (0,)])
    assert [len(engine.read(array)) for array in arrays] == [6, 9, 0]
    two = engine.put(2)
    evens, odds = engine.shuffle(cut, [(array, two) for array in arrays], 2)
    assert np.concatenate(engine.read(evens)).tolist() == [0, 2, 4, 0, 2, 4, 6, 8]
    assert engine.ask(np.concatenate, [(evens,), (odds,)])[1].tolist() == [1, 3, 5, 1, 3, 5, 7]
    assert engine.ask(operator.add, []) == []
    assert engine.ask(operator.add, [(i, 1) for i in range(30)]) == list(range(1, 31))
    engine.drop([arrays, evens, odds, two])
    # A thread removes the files.
    deadline = time.monotonic() + 60
    while list(engine.folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(engine.folder.iterdir()) == []


@pytest.mark.cluster
def test_functions_of_a_notebook(engine):
    """They cannot be imported by the workers."""
    function = eval("lambda a: a + 1", {"__name__": "__main__"})
    assert engine.ask(function, [(1,), (2,)]) == [2, 3]


@pytest.mark.cluster
def test_progress(engine):
    told = []
    engine.progress = lambda *news: told.append(news)
    engine.ask(operator.neg, [(1,), (2,), (3,)], "asking")
    engine.ask(operator.neg, [(1,)])
    assert told[0] == ("asking", 0, 3)
    assert told[-1] == ("asking", 3, 3)
    assert told == sorted(set(told))


@pytest.mark.cluster
def test_an_error_arrives_as_it_is(engine, capfd):
    for verb in (engine.ask, engine.derive):
        with pytest.raises(InputError, match=r"^row 3: U-4711$"):
            verb(refuse, [(SECRET,), (SECRET,)])
    with pytest.raises(StopIteration):
        engine.ask(next, [(iter(()),)])
    assert capfd.readouterr() == ("", "")


@pytest.mark.cluster
def test_calls_run_side_by_side(engine, tmp_path):
    assert engine.parallel == 2
    jobs = [(tmp_path, "a", "b"), (tmp_path, "b", "a")]
    assert len(set(engine.ask(meet, jobs))) == 2


@pytest.mark.cluster
def test_a_call_whose_process_is_lost_is_repeated(engine, tmp_path, capfd):
    names = ["a", "b", "c"]
    made = engine.derive(die_once, [(tmp_path, name) for name in names])
    assert engine.read(made) == names
    assert capfd.readouterr() == ("", "")


@pytest.mark.cluster
def test_a_call_that_ends_every_process(engine, capfd):
    with pytest.raises(OptionError, match="lost again and again") as caught:
        engine.ask(die, [(SECRET,), (SECRET,)])
    assert SECRET not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert engine.ask(operator.neg, [(1,)]) == [-1]


@pytest.mark.cluster
def test_a_package_that_workers_lack(engine, monkeypatch):
    module = type(sys)("nowhere")
    module.helper = type("helper", (), {"__module__": "nowhere", "__qualname__": "helper"})
    monkeypatch.setitem(sys.modules, "nowhere", module)
    monkeypatch.setattr(module, "__spec__", object(), raising=False)
    with pytest.raises(OptionError, match="cannot import what a call needs"):
        engine.ask(operator.truth, [(module.helper,)])


@pytest.mark.cluster
def test_nothing_is_written_after_an_interruption(engine, tmp_path):
    def interrupt() -> None:
        wait_for(tmp_path / "a-3", tmp_path / "b-3")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        engine.ask(keep_writing, [(tmp_path, name) for name in "abc"], "writing")
    thread.join()
    written = set(tmp_path.iterdir())
    time.sleep(0.5)
    assert set(tmp_path.iterdir()) == written
    assert tmp_path / "c-0" not in written
    assert engine.ask(operator.neg, [(1,)]) == [-1]


@pytest.mark.cluster
def test_progress_is_asked_for_where_no_interruption_arrives(engine, monkeypatch):
    asking = []
    list_stages = SparkEngine._list_stages

    def note_thread(self, group):
        asking.append(threading.current_thread())
        return list_stages(self, group)

    monkeypatch.setattr(SparkEngine, "_list_stages", note_thread)
    engine.ask(time.sleep, [(1.0,)], "sleeping")
    assert asking
    assert threading.main_thread() not in asking


@pytest.mark.cluster
def test_workers_are_kept_between_calls(engine):
    """With what they have loaded, which is not looked at after each call."""
    jobs: list[Any] = [()] * 4
    before = set(engine.ask(os.getpid, jobs))
    assert set(engine.ask(os.getpid, jobs)) & before
    assert max(engine.ask(count_objects, jobs)) < 2 * MANY_OBJECTS


@pytest.mark.cluster
def test_settings(engine):
    assert engine.context.master == "local[2,4]"
    assert engine.context.uiWebUrl is None
    assert engine.ask(find_variables, [("MALLOC_MMAP_MAX_",)]) == [["0"]]
    assert engine.ask(sys.getrecursionlimit, [()]) == [sys.getrecursionlimit()]
    handler = signal.getsignal(signal.SIGINT)
    assert handler is signal.default_int_handler


@pytest.mark.cluster
def test_a_session_of_the_caller(spark, scratch):
    class Session:
        sparkContext = spark.context  # noqa: N815

    engine = connect_spark(Session, scratch)
    assert engine.ask(operator.neg, [(1,)]) == [-1]
    assert engine.folder.parent == scratch
    engine.close()
    engine = connect_spark(Session, None)
    assert engine.folder.exists()
    engine.close()
    assert not engine.folder.exists()
    with pytest.raises(OptionError, match="has a Spark session already"), open_spark(scratch):
        pass


def test_a_session_on_other_machines():
    class Session:
        class sparkContext:  # noqa: N801
            master = "spark://host:7077"

    with pytest.raises(OptionError, match="no scratch folder is given"):
        connect_spark(Session, None)


def test_a_session_of_spark_connect():
    with pytest.raises(OptionError, match="Spark Connect"):
        connect_spark(object(), None)


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://host.invalid:7,x", "spark://"])
def test_no_master_answers(master):
    with pytest.raises(OptionError, match=f"^{master}: no master answers; expected .* master=$"):
        check_master(master)


def test_pyspark_is_missing(monkeypatch, scratch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with (
        pytest.raises(OptionError, match=r"install the extra 'spark'"),
        open_spark(scratch),
    ):
        pass


@pytest.mark.parametrize("home", [True, False])
def test_java_is_missing(monkeypatch, scratch, tmp_path, home):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with (
        pytest.raises(OptionError, match=r"expected version 17 or later .* JAVA_HOME"),
        open_spark(scratch),
    ):
        pass


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is of version 11.0.2"),
        ('java version "1.8.0_292"', "is of version 1.8.0_292"),
        ("no such thing", "does not start"),
    ],
)
def test_java_is_too_old(monkeypatch, tmp_path, printed, found):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(OptionError, match=f"Java {found}; expected"):
        check_java()


SESSIONS = """
import sys
from pathlib import Path
from engines.test_spark import SECRET, refuse
from trajcloak.engines.spark import connect_spark, open_spark
from trajcloak.errors import InputError, OptionError

folder = Path(sys.argv[1])
try:
    with open_spark(folder, "local[none]"):
        pass
except OptionError as error:
    print(error)
with open_spark(folder, "local[1]") as engine:
    print(engine.ask(len, [("abc",)]))
    print("quiet so far", file=sys.stderr, flush=True)
    engine.context._gateway.proc.kill()
    try:
        engine.ask(len, [(SECRET,)])
    except OptionError as error:
        print(error)

from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
engine = connect_spark(session, folder)
try:
    engine.ask(refuse, [(SECRET,)])
except InputError as error:
    print(type(error).__name__)
engine.close()
session.stop()
print(list(folder.iterdir()))
"""


@pytest.mark.cluster
def test_sessions_one_after_another(spark, tmp_path):
    """In a process of their own; the last one prints what Spark has to say."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    paths = os.pathsep.join(sys.path)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SESSIONS, folder],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = ended.stdout.splitlines()
    assert len(lines) == 5, ended.stderr
    assert lines[0].startswith("local[none]: Spark does not start (Could not parse Master URL")
    assert lines[2].startswith("Spark ended in mid-run;")
    assert [lines[1], *lines[3:]] == ["[3]", "InputError", "[]"]
    assert ended.stderr.startswith("quiet so far")
    assert SECRET not in ended.stderr
    assert SECRET.upper() not in ended.stderr
