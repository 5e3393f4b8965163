"""The pictures of ``docs/report.md``: ``python -m report.screenshots FOLDER``."""

import sys
import tempfile
from pathlib import Path

import trajcloak as tc
from report.browser import start_browser
from runs import anonymize
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns
from trajcloak.report import write_report_page

USERS, LENGTH, K = 20_000, 30, 50
COLUMNS = LogColumns(requests=("category", "detail"))


def make_page(folder: Path) -> Path:
    """Make the private report on the demonstration's city."""
    log, release, policy, page = (
        folder / name for name in ("log.parquet", "release", "policy.parquet", "report.html")
    )
    tc.generate_log(log, users=USERS, length=LENGTH)
    anonymize(read_in_memory(log, COLUMNS), K).write(release, policy)
    write_report_page(release, page, log=log, policy=policy, columns=COLUMNS, network="city")
    return page


def take_pictures(page: Path, folder: Path) -> None:
    """Take a picture of the top in light, and of the map in dark colours."""
    with start_browser() as browser:
        top = browser.new_page(viewport={"width": 1180, "height": 600}, color_scheme="light")
        top.goto(page.as_uri())
        top.screenshot(path=folder / "report.png")
        map_ = browser.new_page(viewport={"width": 1180, "height": 900}, color_scheme="dark")
        map_.goto(page.as_uri())
        map_.locator("#canvas").focus()
        for key in ["ArrowDown"] * 196 + ["ArrowRight"] * 12:
            map_.keyboard.press(key)
        map_.evaluate("document.activeElement.blur()")
        map_.locator(".needs-script").screenshot(path=folder / "report-map.jpg", quality=75)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        take_pictures(make_page(Path(made)), Path(sys.argv[1]))
