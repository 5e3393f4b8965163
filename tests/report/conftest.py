from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from report.browser import CHROMIUM, start_browser
from required import require
from runs import anonymize
from small_logs import COLUMNS
from trajcloak.log import read_in_memory
from trajcloak.query import PublishedRelease, open_published
from trajcloak.report import write_report_page

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(3)>",
    "\"'><svg onload=alert(4)>",
    "${alert(5)} $title &lt;b&gt; \\u003c",
    "pay\u202egnp.exe",
    "line\u2028separator\u2029end\x07",
]
"""What a request must not do to a page."""


def write_log(path: Path, users: int, instants: int, texts: list[str], seed: int = 0) -> Path:
    """Write a log of people who walk about, each with a request at every third place."""
    rng = np.random.default_rng(seed)
    aim = rng.normal(0, 40, (users, 1, 2)) * np.linspace(0, 1, instants)[None, :, None]
    places = rng.uniform(0, 400, (users, 1, 2)) + aim + rng.normal(0, 3, (users, instants, 2))
    number = np.arange(users * instants)
    what = [texts[i // 3 % len(texts)] if i % 3 == 0 else None for i in number.tolist()]
    pq.write_table(
        pa.table(
            {
                "user_id": number // instants,
                "time": pa.array(
                    np.datetime64("2024-05-06T08:00", "us")
                    + (number % instants) * np.timedelta64(60, "s")
                ),
                "x": places[..., 0].ravel(),
                "y": places[..., 1].ravel(),
                "what": pa.array(what, pa.string()),
            }
        ),
        path,
    )
    return path


def publish(folder: Path, users: int, instants: int, k: int, texts: list[str], **options) -> Path:
    """Write a log, a release and a policy file into a folder."""
    log = write_log(folder / "log.parquet", users, instants, texts)
    made = {"rare": "keep", "allow": ("what",), "algorithm": "traj-anon", **options}
    result = anonymize(read_in_memory(log, COLUMNS), k, **made)
    result.write(folder / "release", folder / "policy.parquet")
    return folder


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A folder with a log, its release in two windows, and its policy file; not to be changed."""
    return publish(tmp_path_factory.mktemp("report"), 60, 8, 5, HOSTILE, length=4)


@pytest.fixture
def release(made) -> PublishedRelease:
    return open_published(made / "release")


@pytest.fixture(scope="session")
def plain(tmp_path_factory) -> Path:
    """The same with nothing that had to be allowed, no rare requests, and in one window."""
    folder = tmp_path_factory.mktemp("plain")
    return publish(folder, 60, 8, 5, ["fuel", "bus", "food"], allow=(), rare="drop")


@pytest.fixture(scope="session")
def pages(made) -> dict[str, Path]:
    """The public and the private page about it."""
    paths = {"public": made / "public.html", "private": made / "private.html"}
    write_report_page(made / "release", paths["public"])
    write_report_page(
        made / "release",
        paths["private"],
        log=made / "log.parquet",
        policy=made / "policy.parquet",
        columns=COLUMNS,
    )
    return paths


@pytest.fixture(scope="session")
def browser():
    """A browser for the tests of a worker."""
    require("chromium; `make browser` installs it", CHROMIUM is not None)
    with start_browser() as started:
        yield started
