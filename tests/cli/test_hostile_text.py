"""Text of others never reaches the terminal with characters that it would obey."""

import json
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from trajcloak import TrajcloakError

EVIL = "a\x1b[31m\x1b]0;t\x07[red]\u202eb\x9b31m\u2028c\r\nd\x7f\u2066\u200f"
"""Escapes of terminals, markup of rich, C0 and C1 controls, line ends, changes of direction."""

DIRECTIONS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
REGION = "--region=-1e6,-1e6,1e6,1e6"


def find_obeyed(text):
    """List the characters that a terminal would obey, but for line feeds."""
    return {
        character
        for character in text
        if character in DIRECTIONS
        or (unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") and character != "\n")
    }


@pytest.fixture
def check(run, capsys):
    """Run a command, and look at what it prints."""

    def check(*args, code=0, says=""):
        done = run(*args)
        assert done.code == code, done.err
        assert find_obeyed(done.out + done.err) == set()
        assert says in " ".join((done.out + done.err).split())
        return done

    return check


@pytest.fixture
def log(tmp_path):
    """A log in a file, and with a column and values, of hostile names."""
    rng = np.random.default_rng(0)
    num_users, length = 40, 4
    table = {
        "user_id": np.repeat(np.arange(num_users), length),
        "time": np.tile(np.arange(length), num_users),
        "x": rng.integers(0, 1000, num_users * length).astype(float),
        "y": rng.integers(0, 1000, num_users * length).astype(float),
        EVIL: [EVIL] * num_users * length,
    }
    path = tmp_path / f"log{EVIL}.parquet"
    pq.write_table(pa.table(table), path)
    return path


@pytest.mark.slow
def test_every_command(check, log, tmp_path):
    release, policy, page = (tmp_path / f"{n}{EVIL}" for n in ("release", "policy", "page"))
    page = page.with_name(page.name + ".html")
    reading = (log, "--request", EVIL)
    check("inspect", log)
    check(
        "anonymize", *reading, "-o", release, "--k", 5, "--policy", policy, "--rare", "keep",
        "--allow", EVIL, says="Published although it may identify somebody",
    )  # fmt: skip
    check("audit", log, release, "--policy", policy)
    shown = check("query", release, REGION, "--by", EVIL).out
    assert "a\\u001b[31m" in shown
    check("query", release, REGION, "--by", EVIL, "--json")
    check("report", release, "-o", page, says="page")
    assert find_obeyed(page.read_text()) <= {"\t"}
    check("report", release, "-o", tmp_path / "private.html", "--log", log, "--policy", policy)
    check("utility", log, release, "--policy", policy, "--queries", 3)
    check("attack", *reading, "--k", 5)
    check("compare", *reading, "--k", 5)
    check("convert", log, "-o", tmp_path / f"{EVIL}.parquet", "--format", "gpx", code=2)
    generated = tmp_path / f"made{EVIL}.parquet"
    check("generate", "-o", generated, "--users", 5, "--length", 2, "--junctions", 2000)


def test_every_command_where_names_are_wrong(check, log, tmp_path):
    there = tmp_path / f"not there{EVIL}"
    check("inspect", there, code=2)
    check("inspect", log, "--user", EVIL * 2, code=2, says="\\u001b")
    check("inspect", log, "--tz", EVIL, code=2, says="\\u001b")
    check("anonymize", log, "--request", f"no{EVIL}", "-o", there, "--k", 5, code=2, says="\\u001b")
    check("anonymize", log, "-o", there, "--k", EVIL, code=2)
    check("audit", log, there, "--policy", there, code=2, says="\\u001b")
    check("audit", log, there, "--foreign", "--k", 5, code=2)
    check("query", there, REGION, code=2, says="\\u001b")
    check("query", there, f"--region={EVIL}", code=2)
    check("report", there, "-o", tmp_path / "page.html", code=2, says="\\u001b")
    check("utility", log, there, "--policy", there, code=2, says="\\u001b")
    check("attack", log, "--k", 5, "--request", f"no{EVIL}", code=2, says="\\u001b")
    check("compare", log, "--k", 5, "--algorithms", EVIL, code=2, says="\\u001b")
    check("generate", "-o", there, "--users", 5, "--length", 2, code=2, says="\\u001b")
    check("convert", there, "-o", tmp_path / "log.parquet", code=2, says="\\u001b")
    check(EVIL, code=2)
    check("query", f"--{EVIL}", code=2)


def test_text_in_the_manifest(check, log, tmp_path):
    release = tmp_path / "release"
    policy = tmp_path / "policy.parquet"
    check("anonymize", log, "-o", release, "--k", 5, "--policy", policy)
    file = release / "manifest.json"
    made = json.loads(file.read_text())
    for path in (["software"], ["algorithm"], ["parameters", "every"], ["ingest", "zone"], [EVIL]):
        manifest = json.loads(json.dumps(made))
        inner = manifest
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = EVIL
        file.write_text(json.dumps(manifest))
        page = tmp_path / f"{path[-1][:4]}.html"
        is_read = path in (["software"], ["ingest", "zone"])
        check("query", release, REGION, code=0 if is_read else 2)
        check("report", release, "-o", page, code=0 if is_read else 2)
        assert not page.exists() or find_obeyed(page.read_text()) <= {"\t"}
        check("audit", log, release, "--policy", policy, code=3)


def test_columns_of_foreign_tables(check, log, tmp_path):
    edges = dict.fromkeys(("x_min", "y_min"), [0.0] * 9) | dict.fromkeys(
        ("x_max", "y_max"), [999.0] * 9
    )
    table = {"instant": [0] * 9, **edges, EVIL: [f"{EVIL} a{i}@b.example" for i in range(9)]}
    pq.write_table(pa.table(table), tmp_path / "table.parquet")
    check("audit", log, tmp_path / "table.parquet", "--foreign", "--k", 2, code=3, says="\\u001b")


def test_messages_of_the_library():
    assert find_obeyed(str(TrajcloakError(EVIL))) == set()
