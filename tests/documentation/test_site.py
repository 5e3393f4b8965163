"""The site is built without a warning, and read without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

import trajcloak
from documentation.pages import PROJECT
from report.browser import CHROMIUM, start_browser
from required import require

REMOTE = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
REMOTE_STYLE = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//")


def build(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=project,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(PROJECT, folder)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    found = {page.name: REMOTE.findall(page.read_text()) for page in pages}
    assert {name: tags for name, tags in found.items() if tags} == {}
    styles = [sheet for sheet in site.rglob("*.css") if REMOTE_STYLE.search(sheet.read_text())]
    assert styles == []


@pytest.mark.browser
def test_the_site_is_searched_without_a_server(site):
    """Opened as a file, where browsers start no workers."""
    require("chromium; `make browser` installs it", CHROMIUM is not None)
    with start_browser() as browser:
        page = browser.new_page()
        page.goto((site / "how-to/which-log.html").as_uri())
        page.locator("[data-md-component=search-query]").click()
        page.keyboard.type("vocabulary")
        expect(page.locator(".md-search-result__meta")).to_contain_text("matching documents")
        page.locator(".md-search-result__link").first.click()
        expect(page.locator("main").get_by_text("vocabulary").first).to_be_attached()
        assert page.url.startswith("file:")
        assert "which-log" not in page.url


@pytest.mark.slow
def test_every_public_name_is_shown(site):
    text = (site / "reference/api.html").read_text()
    for name in trajcloak.__all__:
        assert f'id="trajcloak.{name}"' in text or name == "__version__", name
    assert ":func:" not in text
    assert ":class:" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    ["[gone](gone.md)", "[no such part](other.md#gone)", "![no picture](figures/gone.png)"],
)
def test_a_broken_link_is_an_error(tmp_path, line):
    """On a site of few pages, with the settings of the real one."""
    (tmp_path / "docs").mkdir()
    settings = (PROJECT / "mkdocs.yml").read_text().partition("\nplugins:")
    validation = settings[2][settings[2].index("\nvalidation:") : settings[2].index("\nnav:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: small\n{validation}\n")
    (tmp_path / "docs/other.md").write_text("# Other\n")
    index = tmp_path / "docs/index.md"
    index.write_text("# Home\n\n[there](other.md#other)\n")
    assert build(tmp_path, tmp_path / "site").returncode == 0
    index.write_text(f"# Home\n\n{line}\n")
    assert build(tmp_path, tmp_path / "site").returncode == 1


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://cdn.example/a.js">',
        "<link rel=stylesheet href=//fonts.example/a.css>",
        "<img alt='' src='http://example.org/a.png'>",
    ],
)
def test_what_is_fetched_from_elsewhere_is_seen(tag):
    assert REMOTE.search(f"<p>{tag}</p>")
