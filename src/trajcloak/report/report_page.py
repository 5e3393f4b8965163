"""From a release to its page: sections, template, style, script and data put together."""

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any

from trajcloak.errors import OptionError
from trajcloak.options import LogColumns
from trajcloak.output import PRIVATE, PUBLIC, check_new, new_file
from trajcloak.progress import Progress, silent
from trajcloak.quantities import Unit
from trajcloak.query import PublishedRelease, open_published
from trajcloak.release.reading import check_outside_log, check_outside_releases
from trajcloak.report.backdrop import Backdrop, build_backdrop
from trajcloak.report.figures import check_release, count_figures
from trajcloak.report.html_elements import (
    Element,
    element,
    mark_options,
    read_part,
    render,
    to_script,
)
from trajcloak.report.map_contents import build_density, choose_drawn, list_drawn, read_requests
from trajcloak.report.map_section import build_map_data, build_map_section
from trajcloak.report.private_part import PrivateFindings, audit_and_attack, build_private_sections
from trajcloak.report.sections import (
    build_checks_section,
    build_figures_section,
    build_guarantee_section,
    build_ingest_section,
    build_origin_section,
    build_requests_section,
)
from trajcloak.report.verdict import UNSAFE, build_header, judge, list_allowed
from trajcloak.version import __version__

STAGE = "writing report"
PRIVATE_WARNING = (
    "This page was made with the log and the policy file. Whoever may not see these may not see "
    "this page: do not publish it. Without --log and --policy the same command makes a page for "
    "the public."
)

CONTENTS = {
    "map": "Map",
    "figures": "Figures",
    "guarantee": "Promise",
    "audit": "Audit",
    "attack": "Attackers",
    "sent": "Sent",
    "requests": "Requests",
    "checks": "Checks",
    "ingest": "Input",
    "origin": "Origin",
}
"""Short names of the sections."""

LogPaths = str | Path | Sequence[str | Path]
STYLES = ("colours.css", "layout.css", "map.css", "print.css")
SCRIPTS = ("read.js", "map_drawing.js", "bundle.js", "main.js")
"""Parts of the style and of the script, in their order."""


