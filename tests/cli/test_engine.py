"""Where a run is done."""

import signal
import subprocess
import sys
import time

import pytest

from cli.conftest import SCRIPT
from engines.releases import write_log
from small_logs import clustered_rows, list_tree
from trajcloak.cli import EXIT_INTERRUPTED
from trajcloak.cli.anonymize import _interrupted_if_terminated

FILES = ["bundles.parquet", "manifest.json", "requests.parquet"]


@pytest.fixture
def log(tmp_path):
    return write_log(tmp_path, clustered_rows(per_cluster=6))


def list_arguments(log, output, *more):
    return (
        "anonymize", log, "-o", output, "--k", "3", "--request", "what",
        "--algorithm", "traj-anon", *more,
    )  # fmt: skip


@pytest.mark.cluster
def test_a_cluster_on_this_machine(run, tmp_path, log):
    for name, more in (("memory", ()), ("dask", ("--engine", "dask", "--workers", "1"))):
        done = run(*list_arguments(log, tmp_path / name, *more))
        assert done.code == 0
        assert "smallest bundle" in done.out
    assert {path.name for path in tmp_path.iterdir()} == {"log.parquet", "memory", "dask"}
    memory, dask = (list_tree(tmp_path / name) for name in ("memory", "dask"))
    assert sorted(memory) == FILES
    assert memory == dask


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--scheduler", "tls://127.0.0.1:1"], "--scheduler goes with --engine dask only"),
        (["--workers", "2"], "--workers goes with --engine dask only"),
        (["--tls-ca", "ca.pem"], "--tls-ca goes with --engine dask only"),
        (["--scratch", "."], "--scratch goes with --engine dask or spark only"),
        (["--engine", "dask", "--scratch", "none"], "none: no scratch folder can be made in it"),
        (["--engine", "dask", "--tls-ca", "ca.pem"], "--tls-ca goes with --scheduler only"),
        (
            ["--engine", "dask", "--scheduler", "tcp://127.0.0.1:1", "--workers", "2"],
            "--workers does not go with --scheduler",
        ),
    ],
)
def test_options_that_do_not_fit(run, tmp_path, log, options, expected):
    done = run(*list_arguments(log, tmp_path / "release", *options))
    assert done.code == 2
    assert expected in " ".join(done.err.split())
    assert not (tmp_path / "release").exists()


def test_a_scratch_folder_in_the_log_is_refused(run, tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    write_log(folder, clustered_rows())
    more = ("--engine", "dask", "--scratch", folder)
    done = run(*list_arguments(folder, tmp_path / "release", *more))
    assert done.code == 2
    assert "inside the folder of the log" in " ".join(done.err.split())


@pytest.mark.cluster
def test_a_run_that_fails_leaves_nothing(run, tmp_path, log):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = list_tree(tmp_path)
    for more in ((), ("--scratch", scratch)):
        done = run(
            "anonymize", log, "-o", tmp_path / "release", "--k", "500",
            "--engine", "dask", "--workers", "1", *more,
        )  # fmt: skip
        assert done.code == 2
        assert "expected at least 500" in " ".join(done.err.split())
        assert list_tree(tmp_path) == before


@pytest.mark.cluster
def test_a_run_that_is_terminated_leaves_nothing(tmp_path, log):
    before = list_tree(tmp_path)
    arguments = list_arguments(log, tmp_path / "release", "--engine", "dask", "--workers", "1")
    with subprocess.Popen([SCRIPT, *map(str, arguments)], stderr=subprocess.PIPE) as running:
        while not list(tmp_path.glob(".trajcloak-*.scratch/*")):
            assert running.poll() is None
            time.sleep(0.001)
        running.terminate()
        _, printed = running.communicate(timeout=300)
    assert running.returncode == EXIT_INTERRUPTED
    assert b"Interrupted; nothing unfinished was left behind." in printed
    assert list_tree(tmp_path) == before


class _SignalledAtTheEnd:
    """Gets a signal while it is collected, when Python drops exceptions."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interruption_that_python_drops_is_raised_again(capsys, number):
    def work():
        with _interrupted_if_terminated():
            _SignalledAtTheEnd(number)
            time.sleep(60)

    kept = signal.getsignal(number), sys.unraisablehook
    with pytest.raises(KeyboardInterrupt):
        work()
    assert (signal.getsignal(number), sys.unraisablehook) == kept
    assert capsys.readouterr().err == ""


def test_an_interruption_that_comes_too_late_is_none(monkeypatch):
    monkeypatch.setattr("trajcloak.cli.anonymize.MOMENT", 60)
    with _interrupted_if_terminated():
        _SignalledAtTheEnd(signal.SIGTERM)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_other_errors_that_python_drops_are_reported(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    with _interrupted_if_terminated():
        _SignalledAtTheEnd("no number")
    assert [dropped.exc_type for dropped in reported] == [TypeError]


def test_a_scheduler_that_does_not_answer(run, tmp_path, log, monkeypatch):
    monkeypatch.setattr("trajcloak.engines.dask.TIMEOUT", "1s")
    more = ("--engine", "dask", "--scheduler", "tcp://127.0.0.1:9")
    done = run(*list_arguments(log, tmp_path / "release", *more))
    assert done.code == 2
    assert "no scheduler answers" in " ".join(done.err.split())
