"""The audit's verdicts, exit codes and tables; its checks are tested in ``tests/auditor``."""

import filecmp
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cli.conftest import REQUESTS
from small_logs import clustered_rows, write_parquet
from trajcloak.auditor import CHECKS, FOREIGN_CHECKS

FILES = ("log.parquet", "release", "--policy", "policy.parquet")


def read_results(table: str) -> dict[str, str]:
    """The result of each check in a printed table."""
    return dict(re.findall(r"^│ (\S.*?) +│ (passed|FAILED) │", table, re.MULTILINE))


def change_manifest(**fields) -> None:
    path = Path("release/manifest.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def change_parameters(**fields) -> None:
    parameters = json.loads(Path("release/manifest.json").read_text())["parameters"]
    change_manifest(parameters=parameters | fields)


@pytest.mark.usefixtures("copied")
def test_passed(run):
    done = run("audit", *FILES, *REQUESTS)
    assert (done.code, done.err) == (0, "")
    assert read_results(done.out) == dict.fromkeys(list(CHECKS)[:-1], "passed")
    words = " ".join(done.out.split())
    assert (
        "Passed: at least 5 possible senders for every request, against the report-aware attacker."
        in words
    )
    assert "The algorithm was not run again (--replay)" in words


@pytest.mark.usefixtures("copied")
def test_every_option(run):
    options = ("--k", 5, "--replay", "--memory", "1GiB", "--rewrite", "copy")
    done = run("audit", *FILES, *REQUESTS, *options)
    assert (done.code, done.err) == (0, "")
    assert read_results(done.out) == dict.fromkeys(CHECKS, "passed")
    assert "was not run again" not in done.out
    assert filecmp.cmp("copy/manifest.json", "release/manifest.json", shallow=False)


@pytest.mark.usefixtures("copied")
def test_a_larger_k_than_that_of_the_release(run):
    done = run("audit", *FILES, *REQUESTS, "--k", 50)
    assert (done.code, done.err) == (3, "")
    assert read_results(done.out)["at least k users"] == "FAILED"
    assert "k is 5; 50 was asked for" in done.out


@pytest.mark.usefixtures("copied")
def test_passed_for_machines(run):
    done = run("audit", *FILES, "--json")
    report = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert report["passed"] is True
    assert report["k"] == 5
    assert [check["check"] for check in report["checks"]] == list(CHECKS)[:-1]
    assert all(check["passed"] for check in report["checks"])
    assert report["attacker"] == "report-aware"
    assert {check["check"]: check["checked"] for check in report["checks"]}["policy"] == 60


def drop_a_user():
    policy = pq.read_table("policy.parquet")
    pq.write_table(policy.slice(1), "policy.parquet", store_schema=False)


def shrink_a_cloak():
    path = "release/bundles.parquet"
    bundles = pq.read_table(path)
    x_max = bundles["x_max"].to_pylist()
    x_max[0] = bundles["x_min"][0].as_py()
    pq.write_table(bundles.set_column(6, "x_max", pa.array(x_max)), path)


def drop_a_request():
    path = "release/requests.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)


def publish_an_id():
    path = "release/requests.parquet"
    requests = pq.read_table(path)
    name = str(pq.read_table("log.parquet")["user_id"][0])
    detail = pc.replace_with_mask(
        requests["detail"], pa.array([True] + [False] * (requests.num_rows - 1)), pa.array([name])
    )
    pq.write_table(requests.set_column(4, "detail", detail), path)


def claim_a_larger_k():
    change_manifest(k=50)


def break_the_manifest():
    Path("release/manifest.json").write_text("{")


def leave_a_file():
    Path("release/notes.txt").write_text("mine")


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize(
    ("damage", "failing"),
    [
        (drop_a_user, "one bundle per user"),
        (shrink_a_cloak, "bundles"),
        (drop_a_request, "requests"),
        (publish_an_id, "requests"),
        (claim_a_larger_k, "at least k users"),
        (break_the_manifest, "manifest"),
        (leave_a_file, "release folder"),
    ],
)
def test_breach(run, damage, failing):
    damage()
    done = run("audit", *FILES, *REQUESTS)
    assert (done.code, done.err) == (3, "")
    results = read_results(done.out)
    assert results[failing] == "FAILED"
    failed = sum(result == "FAILED" for result in results.values())
    assert f"Breach: {failed} of {len(CHECKS) - 1} checks failed." in done.out
    assert "Do not publish this release." in done.out
    told = run("audit", *FILES, *REQUESTS, "--json")
    assert (told.code, told.err) == (3, "")
    report = json.loads(told.out)
    assert report["passed"] is False
    assert {check["check"] for check in report["checks"] if not check["passed"]} == {
        name for name, result in results.items() if result == "FAILED"
    }


@pytest.mark.usefixtures("copied")
def test_breach_says_what_is_wrong(run):
    claim_a_larger_k()
    done = run("audit", *FILES, *REQUESTS)
    words = " ".join(re.sub(r"│.*?│.*?│|│", " ", done.out).split())
    assert "bundles with fewer than 50 users, the smallest with" in words


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("log.parquet", r"log\.parquet: no log found; expected a file"),
        ("release", r"nowhere: is no folder; expected a release"),
        ("policy.parquet", r"policy\.parquet: does not exist; expected the policy file"),
    ],
)
def test_missing_file(run, missing, says):
    Path(missing).rename("elsewhere")
    args = ["nowhere" if missing == arg == "release" else arg for arg in FILES]
    done = run("audit", *args)
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(rf"Error: {says}.*; check the path.*\n", done.err)


