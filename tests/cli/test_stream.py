"""``trajcloak stream``."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from online.stream_runs import Walk, audit_stream, encode, run_stream
from trajcloak.cli import stream

WALK = Walk(users=20, instants=8, seed=2)
ASKED = ["--k", "3", "--every", "10s", "--epoch", "3", "--request", "category"]
REGION = "--region=-100,-100,200,200"


def start(folder, *options):
    program = [sys.executable, "-c", "from trajcloak.cli import main; main()", "stream"]
    where = ["-o", str(folder / "release"), "--state", str(folder / "state")]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([*program, *where, *ASKED, REGION, *options], **pipes)


@pytest.mark.slow
@pytest.mark.needs_jit
def test_lines_through_a_pipe(tmp_path):
    expected = run_stream(tmp_path / "expected", WALK.list_lines())
    text = encode(WALK.list_lines()) + b"secret\n"
    with start(tmp_path, "--json") as run:
        output, messages = run.communicate(text, timeout=300)
    assert run.returncode == 0
    assert [json.loads(line) for line in output.splitlines()] == expected.published
    assert json.loads(messages)["not_used"]["no JSON"] == 1
    assert audit_stream(tmp_path).passed
    with start(tmp_path, "--epoch", "4") as run:
        _, messages = run.communicate(b"", timeout=300)
    assert run.returncode == 2
    assert b"another epoch" in messages


def test_a_folder_that_is_not_there_is_not_followed(run, tmp_path):
    done = run("stream", "-o", "release", *ASKED, "--follow", "feed")
    assert done.code == 2
    assert "Directory 'feed' does not exist" in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.needs_jit
def test_files_of_a_folder_are_followed(tmp_path):
    expected = run_stream(tmp_path / "expected", WALK.list_lines())
    folder = tmp_path / "feed"
    folder.mkdir()
    lines = WALK.list_lines()
    (folder / "1.jsonl").write_bytes(encode(lines[:100]))
    (folder / ".2.jsonl").write_bytes(b"unfinished")
    with start(tmp_path, "--follow", str(folder)) as run:
        time.sleep(1)
        (folder / ".2.jsonl").write_bytes(encode(lines[100:]))
        (folder / ".2.jsonl").rename(folder / "2.jsonl")
        found = [run.stdout.readline() for _ in expected.published]
        run.send_signal(signal.SIGINT)
        _, messages = run.communicate(timeout=300)
    assert [json.loads(line) for line in found] == expected.published
    assert run.returncode == 130
    assert b"Interrupted" in messages


def read_texts(pieces, count):
    return b"".join(next(pieces) for _ in range(count)).split(b"\n")


def test_files_that_are_renamed_or_removed_are_no_failure(tmp_path, monkeypatch):
    """Also between being listed and being opened."""
    monkeypatch.setattr(stream, "LOOK_AGAIN", 0)
    for name in ("1", "2", "3", ".hidden"):
        (tmp_path / name).write_text(f"of {name}")
    (tmp_path / "folder").mkdir()
    pieces = stream._follow_files(tmp_path)
    assert read_texts(pieces, 2) == [b"of 1", b""]
    (tmp_path / "2").rename(tmp_path / "4")
    assert read_texts(pieces, 4) == [b"of 3", b"of 2", b""]
    (tmp_path / "4").rename(tmp_path / "0")
    (tmp_path / "5").write_text("of 5")
    assert read_texts(pieces, 2) == [b"of 5", b""]


FAILS = Path("/proc/self/mem")
"""A file whose first byte cannot be read."""


@pytest.mark.parametrize(
    "broken",
    [
        "a folder that goes",
        pytest.param(
            "a file that fails", marks=pytest.mark.skipif(not FAILS.exists(), reason="no /proc")
        ),
    ],
)
def test_input_that_cannot_be_read_is_not_called_output(run, tmp_path, monkeypatch, broken):
    folder = tmp_path / "feed"
    folder.mkdir()
    (folder / "1").write_bytes(encode(WALK.list_lines()))
    if broken == "a folder that goes":
        monkeypatch.setattr(stream.time, "sleep", lambda _: shutil.rmtree(folder))
    if broken == "a file that fails":
        (folder / "2").symlink_to(FAILS)
    done = run("stream", "-o", "release", *ASKED, REGION, "--follow", str(folder))
    assert done.code == 2
    assert "feed: cannot be read" in " ".join(done.err.split())
    assert "disk" not in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--lag", "3"], "shorter than the epoch"),
        (["--every", "60"], "every is '60'"),
        (["--late", "soon"], "late is 'soon'"),
        (["--request", "bundle_id"], "name of a column of the release"),
        (["--request", "user_id"], "also holds the user"),
        (["--rare", "keep"], "vocabulary"),
        (["--region", "1,2,1,2"], "no rectangle"),
    ],
)
def test_options_that_cannot_be_used(run, options, words):
    done = run("stream", "-o", "release", *ASKED, *options)
    assert done.code == 2
    assert words in " ".join(done.err.split())
