"""Type checkers see every option."""

import subprocess
import sys

import pytest

GOOD = """
import datetime
import numpy as np
import trajcloak as tc

release = tc.anonymize(
    "log.csv", k=5, user="device", requests="service", every=datetime.timedelta(minutes=1),
    region=(0, 0, 10), clip=[0, 0, 1, 1], missing="hold", algorithm=tc.Refined(effort="high"),
    memory="4GiB", progress=True,
)
release.count((0, 0, 1, 1), first=datetime.datetime(2026, 3, 2), last=np.datetime64("2026-03-02"))
tc.compare("log.csv", k=5, user="device", every="60s", algorithms="refined")
tc.audit(tc.read_log("log.csv", drop="empty"), "release", "policy.parquet", k=5)
tc.open_release("release").manifest["k"] + 1
"""

MISTAKES = {
    'tc.anonymize("log.csv", k=5, requets="service")': "requets",
    'tc.anonymize("log.csv", 5)': "positional",
    'tc.anonymize("log.csv", k=5, missing="guess")': "missing",
    'tc.anonymize("log.csv", k=5, every=1.5)': "every",
    'tc.anonymize("log.csv", k="5")': '"k"',
    'tc.read_log("log.csv", usr="device")': "usr",
    'tc.compare("log.csv", k=5, evry="60s")': "evry",
    'tc.attack("log.csv", k=5, usr="device")': "usr",
    'tc.audit("log.csv", "release", "policy", requets="service")': "requets",
    'tc.inspect_log("log.csv", evry="60s")': "evry",
    'tc.measure_utility("log.csv", "release", querys=5)': "querys",
    'tc.open_release("release").count((0, 0, 1, 1), frst=1)': "frst",
}


@pytest.mark.slow
def test_mypy_finds_every_mistake(tmp_path):
    lines = [f"import trajcloak as tc\n{GOOD}", *MISTAKES]
    (tmp_path / "caller.py").write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "caller.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    first = "\n".join(lines[:1]).count("\n") + 2
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("caller.py:") and ": error: " in line:
            found.setdefault(int(line.split(":")[1]), line)
    assert sorted(found) == [first + i for i in range(len(MISTAKES))], done.stdout
    for line, word in zip(sorted(found), MISTAKES.values(), strict=True):
        assert word in found[line]
