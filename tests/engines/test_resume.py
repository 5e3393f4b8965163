"""What a run leaves when it is interrupted, and who may continue it."""

import errno
import os
import shutil
import stat
from dataclasses import replace

import pytest

import trajcloak as tc
from engines.drawn_runs import Run
from engines.kills import write_log
from small_logs import list_tree
from trajcloak import pipeline
from trajcloak.bundling import bundle_windows, runs
from trajcloak.cli import main
from trajcloak.engines import folder as folder_module
from trajcloak.engines.engine import Sizes
from trajcloak.engines.folder import FolderEngine
from trajcloak.log import read as read_module
from trajcloak.options import LogColumns

WORK = ".release.trajcloak-work"


class Stop(BaseException):
    """Ends a run as a signal does."""


@pytest.fixture
def run(tmp_path) -> Run:
    return write_log(tmp_path / "log")


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def start(run, out, **more):
    return run.in_bounded_memory(out / "release", out / "policy.parquet", **more)


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    """Ten windows in five runs, from four shards."""
    monkeypatch.setattr(FolderEngine, "choose_sizes", lambda *_: Sizes(600, 2 * 4 * 60))


def interrupt(run, out, monkeypatch, after=3, error=Stop):
    """Stop a run after some runs of windows."""
    done = []

    def bundle(shards, *rest):
        if len(done) == after:
            raise error("stopped")
        done.append(shards[0][0].window.number)
        return runs.bundle_run(shards, *rest)

    # Stages are found by the names of their functions.
    bundle.__name__ = "bundle_run"
    with monkeypatch.context() as patched:
        patched.setattr(bundle_windows, "bundle_run", bundle)
        with pytest.raises(error):
            start(run, out)
    assert done == [0, 2, 4][:after]


def test_an_interrupted_run_is_continued_where_it_was(run, out, tmp_path, monkeypatch):
    (tmp_path / "whole").mkdir()
    start(run, tmp_path / "whole")
    interrupt(run, out, monkeypatch)
    assert [path.name for path in out.iterdir()] == [WORK]
    assert stat.S_IMODE((out / WORK).stat().st_mode) == 0o700
    solved = []

    def bundle(shards, *rest):
        solved.append(shards[0][0].window.number)
        return runs.bundle_run(shards, *rest)

    def read(*_):
        raise AssertionError("the log is not read again")

    bundle.__name__, read.__name__ = "bundle_run", "read_rows"
    monkeypatch.setattr(bundle_windows, "bundle_run", bundle)
    monkeypatch.setattr(read_module, "read_rows", read)
    start(run, out, resume=True)
    assert solved == [6, 8]
    assert list_tree(out) == list_tree(tmp_path / "whole")


def test_without_resume_the_work_is_in_the_way(run, out, monkeypatch):
    interrupt(run, out, monkeypatch)
    before = list_tree(out)
    with pytest.raises(tc.OutputError, match="continue the run with resume=, or remove"):
        start(run, out)
    assert list_tree(out) == before


def test_with_nothing_to_resume_a_run_starts_anew(run, out):
    start(run, out, resume=True)
    assert (out / "release").is_dir()


@pytest.mark.parametrize("what", ["k", "options", "log options", "log files", "policy file"])
def test_another_run_is_not_continued(run, out, monkeypatch, what):
    interrupt(run, out, monkeypatch)
    policy = out / "policy.parquet"
    other = run
    if what == "k":
        other = replace(run, k=6)
    elif what == "options":
        other = replace(run, options={**run.options, "length": 5})
    elif what == "log options":
        other = replace(run, columns=LogColumns())
    elif what == "log files":
        file = run.source / "part-0.parquet"
        os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    else:
        policy = out / "other.parquet"
    with pytest.raises(tc.OutputError, match=f"had other {'options' if what == 'k' else what}"):
        other.in_bounded_memory(out / "release", policy, resume=True)
    assert [path.name for path in out.iterdir()] == [WORK]


def test_a_file_that_was_exchanged_for_one_of_the_same_size_is_noticed(run, out, monkeypatch):
    interrupt(run, out, monkeypatch)
    file = run.source / "part-1.parquet"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=times)
    with pytest.raises(tc.OutputError, match="had other log files"):
        start(run, out, resume=True)


def test_bad_input_leaves_nothing(run, out):
    with pytest.raises(tc.NotEnoughUsersError):
        start(replace(run, k=61), out)
    assert not list(out.iterdir())


