"""What each command writes and prints when all is well."""

import json
import re
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from cli.conftest import REQUESTS, run_script
from cli.terminal import run_on_terminal
from small_logs import Row, list_tree, write_parquet
from trajcloak.release.reading import read_manifest

DATA_MODEL = Path(__file__).parents[2] / "docs" / "data-model.md"


def list_manifest_fields() -> list[str]:
    """The fields that the data model gives a manifest."""
    section = DATA_MODEL.read_text().split("### `manifest.json`")[1].split("\n`parameters`")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def read_facts(table: str) -> dict[str, str]:
    """Names and values of a printed table with two columns."""
    return dict(re.findall(r"^│ (.+?) +│ +(.+?) │$", table, re.MULTILINE))


def test_generate_tells_what_it_wrote(run, tmp_path):
    options = ("--users", 7, "--length", 3, "--request-share", 1, "--junctions", 2000)
    done = run("generate", "-o", "log.csv", *options)
    assert (done.code, done.err) == (0, "")
    assert "Log: log.csv" in done.out
    assert read_facts(done.out) == {
        "users": "7",
        "instants": "3",
        "rows": "21",
        "requests": "21",
        "request columns": "category, detail",
        "junctions": "1,978",
        "roads": "2,933",
        "junctions left out (not connected)": "15",
    }
    table = pyarrow.csv.read_csv(tmp_path / "log.csv")
    assert table.column_names == ["user_id", "time", "x", "y", "category", "detail"]
    assert table.num_rows == 21


def test_generate_for_machines(run, tmp_path):
    options = ("--users", 8, "--length", 5, "--junctions", 2000, "--json")
    done = run("generate", "-o", "log.parquet", *options)
    table = pq.read_table(tmp_path / "log.parquet")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {
        "log": "log.parquet",
        "request_log": None,
        "users": 8,
        "instants": 5,
        "rows": 40,
        "requests": 40 - table["category"].null_count,
        "request_columns": ["category", "detail"],
        "junctions": 1978,
        "roads": 2933,
        "junctions_left_out": 15,
    }


def test_generate_options(run, tmp_path):
    options = ("--every", 10, "--string-ids", "--request-share", 0, "--seed", 1)
    options += ("--speed", "fast", "--classes", 2, "--on-arrival", "stay", "--congestion")
    options += ("--network", "city", "--junctions", 2000)
    assert run("generate", "-o", "a.parquet", "--users", 3, "--length", 2, *options).code == 0
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.schema.field("user_id").type == pa.string()
    first, *_, last = table["time"].to_pylist()
    assert (last - first).total_seconds() == 10
    assert table["category"].null_count == 6


def test_anonymize_for_machines(run, made, tmp_path):
    args = ("-o", "release", "--k", 5, *REQUESTS, "--policy", "policy.parquet", "--json")
    done = run("anonymize", made / "log.parquet", *args)
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert sorted(told) == ["columns", "manifest", "private", "release", "seconds"]
    assert told["release"] == "release"
    assert told["seconds"] > 0
    assert told["manifest"] == json.loads((tmp_path / "release" / "manifest.json").read_text())
    assert sorted(told["manifest"]) == sorted(list_manifest_fields())
    assert told["manifest"]["k"] == 5
    assert told["manifest"]["users"] == 60
    assert told["private"]["published"] == told["manifest"]["requests"]


def test_anonymize_writes_the_release_and_the_policy_and_nothing_else(run, made, tmp_path):
    args = ("-o", "release", "--k", 5, *REQUESTS, "--policy", "policy.parquet")
    assert run("anonymize", made / "log.parquet", *args).code == 0
    assert list(list_tree(tmp_path)) == [
        "policy.parquet",
        "release",
        "release/bundles.parquet",
        "release/manifest.json",
        "release/requests.parquet",
    ]
    assert stat.S_IMODE((tmp_path / "policy.parquet").stat().st_mode) == 0o600
    assert list_tree(tmp_path / "release") == list_tree(made / "release")


