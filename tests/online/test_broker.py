"""The pipeline of docs/how-to/live-feed.md, with a real MQTT broker."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from documentation.pages import PROJECT, read_blocks
from online.stream_runs import START
from required import require
from trajcloak.auditor import audit_files
from trajcloak.options import LogColumns

SEARCHED = f"{os.environ['PATH']}:/usr/sbin"
"""Debian keeps servers where not everybody looks for commands."""

JOURNAL = "journal"
PHONES = [f"user{n}" for n in range(9)]
INSTANTS = 8


@pytest.fixture
def port(tmp_path) -> Iterator[int]:
    """Run a broker of our own; yields its port."""
    broker = shutil.which("mosquitto", path=SEARCHED)
    has_all = broker is not None and shutil.which("mosquitto_sub") is not None
    require("mosquitto and its clients; `make broker` installs them", has_all)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    settings = tmp_path / "mosquitto.conf"
    settings.write_text(f"listener {number} 127.0.0.1\nallow_anonymous true\n")
    command = [str(broker), "-v", "-c", str(settings)]
    with (tmp_path / JOURNAL).open("w") as journal:
        server = subprocess.Popen(command, stdout=journal, stderr=journal)
        try:
            wait_until(lambda: is_listening(number))
            yield number
        finally:
            server.terminate()
            server.wait()


def is_listening(number: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", number)) == 0


def wait_until(is_true, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "waited for too long"
        time.sleep(0.05)


def send(number: int, topic: str, content: dict) -> None:
    command = ["mosquitto_pub", "-h", "localhost", "-p", str(number), "-q", "1", "-t", topic]
    subprocess.run([*command, "-m", json.dumps(content)], check=True)


@pytest.mark.slow
@pytest.mark.needs_jit
def test_the_pipeline_of_the_page(tmp_path, port):
    page = (PROJECT / "docs" / "how-to" / "live-feed.md").read_text()
    (pipeline,) = (b.code for b in read_blocks(page) if "trajcloak stream" in b.code)
    assert "-h localhost" in pipeline
    pipeline = pipeline.replace("-h localhost", f"-h localhost -p {port}")
    pipeline = pipeline.replace("--k 50", "--k 3").replace("--epoch 5", "--epoch 2")
    messages = list_messages()
    pipeline = pipeline.replace("mosquitto_sub", f"mosquitto_sub -C {len(messages)}")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.Popen(["bash", "-c", pipeline], cwd=tmp_path, env=os.environ | {"PATH": path})
    wait_until(lambda: "SUBACK" in (tmp_path / JOURNAL).read_text())
    for topic, content in messages:
        send(port, topic, content)
    assert run.wait(120) == 0
    assert read_instants(tmp_path / "published.jsonl") == set(range(INSTANTS - 2))
    state = tmp_path / "streamed-private"
    report = audit_files(
        str(state / "finished/*/locations.parquet"),
        tmp_path / "streamed",
        state / "policy.parquet",
        LogColumns(),
        request_log=str(state / "finished/*/requests.parquet"),
    )
    assert report.passed, report.verdict
    assert set(pq.read_table(state / "policy.parquet")["user_id"].to_pylist()) == {
        f"{phone}/phone" for phone in PHONES
    }
    requests = pq.read_table(tmp_path / "streamed" / "requests.parquet")
    assert set(requests["category"].to_pylist()) == {"food"}


def list_messages() -> list[tuple[str, dict]]:
    """List what phones and a service send, and a message of another type."""
    messages = [("owntracks/user0/phone", {"_type": "lwt", "tst": START})]
    for instant in range(INSTANTS):
        now = START + 60 * instant
        for n, phone in enumerate(PHONES):
            place = {"lat": 52.52 + n / 1000, "lon": 13.405 + instant / 10_000, "tid": "ph"}
            location = {"_type": "location", "tst": now, **place}
            messages.append((f"owntracks/{phone}/phone", location))
            request = {"kind": "request", "user_id": f"{phone}/phone", "time": now}
            messages.append(("requests/shop", {**request, "category": "food"}))
    return messages


def read_instants(published: Path) -> set[int]:
    return {json.loads(line)["instant"] for line in published.read_text().splitlines()}
