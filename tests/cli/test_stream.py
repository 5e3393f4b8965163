"""``trajcloak stream``."""

import json
import signal
import subprocess
import sys
import time

import pytest

from online.stream_runs import Walk, audit_stream, encode, run_stream

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
