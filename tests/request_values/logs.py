"""Logs with given request attributes."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import trajcloak as tc
from small_logs import new_folder
from trajcloak.log import hold_in_memory
from trajcloak.requests.attributes import list_attributes
from trajcloak.requests.suspicions import check_values

WORDS = ["café", "fuel", "pharmacy", "book shop", "party office", "zoo & park", "24/7", "A-1", "wc"]


def read_columns(user, place=None, geographic=False, time=None, drop=(), **columns):
    """Read a log with a row for each user given; requests are the other columns."""
    n = len(user)
    x, y = place if place is not None else (np.arange(n) * 7.0 % 100, np.arange(n) * 13.0 % 100)
    names = ("lon", "lat") if geographic else ("x", "y")
    base = {"user_id": user, "time": np.arange(n) if time is None else time}
    table = pa.table(base | dict(zip(names, (x, y), strict=True)) | columns)
    with new_folder() as folder:
        pq.write_table(table, folder / "log.parquet")
        asked = tc.LogColumns(requests=tuple(columns), drop=drop)
        return tc.read_log(folder / "log.parquet", asked, threads=1)


def check(log, *allow):
    """Check the requests of a log as a run does."""
    attributes = list_attributes(log)
    check_values(hold_in_memory(log), attributes, attributes, allow)


def draw_categories(rng, n, num_categories):
    """Draw ordinary categories: words, with a number where there are many."""
    names = [f"{WORDS[i % len(WORDS)]} {i // len(WORDS)}".strip() for i in range(num_categories)]
    return [names[i] for i in rng.integers(0, num_categories, n)]
