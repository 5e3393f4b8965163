"""A log three times as large as the limit on memory is anonymized within that limit."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajcloak.engines.folder import parse_memory

pytestmark = pytest.mark.slow

NUM_USERS = 20_000
ROW_BYTES = 4 + 8 + 8 + 8 + 8 + 4
"""Of a row with a request in a log in memory: user, time, x, y; row and kind of the request."""

LIMIT = "640MiB"
LENGTH = 20


def write_log(folder: Path, num_rows: int) -> None:
    """Write users who hardly move, all with a report and a request at every instant."""
    rng = np.random.default_rng(1)
    place = rng.random((2, NUM_USERS)) * 50_000
    words = pa.array(["food", "fuel", "taxi"])
    writer = None
    for instant in range(num_rows // NUM_USERS):
        x, y = place + instant % 64
        kind = pa.array(rng.integers(0, 3, NUM_USERS, dtype=np.int32))
        table = pa.table(
            {
                "user_id": np.arange(NUM_USERS) + 10**6,
                "time": np.full(NUM_USERS, instant),
                "x": x,
                "y": y,
                "what": pa.DictionaryArray.from_arrays(kind, words),
            }
        )
        if instant % 500 == 0:
            if writer is not None:
                writer.close()
            path = folder / f"part-{instant:05}.parquet"
            writer = pq.ParquetWriter(
                path, table.schema, compression="none", use_dictionary=["what"]
            )
        assert writer is not None
        writer.write_table(table)
    assert writer is not None
    writer.close()


PROGRAM = """
import sys
from pathlib import Path
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import anonymize_files
source, release, limit, length = sys.argv[1:]
result = anonymize_files(
    source, Path(release), None, LogColumns(requests=("what",)),
    Options(k=50, length=int(length), cloak="quad"), memory=limit,
)
print(result.manifest["ingest"]["rows"])
# Not getrusage, which counts the process that this one was forked from.
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def anonymize_apart(source: Path, release: Path, limit: str) -> tuple[int, int]:
    """Run in a fresh process; returns the rows read, and the most memory that it took, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, source, release, limit, str(LENGTH)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows, kilobytes = map(int, done.stdout.split())
    return rows, 1024 * kilobytes


@pytest.mark.needs_jit
def test_a_log_three_times_the_limit(tmp_path):
    limit = parse_memory(LIMIT)
    num_rows = -(-3 * limit // (ROW_BYTES * NUM_USERS)) * NUM_USERS
    for name, size in (("small", 5 * LENGTH * NUM_USERS), ("log", num_rows)):
        (tmp_path / name).mkdir()
        write_log(tmp_path / name, size)
    # Compiling the kernels, once after an installation, takes memory of its own.
    anonymize_apart(tmp_path / "small", tmp_path / "compiled", LIMIT)
    rows, peak = anonymize_apart(tmp_path / "log", tmp_path / "release", LIMIT)
    assert rows * ROW_BYTES >= 3 * limit
    assert peak <= limit, f"{peak / 2**20:.0f} MiB"