@dataclass(frozen=True)
class Report:
    """Summary of a written report.

    Attributes
    ----------
    private : bool
        Whether it shows what only the holder of the log may see.
    passed : bool
        Whether all checks hold: those of the release alone and, if made, those of the audit.
    verdict : str
        Its first line.
    allowed : list of str
        Attributes that were published unchecked, with ``--allow``.
    bundles, bundles_drawn : int
        All bundles, and those on the map.
    size : int
        In bytes.
    """

    private: bool
    passed: bool
    verdict: str
    allowed: list[str]
    bundles: int
    bundles_drawn: int
    size: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary."""
        return asdict(self)


def write_report_page(
    release: str | Path,
    path: str | Path,
    *,
    log: LogPaths | None = None,
    policy: str | Path | None = None,
    columns: LogColumns | None = None,
    request_log: LogPaths | None = None,
    vocabulary: Mapping[str, Sequence[Any]] | None = None,
    network: str | os.PathLike[str] | None = None,
    outline: str | os.PathLike[str] | None = None,
    replay: bool = False,
    attack: bool = True,
    threads: int | None = None,
    progress: Progress = silent,
) -> Report:
    """Write one HTML page about a release; see :func:`trajcloak.write_report`."""
    path = Path(path)
    if (log is None) != (policy is None):
        raise OptionError(
            "only one of log and policy file is given; expected both or neither; pass --log and "
            "--policy together"
        )
    check_outside_releases(path, "the report", "output")
    check_outside_log([log, request_log], [path])
    check_new(path)
    published = open_published(release)
    found = None
    if log is not None and policy is not None:
        found = audit_and_attack(
            published, log, Path(policy), columns or LogColumns(),
            request_log=request_log, vocabulary=vocabulary, replay=replay,
            with_attack=attack, threads=threads, progress=progress,
        )  # fmt: skip
    progress(STAGE, 0, 1)
    backdrop = build_backdrop(published, network, outline)
    page, report = build_page(published, found, backdrop)
    with new_file(path, PRIVATE if report.private else PUBLIC) as file:
        file.write_text(page, encoding="utf-8", newline="\n")
    progress(STAGE, 1, 1)
    return report


def build_page(
    release: PublishedRelease, found: PrivateFindings | None, backdrop: Backdrop | None
) -> tuple[str, Report]:
    """Build the page, and the summary of it."""
    manifest = release.manifest
    known = manifest["crs"] is not None or (backdrop is not None and backdrop.in_metres)
    unit = Unit(in_metres=known)
    requests = read_requests(release)
    figures = count_figures(release, requests.count_by_instant(release))
    drawn = choose_drawn(release)
    density = build_density(release, drawn)
    checks = check_release(release, figures, unit)
    audited = None if found is None else {c.name: c.passed for c in found.audit.checks}
    verdict = judge(manifest, checks, audited)
    streets = None if backdrop is None else f" {backdrop.words}"
    sections = [
        build_map_section(release, figures, drawn, unit, density, streets),
        build_figures_section(release, figures, unit),
        build_guarantee_section(manifest, figures),
        *([] if found is None else build_private_sections(found, manifest)),
        build_requests_section(requests.attributes, len(requests.kind), list_allowed(manifest)),
        build_checks_section(checks),
        build_ingest_section(manifest, unit),
        build_origin_section(manifest, figures, unit, is_private=found is not None),
    ]
    shown = [part for part in sections if part is not None]
    digests = {f"release: {name}": digest for name, digest in figures.digests.items()}
    use, warning = "Public: made from the release alone.", []
    if found is not None:
        digests |= found.digests
        use = "Private: not for publication."
        words = [element("strong", "Private."), *mark_options(f" {PRIVATE_WARNING}")]
        label = "This page is private"
        warning = [element("div", *words, class_="private", role="note", aria_label=label)]
    body = [
        *warning,
        build_header(verdict, figures, manifest, requests.attributes, digests),
        _build_contents(shown),
        element("main", *shown, id="content"),
        element("footer", element("p", f"Page made by trajcloak {__version__}. {use}")),
    ]
    data = build_map_data(
        release, figures, drawn, list_drawn(requests, drawn), density, unit,
        None if backdrop is None else backdrop.to_dict(),
    )  # fmt: skip
    page = _assemble(f"Release report: {verdict.headline}", body, data)
    return page, Report(
        private=found is not None,
        passed=verdict.state != UNSAFE,
        verdict=verdict.headline,
        allowed=list_allowed(manifest),
        bundles=figures.num_bundles,
        bundles_drawn=sum(len(part.bundle) for part in drawn),
        size=len(page.encode("utf-8")),
    )


def _build_contents(sections: list[Element]) -> Element:
    names = [part.get("id", "") for part in sections]
    links = (
        element("li", element("a", CONTENTS[name], href=f"#{name}", title=part[0].text))
        for name, part in zip(names, sections, strict=True)
    )
    return element(
        "nav",
        element("ul", *links),
        element("button", "Dark colours", id="theme", type="button"),
        aria_label="On this page",
    )


def _assemble(title: str, body: Iterable[Element], data: Any) -> str:
    """Put a page together.

    Nothing is loaded from anywhere, and the page's own policy forbids it: the browser
    runs only this script and this style, by their hashes.
    """
    style = "\n".join(read_part(name) for name in STYLES)
    parts = "\n".join(read_part(name) for name in SCRIPTS)
    script = f'(() => {{\n"use strict";\n{parts}\n}})();'
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        f"base-uri 'none'; form-action 'none'"
    )
    return Template(read_part("page.html")).substitute(
        title=render([element("title", title)]),
        policy=policy,
        style=style,
        body=render(body),
        data=to_script(data),
        script=script,
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
