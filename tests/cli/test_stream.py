"""``trajcloak stream``."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from numba import njit

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
        (["--every", "60"], "every is '60'; expected a duration such as 60s, 1500ms"),
        (["--late", "soon"], "late is 'soon'; expected a duration"),
        (["--late=-5s"], "late is '-5s'; expected a duration"),
        (["--request", "bundle_id"], "name of a column of the release"),
        (["--request", "user_id"], "also holds the user"),
        (["--rare", "keep"], "vocabulary"),
        (["--region", "1,2,1,2"], "no rectangle"),
    ],
)
def test_options_that_cannot_be_used(run, tmp_path, options, words):
    done = run("stream", "-o", "release", *ASKED, *options)
    assert done.code == 2
    assert words in " ".join(done.err.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [[], ["--state", "state"]])
def test_a_folder_that_is_not_there_is_named(run, tmp_path, options):
    done = run("stream", "-o", "nope/release", *ASKED, *options)
    assert done.code == 2
    assert "there is no folder nope; expected one to write into" in " ".join(done.err.split())
    assert not list(tmp_path.iterdir())


@pytest.fixture
def send(run, monkeypatch):
    """Run a stream in this process: lines, as dictionaries, and what happens after them."""

    def send(lines, *options, then=lambda: None):
        def read():
            yield encode(lines)
            then()

        monkeypatch.setattr(stream, "_read_pieces", read)
        return run("stream", "-o", "release", *ASKED, REGION, *options)

    return send


def interrupt():
    raise KeyboardInterrupt


def test_the_end_says_what_was_published(send, tmp_path):
    done = send(WALK.list_lines())
    published = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert {line["instant"] for line in published} == set(range(7))
    assert "Published in this run: 7 instants, 2 complete epochs." in done.err
    assert "an epoch that is not complete are not in the release" in done.err
    assert "goes on" not in done.err
    done = send(WALK.list_lines(first=20))
    assert "The stream goes on with epoch 3, or a later one if reports are later" in done.err
    assert "; the rest of epoch 2, which was begun, is withheld." in done.err
    assert "before the stream began or went on" in done.err
    assert "The stream did not go on: fewer than k = 3 users have reported" in send([]).err
    later = Walk(users=20, instants=7, seed=2).list_lines(first=30)
    told = json.loads(send(later, "--json").err)
    assert told.pop("not_used")["before the stream began or went on"] > 0
    assert told == {
        "published": {"instants": 3, "epochs": 1},
        "began": True,
        "continued": True,
        "incomplete_epoch": False,
    }


@pytest.mark.parametrize(
    ("users", "instants", "words"),
    [
        (2, 8, "fewer than k = 3 users have reported times close to each other; expected"),
        (20, 1, "fewer than k = 3 users have reported a time after its first instant"),
    ],
)
def test_the_end_says_that_a_stream_did_not_begin(send, tmp_path, users, instants, words):
    lines = Walk(users=users, instants=instants, seed=2).list_lines()
    done = send(lines)
    assert (done.code, done.out) == (0, "")
    assert f"The stream did not begin: {words}" in done.err
    told = json.loads(send(lines, "--json").err)
    assert (told["published"], told["began"]) == ({"instants": 0, "epochs": 0}, False)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_stream_goes_on(send):
    done = send(WALK.list_lines(), then=interrupt)
    assert done.code == 130
    assert "Not used, private: " in done.err
    assert "Interrupted; the same command goes on with the next epoch." in done.err


def test_nothing_is_left_of_a_stream_that_is_interrupted_before_it_begins(send, tmp_path):
    done = send([], then=interrupt)
    assert done.code == 130
    assert "Interrupted; nothing unfinished was left behind." in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")
def test_a_service_manager_ends_a_stream_as_an_interrupt_does(send, monkeypatch):
    ended = []
    monkeypatch.setattr(signal, "raise_signal", ended.append)
    done = send(WALK.list_lines(), then=lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert ended == [signal.SIGTERM]
    assert "Published in this run: 7 instants, 2 complete epochs." in done.err
    assert "Ended; the same command goes on with the next epoch." in done.err


@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")
def test_a_stream_that_is_ended_ends_by_the_signal(tmp_path):
    with start(tmp_path) as run:
        run.stdin.write(encode(WALK.list_lines()))
        run.stdin.flush()
        run.stdout.readline()
        run.send_signal(signal.SIGTERM)
        _, messages = run.communicate(timeout=300)
    assert run.returncode == -signal.SIGTERM
    assert b"Not used, private: " in messages


@pytest.mark.parametrize("name", ["2.jsonl.gz", "2.jsonl.ZST"])
def test_compressed_files_are_refused_before_anything_is_read(run, tmp_path, name):
    folder = tmp_path / "feed"
    folder.mkdir()
    (folder / "1.jsonl").write_bytes(encode(WALK.list_lines()))
    (folder / name).touch()
    (folder / ".3.jsonl.gz").touch()
    done = run("stream", "-o", "release", *ASKED, REGION, "--follow", str(folder))
    assert (done.code, done.out) == (2, "")
    assert f"{name}: is compressed; expected lines of a stream; unpack" in done.err
    assert "did not begin" not in done.err
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.needs_jit
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_compilation_is_noted_once(send, options):
    def compile_two():
        for number in (1, 1.0):
            njit(lambda n: n + 1)(number)

    done = send([], *options, then=compile_two)
    assert done.err.count("Note: compiling, once per installation") == (not options)