def test_a_disk_that_fails_keeps_the_work(run, out, monkeypatch):
    interrupt(run, out, monkeypatch, error=tc.OutputError)
    assert [path.name for path in out.iterdir()] == [WORK]


def test_a_run_of_windows_whose_file_is_cut_short_is_done_again(run, out, tmp_path, monkeypatch):
    (tmp_path / "whole").mkdir()
    start(run, tmp_path / "whole")
    interrupt(run, out, monkeypatch)
    (folder,) = (out / WORK).glob("*-bundle_run")
    (folder / "1").write_bytes((folder / "1").read_bytes()[:-8])
    (folder / "2").write_bytes(b"")
    start(run, out, resume=True)
    assert list_tree(out) == list_tree(tmp_path / "whole")


def test_shards_that_are_lost_are_noticed(run, out, monkeypatch):
    """What is needed, and cannot be made again since its source was dropped, ends the run."""
    interrupt(run, out, monkeypatch)
    cut = [f for f in (out / WORK).glob("*-call_on_shard/0") if f.stat().st_size > 10_000]
    assert cut
    for file in cut:
        file.unlink()
    for file in (out / WORK).glob("*-join_shard/0"):
        file.unlink()
    with pytest.raises(tc.OutputError, match="No such file or directory"):
        start(run, out, resume=True)


def test_a_disk_without_room_for_the_first_file(run, out, monkeypatch):
    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(folder_module.os, "fsync", fail)
        with pytest.raises(tc.OutputError, match=r"cannot be written \(No space left .*free space"):
            start(run, out)
    start(run, out, resume=True)
    assert sorted(path.name for path in out.iterdir()) == ["policy.parquet", "release"]


def test_more_memory_may_be_given(run, out, tmp_path, monkeypatch):
    (tmp_path / "whole").mkdir()
    start(run, tmp_path / "whole")
    interrupt(run, out, monkeypatch)
    with pytest.raises(tc.OutputError, match=r"had 1\.0 GiB of memory; expected as much, or more"):
        start(run, out, resume=True, memory="700MiB")
    start(run, out, resume=True, memory="2GiB")
    assert list_tree(out) == list_tree(tmp_path / "whole")


@pytest.mark.parametrize(
    ("stopped_at", "in_place"),
    [
        ("policy.parquet", []),
        ("policy-parts.parquet", ["policy.parquet"]),
        ("release", ["policy-parts.parquet", "policy.parquet"]),
    ],
)
def test_private_files_that_are_in_place_already(run, out, monkeypatch, stopped_at, in_place):
    """Killed between the last steps."""
    run = replace(run, options={**run.options, "parts": 2, "parts_per": "instant"})
    with monkeypatch.context() as patched:

        def move(source, path, *rest):
            if path.name == stopped_at:
                raise Stop
            shutil.move(source, path)

        patched.setattr(folder_module, "move", move)
        with pytest.raises(Stop):
            start(run, out)
    assert sorted(path.name for path in out.iterdir()) == [WORK, *in_place]
    start(run, out, resume=True)
    expected = ["policy-parts.parquet", "policy.parquet", "release"]
    assert sorted(path.name for path in out.iterdir()) == expected


def test_a_folder_of_somebody_else_is_not_taken_over(run, out, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (out / WORK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(tc.OutputError, match="not a folder that only you can read"):
        start(run, out, resume=True)
    (out / WORK).unlink()
    (out / WORK).mkdir(mode=0o755)
    with pytest.raises(tc.OutputError, match="not a folder that only you can read"):
        start(run, out, resume=True)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_two_runs_at_once(run, out, monkeypatch):
    def start_another(*_):
        start(run, out, resume=True)

    monkeypatch.setattr(pipeline, "read_shards", start_another)
    with pytest.raises(tc.OutputError, match="another run is working there"):
        start(run, out)


def test_an_interrupt_on_the_command_line_says_how_to_go_on(run, out, monkeypatch, capsys):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "bundle_windows", press)
    args = ["anonymize", str(run.source), "-o", str(out / "release"), "--k", "5"]
    with pytest.raises(SystemExit) as end:
        main([*args, "--length", "4", "--memory", "1GiB"])
    assert end.value.code == 130
    assert "--resume" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == [WORK]


def test_resume_needs_a_limit(run, out, capsys):
    args = ["anonymize", str(run.source), "-o", str(out / "release"), "--k", "5", "--resume"]
    with pytest.raises(SystemExit) as end:
        main(args)
    assert end.value.code == 2
    assert "--resume goes with --memory only" in capsys.readouterr().err
