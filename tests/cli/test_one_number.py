"""One number for each notion: on the console, in the manifest and on the page."""

import json
import re
from pathlib import Path

import pytest

ASKED = (
    "--k", 5, "--request", "category", "--length", 2, "--max-suppressed", "40%", "--members", 7,
)  # fmt: skip


@pytest.fixture
def told(run, made, tmp_path):
    """The facts of the console, the manifest, the private figures and the page of a release."""
    (tmp_path / "log.parquet").write_bytes((made / "log.parquet").read_bytes())
    done = run("anonymize", "log.parquet", "-o", "release", *ASKED)
    assert done.code == 0, done.err
    facts = dict(re.findall(r"│ (.+?) +│ +(.+?) │", done.out))
    private = json.loads(run("anonymize", "log.parquet", "-o", "other", *ASKED, "--json").out)
    assert run("report", "release", "-o", "page.html").code == 0
    page = re.sub(r"<[^>]+>", " ", Path("page.html").read_text())
    return facts, json.loads(Path("release/manifest.json").read_text()), private["private"], page


def to_number(text):
    return int(re.match(r"[\d,]+", text)[0].replace(",", ""))


def test_the_console_says_what_the_manifest_says(told):
    facts, manifest, figures, _ = told
    assert manifest["windows"] == 2
    for name, number in {
        "rows read": manifest["ingest"]["rows"],
        "users": manifest["ingest"]["users"],
        "instants of the log": manifest["ingest"]["instants"],
        "users published": manifest["users"],
        "users withheld": manifest["withheld"]["users"],
        "users suppressed": manifest["suppressed"],
        "requests in the log": figures["requests"],
        "requests published": manifest["requests"],
        "equal requests": figures["equal"],
        "requests withheld": sum(figures["withheld"].values()),
        "windows published": manifest["windows"],
        "instants published": manifest["instants"],
        "bundles": manifest["bundles"],
        "smallest bundle": manifest["smallest_bundle"],
    }.items():
        assert to_number(facts[name]) == number, name


def test_the_requests_of_the_console_add_up(told):
    facts, *_ = told
    parts = ("requests published", "equal requests", "requests withheld")
    assert to_number(facts["requests in the log"]) == sum(to_number(facts[name]) for name in parts)


def test_the_page_says_what_the_manifest_says(told):
    _, manifest, _, page = told
    assert manifest["suppressed"] > 1
    text = " ".join(page.split())
    assert f"users suppressed {manifest['suppressed']} times, once for each window" in text