def test_anonymize_tells_what_is_published(run, made):
    args = ("-o", "release", "--k", 5, *REQUESTS)
    done = run("anonymize", made / "log.parquet", *args)
    assert (done.code, done.err) == (0, "")
    manifest = read_manifest("release")
    facts = read_facts(done.out)
    assert "Release: release" in done.out
    assert facts["users published"] == "60"
    assert facts["users withheld"] == "0"
    assert facts["requests withheld"] == "18 (36.7%)"
    assert (
        facts["requests published"] == f"{manifest['requests']} (distinct per bundle and instant)"
    )
    assert facts["bundles"] == str(manifest["bundles"])
    assert facts["smallest bundle"] == f"{manifest['smallest_bundle']} users"
    assert facts["possible senders"] == "at least 5, against the report-aware attacker"
    assert facts["algorithm"] == f"{manifest['algorithm']}, mbr cloaks"
    never = {"users suppressed", "rows that repeat a time", "locations held"}
    assert not never & facts.keys()
    assert facts["locations missing"] == "0.0% (0)"
    assert facts["first instant"] == "2024-05-06 08:00"
    assert "Not published (shown by too few bundles): 18 requests." in done.out
    assert "No policy file was written" in done.out


def write_log_with_gaps(folder: Path) -> Path:
    """12 users at 4 instants, of whom one is last seen after 1 and one lives far away."""
    rows = [
        Row(f"u{user}", instant, 2000 if user == 11 else user, instant, f"r{user % 3}")
        for instant in range(4)
        for user in range(12)
        if user != 5 or instant == 0
    ]
    return write_parquet(folder / "log.parquet", rows)


def test_summary_counts_the_withheld_and_the_suppressed(run, tmp_path):
    log = write_log_with_gaps(tmp_path)
    options = ("--request", "what", "--rare", "keep", "--max-suppressed", "10%")
    done = run("anonymize", log, "-o", "r", "--k", 3, *options)
    assert done.code == 0
    facts = read_facts(done.out)
    assert facts["users published"] == "10"
    assert facts["users withheld"] == "1"
    assert facts["users suppressed"] == "1"
    assert facts["requests in the log"] == "45"
    assert facts["requests withheld"] == "5 (11.1%)"
    assert (
        "Not published (location not known throughout the window): 1 user, 1 request." in done.out
    )
    assert "Not published (suppressed): 1 user, 4 requests." in done.out


def test_summary_names_what_was_allowed(run, tmp_path):
    log = write_log_with_gaps(tmp_path)
    words = "Published although it may identify somebody (--allow): what."
    for name, more in (("r", ("--rare", "keep", "--allow", "what")), ("s", ("--allow", "what"))):
        done = run("anonymize", log, "-o", name, "--k", 3, "--request", "what", *more)
        assert done.code == 0
        assert (words in done.out) == ("keep" in more)


def test_summary_counts_window_by_window(run, tmp_path):
    log = write_log_with_gaps(tmp_path)
    options = ("--length", 2, "--max-gap", 1, "--max-suppressed", 0.1, "--json")
    done = run("anonymize", log, "-o", "r", "--k", 3, "--request", "what", *options)
    told = json.loads(done.out)
    assert told["manifest"]["suppressed"] == 2
    assert told["private"]["user_windows"]["missing_location"] == 1
    assert told["private"]["withheld"]["missing_location"] == 1
    done = run("anonymize", log, "-o", "r2", "--k", 3, "--request", "what", *options[:-1])
    assert read_facts(done.out)["users suppressed"] == "2 times"
    words = " ".join(done.out.split())
    assert "(location not known throughout the window): users 1 time, 1 request." in words
    assert "(suppressed): users 2 times, 4 requests." in words


