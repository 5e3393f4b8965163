"""Thousands of dirty logs: each ends in a sound release, or in a message that names the row.

A release is judged by the audit and by ``reference/published.py``, neither of which shares code
with what made it.
"""

import re
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from log.dirty import WRITERS, draw_log, draw_reading, to_frame
from reference.published import find_faults
from runs import anonymize
from small_logs import new_folder
from trajcloak.auditor import audit_files
from trajcloak.cli import main
from trajcloak.log import read_in_memory
from trajcloak.log.frames import to_table
from trajcloak.options import LogColumns

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::trajcloak.errors.TrajcloakWarning"),
]

K = 2
NUM_LOGS = 3000
PER_TEST = 100
FRAME = "frame"
NAMES_A_ROW = re.compile(r"\b(row|rows|line) \(?(\d+)")

WHOLE_LOG = {
    "too few users": r"^(at most \d+ of|the log has) \d+ users.*; expected at least \d+",
    "all dropped": r"^all [\d,]* ?rows of the log are dropped; expected some to be left",
    "the type of a column": r"^column '\w+' is of type [^;]+; expected .*; convert (it|the)",
    "kinds of times": r"^column 'time' holds times of different kinds .*; convert the times",
    "a speed without a unit": r"^teleports are to be dropped, .* pass (max_speed=|--max-speed)$",
    "a zone without timestamps": r"^tz is '[^']+', and the log has integer instants",
    "a duration without timestamps": r"^every is '\d+\w'; the log has integer instants",
    "a clock without timestamps": r"^windows are to follow the clock, .* integer instants",
    "irregular times": r"^the log's [\d,]+ reports fill only .* pass (every=|--every)",
    "around the globe": r"^the log spans more than 180 degrees",
    "requests that must not be published": r"^request column 'what' holds .*; (leave|expected)",
    "a schedule with exceptions": r"^most (reports|places|rows) .* pass (--)?rows.alike",
    "cells too small": r"^height is \d+, which makes cells smaller than coordinates",
}
"""What is no one row's fault: the messages that name none, and why."""


def attempt(folder, log, kind, reading, options):
    """Read, anonymize, write and audit a log; returns what is wrong with the release."""
    columns = LogColumns(requests=("what",), **reading)
    path = folder / (kind if kind != FRAME else "log.parquet")
    source = path
    if kind == FRAME:
        source = to_frame(log)
    else:
        WRITERS[kind](path, log)
    result = anonymize(read_in_memory(source, columns, threads=1), K, threads=1, **options)
    if kind == FRAME:
        pq.write_table(to_table(source), path)
    result.write(folder / "release", folder / "policy.parquet")
    report = audit_files(path, folder / "release", folder / "policy.parquet", LogColumns())
    faults = [f"{check.name}: {check.detail}" for check in report.checks if not check.passed]
    if log.spoilt or reading["drop"] or "tz" in reading:
        # The twin knows neither hostile cells nor rows that were dropped.
        return faults
    return faults + find_faults(folder / "release", folder / "policy.parquet", log.rows, K)


def check_reason(message):
    """Check that a refusal names rows, or is a message that cannot name one."""
    assert "user-" not in message
    assert "13.4" not in message
    whole = [why for why, regex in WHOLE_LOG.items() if re.search(regex, message)]
    assert whole or NAMES_A_ROW.search(message), message
    return whole[0] if whole else "row"


def check_row(message, log):
    """Check that the row that is spoilt is named, if it is the only one."""
    if NAMES_A_ROW.search(message) and len(log.spoilt) == 1 and not log.is_bent:
        (row,) = log.spoilt
        # Where the first row is the odd one, the second is the first that does not fit.
        meant = {str(row + 1)} | ({"2"} if row == 0 else set())
        assert meant & set(re.findall(r"\d+", message)), message


@pytest.mark.parametrize("first", range(0, NUM_LOGS, PER_TEST))
def test_dirty_logs(first):
    seen = Counter()
    for seed in range(first, first + PER_TEST):
        rng = np.random.default_rng(seed)
        log = draw_log(rng)
        kind = [*WRITERS, FRAME][seed % (len(WRITERS) + 1)]
        reading, options = draw_reading(rng)
        with new_folder() as folder:
            try:
                faults = attempt(folder, log, kind, reading, options)
            except (tc.InputError, tc.OptionError, tc.NotEnoughUsersError) as error:
                assert not (folder / "release").exists()
                message = str(error).replace(str(folder), "")
                for reason in getattr(error, "reasons", [message]):
                    seen[check_reason(reason.replace(str(folder), ""))] += 1
                check_row(message, log)
            else:
                assert not faults, (seed, kind, faults)
                seen["released"] += 1
    assert seen["released"] > 10
    assert seen["row"] > 10


def test_exit_codes(tmp_path, monkeypatch, capfd):
    """The same through the command: a release and 0, or a message and 2, and no traceback."""
    codes = Counter()
    for seed in range(4000, 4040):
        rng = np.random.default_rng(seed)
        log = draw_log(rng)
        kind = [*WRITERS][seed % len(WRITERS)]
        with new_folder() as folder:
            monkeypatch.chdir(folder)
            WRITERS[kind](folder / kind, log)
            asked = ["anonymize", kind, "-o", "release", "--k", "2", "--request", "what"]
            with pytest.raises(SystemExit) as stopped:
                main([*asked, "--threads", "1", "--every", "60s", "--rows-alike"])
            told = capfd.readouterr()
            codes[stopped.value.code] += 1
            assert "Traceback" not in told.err + told.out
            assert (folder / "release").exists() == (stopped.value.code == 0)
            problems = [line for line in told.err.splitlines() if not line.startswith("Note: ")]
            assert bool(problems) == (stopped.value.code == 2), told.err
            assert {path.name for path in folder.iterdir()} <= {kind, "release"}
    assert set(codes) == {0, 2}