@pytest.mark.usefixtures("copied")
def test_policy_must_be_named(run):
    done = run("audit", *FILES[:2])
    assert (done.code, done.out) == (2, "")
    assert "Error: Missing option '--policy'." in done.err


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize(
    "given",
    [
        ["--every", "60s"],
        ["--every", "1m"],
        ["--max-gap", "120000ms"],
        ["--missing", "withhold"],
        ["--every", "1m", "--max-gap", "2m", "--missing", "withhold"],
    ],
    ids=" ".join,
)
def test_time_options_of_the_release(run, given):
    assert run("audit", *FILES, *given).code == 0


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--every", "2m"], "every = 60s; expected 2m, as --every says"),
        (["--max-gap", "60s"], "max-gap = 120s; expected 60s, as --max-gap says"),
        (["--length", "4"], "length = the whole log; expected 4, as --length says"),
        (["--missing", "hold"], "missing = withhold; expected hold, as --missing says"),
        (["--every", "1m", "--missing", "hold"], "missing = withhold; expected hold"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_time_options_of_another_release(run, given, says):
    done = run("audit", *FILES, *given)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"Error: release: the release was made with {says}")
    assert "; leave --" in done.err


@pytest.mark.usefixtures("copied")
def test_time_option_that_is_no_duration(run):
    done = run("audit", *FILES, "--every", "often")
    assert done.code == 2
    assert done.err.startswith("Error: every is 'often'; ")


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize(
    "damage",
    [
        break_the_manifest,
        lambda: change_manifest(parameters=None),
        lambda: change_parameters(every="often"),
        lambda: change_parameters(every=[60]),
    ],
)
def test_damaged_manifest_is_a_breach_whatever_the_options(run, damage):
    damage()
    assert run("audit", *FILES, "--every", "60s").code == 3


def test_time_options_without_timestamps(run, tmp_path):
    write_parquet(tmp_path / "log.parquet", clustered_rows())
    options = ("--every", 1, "--length", 2, "--missing", "hold", "--max-gap", 3)
    args = ("-o", "release", "--policy", "policy.parquet", "--k", 3)
    assert run("anonymize", "log.parquet", *args, *options).code == 0
    assert run("audit", *FILES, *options).code == 0
    done = run("audit", *FILES, *options, "--length", 3)
    assert done.code == 2
    assert "was made with length = 2; expected 3" in done.err


FOREIGN = ("audit", "log.parquet", "release/bundles.parquet", "--foreign")


@pytest.mark.usefixtures("copied")
def test_a_foreign_table(run):
    done = run(*FOREIGN, "--k", 5)
    assert (done.code, done.err) == (0, "")
    names = [name for name in FOREIGN_CHECKS if name != "members"]
    assert read_results(done.out) == dict.fromkeys(names, "passed")
    done = run(*FOREIGN, "--k", 5, "--policy", "policy.parquet", "--json")
    assert done.code == 0
    assert [check["check"] for check in json.loads(done.out)["checks"]] == list(FOREIGN_CHECKS)


@pytest.mark.usefixtures("copied")
def test_a_foreign_table_with_breaches(run):
    done = run(*FOREIGN, "--k", 61, "--json")
    assert done.code == 3
    report = json.loads(done.out)
    assert (report["passed"], report["k"]) == (False, 61)
    assert [check["check"] for check in report["checks"] if not check["passed"]] == ["candidates"]
    done = run(*FOREIGN, "--k", 61, "--every", "60s")
    assert done.code == 3
    assert "Breach: 1 of 6 checks failed." in done.out


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (FOREIGN, "Missing option '--k', which --foreign needs."),
        ((*FOREIGN, "--k", 5, "--length", 2), "--length does not go with --foreign"),
        ((*FOREIGN, "--k", 5, "--align", "day"), "--align does not go with --foreign"),
        (("audit", *FILES, "--group", "who"), "--group goes with --foreign only."),
        ((*FOREIGN, "--k", 5, "--replay"), "--replay does not go with --foreign."),
        (("audit", *FILES[:2]), "Missing option '--policy'."),
    ],
)
def test_options_that_do_not_go_together(run, args, message):
    done = run(*args)
    assert done.code == 2
    assert message in done.err