def test_anonymize_says_that_no_request_is_published(run, made):
    done = run("anonymize", made / "log.parquet", "-o", "release", "--k", 5)
    assert done.code == 0
    assert "No request column was named (--request COLUMN)" in done.out
    assert pq.read_table("release/requests.parquet").num_rows == 0


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--cloak", "quad"], {"cloak": "quad"}),
        (["--height", "7"], {"height": 7}),
        (
            ["--region", "-1000,-1000,65536"],
            {"region": {"x_min": -1e3, "y_min": -1e3, "side": 65536}},
        ),
        (["--length", "2"], {"windows": 2, "instants": 4}),
        (["--every", "2m"], {"instants": 2}),
        (["--threads", "1", "--missing", "hold"], {"users": 60}),
        (["--suppress-above", "1e300"], {"suppressed": 0}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_options_reach_the_run(run, made, args, expected):
    done = run("anonymize", made / "log.parquet", "-o", "release", "--k", 5, *args, "--json")
    assert done.code == 0
    manifest = json.loads(done.out)["manifest"]
    assert {name: manifest[name] for name in expected} == expected


@pytest.mark.parametrize("given", ["file", "folder", "glob", "several"])
def test_a_log_in_any_form(run, made, tmp_path, given):
    table = pq.read_table(made / "log.parquet")
    (tmp_path / "parts").mkdir()
    for number in range(2):
        part = table.slice(number * 100, 100 if number == 0 else None)
        pyarrow.csv.write_csv(part, tmp_path / "parts" / f"{number}.csv")
    pyarrow.csv.write_csv(table, tmp_path / "log.csv")
    log = {
        "file": ["log.csv"],
        "folder": ["parts"],
        "glob": ["parts/*.csv"],
        "several": ["parts/0.csv", "parts/1.csv"],
    }[given]
    args = ("--policy", "policy.parquet", *REQUESTS)
    assert run("anonymize", *log, "-o", "release", "--k", 5, *args).code == 0
    assert list_tree(tmp_path / "release") == list_tree(made / "release")
    assert run("audit", *log, "release", *args).code == 0


def test_other_names_and_degrees(run, tmp_path):
    users = range(8)
    table = pa.table(
        {
            "device": [f"d{user}" for user in users],
            "seen": ["2024-05-06T08:00:00Z"] * len(users),
            "longitude": [13.0 + 0.01 * user for user in users],
            "latitude": [52.0 + 0.01 * user for user in users],
            "user_id": ["pizza"] * len(users),
        }
    )
    pyarrow.csv.write_csv(table, tmp_path / "log.csv")
    names = ("--user", "device", "--time", "seen", "--lon", "longitude", "--lat", "latitude")
    args = ("log.csv", "release", *names, "--request", "user_id", "--policy", "policy.parquet")
    done = run("anonymize", args[0], "-o", *args[1:], "--k", 4)
    assert done.code == 0
    assert re.search(r"mean cloak +│ +([\d.]+\skm)\s×\s\1 │", done.out)
    assert re.search(r"cost +│ +[\d.]+\skm² │", done.out)
    assert pq.read_table("release/requests.parquet")["user_id"].to_pylist() == ["pizza", "pizza"]
    assert run("audit", *args).code == 0


def test_names_with_brackets_are_shown_as_they_are(run, made):
    args = ("-o", "a[red]b", "--k", 5, "--policy", "c[bold]d")
    done = run("anonymize", made / "log.parquet", *args)
    assert done.code == 0
    assert "Release: a[red]b" in done.out
    assert "The policy file c[bold]d is private" in done.out


def test_interrupted(run, made, tmp_path, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("trajcloak.release.result.join_row_groups", interrupt)
    args = ("-o", "release", "--k", 5, "--policy", "policy.parquet")
    done = run("anonymize", made / "log.parquet", *args)
    assert done.code == 130
    assert done.out == ""
    assert done.err == "Interrupted; nothing unfinished was left behind.\n"
    assert list_tree(tmp_path) == {}


def test_version(run):
    done = run("--version")
    assert (done.code, done.out) == (0, f"trajcloak, version {tc.__version__}\n")


def test_installed_script(made, tmp_path):
    """Also on a terminal that knows ASCII only."""
    args = ("anonymize", made / "log.parquet", "-o", "release", *REQUESTS)
    done = run_script(*args, "--k", 5, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.code, done.err) == (0, "")
    assert "| users published" in done.out
    assert list_tree(tmp_path / "release") == list_tree(made / "release")
    done = run_script(*args, "--k", 1, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: k is 1;")


@pytest.mark.slow
def test_progress_on_a_terminal(made, tmp_path):
    """The bars go to standard error if that is a terminal; never to standard output."""
    args = ("anonymize", made / "log.parquet", "-o", tmp_path / "release", "--k", 5)
    printed, shown = run_on_terminal(*args, "--length", 1)
    for stage in ("reading log", "bundling windows", "writing release"):
        assert re.search(rf"✓.* {stage} .*100%", shown)
        assert stage not in printed
    assert "users published" in printed


@pytest.mark.slow
def test_no_progress_for_machines(made, tmp_path):
    args = ("anonymize", made / "log.parquet", "-o", tmp_path / "release", "--k", 5)
    printed, shown = run_on_terminal(*args, "--json")
    assert json.loads(printed)["manifest"]["k"] == 5
    assert shown == ""


def write_rare(folder: Path) -> None:
    """Ten users who sent the same; one of them something else, in two windows."""
    rows = [Row(f"user-{u}", t, u, 1, "cafe") for u in range(10) for t in range(4)]
    rows[0] = rows[0]._replace(request="zoo")
    rows[3] = rows[3]._replace(request="zoo")
    write_parquet(folder / "log.parquet", rows)


@pytest.mark.parametrize(
    ("rule", "figure", "words"),
    [
        ("keep", "kept_rare", "rare requests published │ 2 │"),
        ("drop", "withheld", "Not published (shown by too few bundles): 2 requests."),
    ],
)
def test_rare_requests_are_reported(run, tmp_path, rule, figure, words):
    write_rare(tmp_path)
    args = ("--k", 2, "--request", "what", "--length", 2, "--rare", rule)
    done = run("anonymize", "log.parquet", "-o", "release", *args)
    assert (done.code, done.err) == (0, "")
    assert words in " ".join(done.out.split())
    made = json.loads(run("anonymize", "log.parquet", "-o", "other", *args, "--json").out)
    private = made["private"]
    assert (private["withheld"]["rare"], private["kept_rare"]) == (
        (2, 0) if figure == "withheld" else (0, 2)
    )
    assert made["manifest"]["parameters"]["rare"] == rule


def test_replaced_values_are_reported(run, tmp_path):
    """In two bundles somebody sends a value that nobody else does."""
    write_rare(tmp_path)
    table = pq.read_table(tmp_path / "log.parquet")
    what = table["what"].to_pylist()
    what[-4] = "gym"
    pq.write_table(table.set_column(4, "what", [what]), tmp_path / "log.parquet")
    args = ("--k", 2, "--request", "what", "--length", 2, "--rare", "other")
    done = run("anonymize", "log.parquet", "-o", "release", *args)
    assert re.search(r"requests with a rare value replaced +│ +2 │", done.out)
    assert "(other)" in pq.read_table("release/requests.parquet")["what"].to_pylist()


def test_a_window_with_one_bundle_publishes_no_request_and_says_so(run, tmp_path):
    write_rare(tmp_path)
    args = ("--k", 10, "--request", "what")
    done = run("anonymize", "log.parquet", "-o", "release", *args)
    assert "No request is published." in done.out


def test_sets_that_are_withheld_are_counted(run, tmp_path):
    """One of each three neighbours is not heard of at some instants."""
    rows = [
        Row(f"u{user}", t, 100 * (user // 3), 0, "cafe")
        for user in range(9)
        for t in range(4)
        if t != user % 3 + user // 3
    ]
    log = write_parquet(tmp_path / "log.parquet", rows)
    args = ("--k", 3, "--request", "what", "--missing", "hold")
    done = run("anonymize", log, "-o", "release", *args)
    assert read_manifest("release")["withheld"]["sets"] == 8
    assert "8 sets of requests have fewer than 3 members with a row" in " ".join(done.out.split())


def test_what_looks_like_an_identifier_needs_a_word(run, tmp_path):
    rows = [Row(f"user-{u}", 0, u, 1, f"{u}@mail.example") for u in range(10)]
    write_parquet(tmp_path / "log.parquet", rows)
    args = ("anonymize", "log.parquet", "--k", 2, "--request", "what", "-o", "release")
    done = run(*args, "--rare", "keep")
    assert done.code == 2
    assert "request column 'what' holds e-mail addresses" in done.err
    assert not (tmp_path / "release").exists()
    assert run(*args, "--rare", "keep", "--allow", "what").code == 0
