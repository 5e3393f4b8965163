"""``trajcloak report``: what it prints, and what it refuses."""

import json
import stat

import pytest

from small_logs import list_tree


def test_public(run, copied):
    done = run("report", "release", "-o", "report.html", "--network", "city")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("By its own account, every published request has at least 5 ")
    assert "Report: report.html (" in done.out
    assert "private" not in done.out
    assert (copied / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_private(run, copied):
    done = run("report", "release", "-o", "report.html", "--log", "log.parquet",
               "--policy", "policy.parquet")  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert "It is private: it was made with the log. Do not publish it." in done.out
    assert stat.S_IMODE((copied / "report.html").stat().st_mode) == 0o600


def test_private_with_a_vocabulary(run, copied):
    words = copied / "words.csv"
    words.write_text("category\nfood\nfuel\n")
    options = ("--request", "category", "--vocabulary", "words.csv", "--policy", "p.parquet")
    assert run("anonymize", "log.parquet", "-o", "listed", "--k", 5, *options).code == 0
    given = ("report", "listed", "-o", "report.html", "--log", "log.parquet", "--no-attack")
    assert run(*given, "--policy", "p.parquet").code == 2
    assert run(*given, "--policy", "p.parquet", "--vocabulary", "words.csv").code == 0
    assert "not in the vocabulary" in (copied / "report.html").read_text()


def test_for_machines(run, copied):
    done = run("report", "release", "-o", "report.html", "--json")
    told = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert told["report"] == "report.html"
    assert told["passed"] is True
    assert told["private"] is False
    assert told["size"] == (copied / "report.html").stat().st_size


def test_a_breach_has_its_exit_code_and_its_page(run, copied):
    manifest = copied / "release" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"suppressed": 0,', '"suppressed": 1,'))
    done = run("report", "release", "-o", "report.html", "--log", "log.parquet",
               "--policy", "policy.parquet")  # fmt: skip
    assert (done.code, done.err) == (3, "")
    assert done.out.startswith("Do not publish this release.")
    assert "Do not publish this release" in (copied / "report.html").read_text()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere", "-o", "r.html"], "nowhere: there is no such folder"),
        (["release", "-o", "log.parquet"], "log.parquet: exists already"),
        (["release", "-o", "release/r.html"], "release/r.html: the report would stand inside"),
        (["release", "-o", "no/r.html"], "no/r.html: there is no folder no"),
        (["release", "-o", "r.html", "--log", "log.parquet"], "only one of log and policy"),
        (["release", "-o", "r.html", "--network", "none"], "none: no such file or folder"),
        (["release", "-o", "r.html", "--every", "7s"], "release: the release was made with every"),
    ],
)
def test_refused(run, copied, args, says):
    before = list_tree(copied)
    done = run("report", *args)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"Error: {says}")
    assert list_tree(copied) == before
