"""The public sections of the page: words, tables and charts."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trajcloak.options import PER_INSTANT, REPORT_AWARE
from trajcloak.quantities import (
    Unit,
    list_ingest_facts,
    show_count,
    show_k,
    show_moment,
    show_number,
)
from trajcloak.query import PublishedRelease
from trajcloak.release.manifest_schema import Manifest
from trajcloak.report.charts import draw_histogram, draw_series
from trajcloak.report.figures import Figures, Histogram, PublicCheck
from trajcloak.report.html_elements import (
    Child,
    Element,
    details,
    element,
    facts,
    mark_options,
    section,
    table,
)
from trajcloak.report.map_contents import AttributeSummary

NOT_PROMISED = (
    "A request whose own text names its sender or a place is published as it is, if the rules "
    "about rare requests let it pass.",
    "The suspects need not be equally likely: somebody with beliefs of their own may weigh them, "
    "and somebody who knows that a user sent nothing, or made no report at all, at an instant can "
    "exclude that user there.",
    "That somebody of a bundle sent something is published. If all its users are of one kind, "
    "this is learned about the kind.",
    "Places are coarsened, not hidden: this protects who asked, not where people were.",
    "Two releases of the same users and times can be compared with each other. Publish one.",
    "Users are counted by their ids: a person with two counts twice.",
)
ALLOWED = "Allowed by hand with --allow: not checked for identifiers and places."
RECURRING = (
    "A request that recurs in several windows may link these: whoever takes equal requests for "
    "those of one sender can intersect their bundles."
)
LINK_SAFE = " --link-safe withholds such requests."
LINKED = (
    "Each single request has that many possible senders. Somebody who knows that several requests "
    "have one sender may be left with fewer: those with a row wherever they were sent."
)
ALL_REQUESTS = (
    "Where every row of the log carries a request, a set with one value tells that all who have a "
    "row there sent it."
)
FOLLOWED = (
    "Parts keep their users for a whole window. Whoever knows that somebody is in a part learns "
    "where they were at its other instants, as precisely as the part shows it."
)
PIECED = (
    "Parts have other users at every instant. A way that is pieced together from parts may be that "
    "of fewer users than a part has, even of a single one."
)


def build_guarantee_section(manifest: Manifest, figures: Figures) -> Element:
    """Say in plain words what is promised, and what is not."""
    k, made, parts = manifest["k"], manifest["parameters"], manifest["parts"]
    is_one_log, is_stream = manifest["attacker"] == REPORT_AWARE, "stream" in made
    recurring = RECURRING if is_stream else RECURRING + LINK_SAFE
    limits = [
        *NOT_PROMISED,
        *([] if parts is None else [PIECED if parts["per"] == PER_INSTANT else FOLLOWED]),
        *([LINKED, ALL_REQUESTS] if is_one_log else []),
        *([recurring] if manifest["windows"] > 1 and not made["link_safe"] else []),
    ]
    steps = [
        f"Users who moved alike were put into {show_count(figures.num_bundles, 'bundle')} of at "
        f"least {show_k(k)}; they have {_show_sizes(figures)} users.",
        "A bundle is published as one area, its cloak, for each instant, and the set of requests "
        "that its users sent then: no names, no order, no duplicates."
        if parts is None
        else f"A bundle is published as the areas of its parts, each of at least "
        f"{parts['users']:,} users, for each instant, and as one set of the requests that all its "
        f"users sent then: no names, no order, no duplicates, and nothing says which part a "
        f"request came from.",
    ]
    if is_stream:
        steps.append(
            f"A user who is absent at an instant is left out until the epoch ends, and a bundle "
            f"with fewer than {k:,} users left is not shown any more. So its users have been "
            f"together since the epoch began."
        )
    if is_one_log:
        steps += [
            f"Whoever knows the rows of the log knows who could have sent a request: somebody "
            f"with a row at that instant. So a set is published only where at least {k:,} users "
            f"of the bundle have one.",
            "Who is bundled with whom, and which sets are published, follows from places, times "
            "and settings alone, never from requests. So exchanging what two rows of a bundle and "
            "instant hold gives the same release, byte for byte.",
        ]
        suspects = "of its bundle who have a row there"
    else:
        suspects = "still in its bundle" if is_stream else "of its bundle"
        steps.append(
            "Who is bundled with whom follows from location reports and settings alone, never from "
            f"requests. So giving a request to another user {suspects} gives the same release, "
            "byte for byte."
        )
    steps.append(
        f"Whoever looks for the sender of a request is therefore left with all users {suspects}, "
        f"{k:,} or more, even if they can tell exactly who these are."
    )
    if parts is not None:
        steps.append(
            f"Whoever does not know where users were sees areas of at least {parts['users']:,} "
            f"users. So this number (M), not k, is the anonymity of whereabouts"
            f"{', for single instants only' if parts['per'] == PER_INSTANT else ''}."
        )
    return section(
        "guarantee",
        "What is promised, and why it holds",
        element("ol", *(element("li", step) for step in steps), class_="steps"),
        element("h3", "What is not promised"),
        element("ul", *(element("li", *mark_options(line)) for line in limits)),
    )


def build_figures_section(release: PublishedRelease, figures: Figures, unit: Unit) -> Element:
    """Build the charts."""
    moments = [describe_instant(release, int(instant)) for instant in figures.instant]
    # All bundles of a stream may be silent at an instant.
    mean = figures.cost_by_instant / np.maximum(figures.users, 1)
    side, side_name = unit.scale(float(figures.sides.edges[-1]))
    per_user, area_name = unit.scale(math.sqrt(float(mean.max())))
    k, num_bundles = release.manifest["k"], figures.num_bundles
    sizes = (
        f"{show_count(num_bundles, 'bundle')} of {_show_sizes(figures)} users; none has fewer than "
        f"{show_k(k)}."
    )
    if figures.smallest < k:
        smallest = f"{figures.smallest:,} users, fewer than {show_k(k)}"
        sizes = f"The smallest of {num_bundles:,} bundles has {smallest}."
    charts = [
        draw_histogram(
            "sizes",
            "How many users a bundle has",
            figures.sizes,
            "users of the bundle",
            "bundles",
            sizes,
        ),
        draw_histogram(
            "sides",
            "How wide and high cloaks are",
            Histogram(figures.sides.edges / side, figures.sides.counts),
            f"side of the cloak ({side_name})",
            "sides",
            f"A mean cloak is as large as a square of {unit.square(figures.mean_area)}; less is "
            f"more useful.",
        ),
        draw_series(
            "cost",
            "Cost over time",
            mean / per_user**2,
            figures.instant,
            moments,
            f"mean area of a user's cloak ({area_name}²)",
            f"Cost is the sum of these areas over users and instants: {unit.area(figures.cost)}.",
        ),
    ]
    if figures.requests.any():
        charts.append(
            draw_series(
                "requests-over-time",
                "Requests over time",
                figures.requests.astype(float),
                figures.instant,
                moments,
                "published requests",
                f"{int(figures.requests.sum()):,} requests, each once in its bundle and instant.",
            )
        )
    return section("figures", "Figures", element("div", *charts, class_="charts"))


def _show_sizes(figures: Figures) -> str:
    if figures.smallest == figures.largest:
        return f"exactly {figures.smallest:,}"
    return f"{figures.smallest:,} to {figures.largest:,}"


def build_requests_section(
    attributes: list[AttributeSummary], total: int, allowed: Sequence[str]
) -> Element | None:
    """List what was asked for most often."""
    if not attributes:
        return None
    tables = []
    for attribute in attributes:
        is_allowed = attribute.name in allowed
        rows: list[list[Child]] = [
            [element("bdi", value), f"{number:,}", f"{number / max(total, 1):.1%}"]
            for value, number in attribute.frequent
        ]
        words = f"{show_count(attribute.num_values, 'different value')}; the most frequent:"
        parts = [
            element("h3", element("bdi", attribute.name)),
            element("p", *mark_options(ALLOWED), class_="allowed") if is_allowed else None,
            element("p", words),
            table(["value", "requests", "share"], rows, class_="numeric"),
        ]
        tables.append(element("div", *parts))
    return section("requests", "What was asked for", element("div", *tables, class_="columns"))


def build_checks_section(checks: list[PublicCheck]) -> Element:
    """Show what this page itself compared."""
    return section(
        "checks",
        "What anybody can check",
        element(
            "p",
            "Counted anew from the three public files when this page was made. Anybody with the "
            "release can repeat it, and every figure and map on this page.",
        ),
        list_checks(checks),
    )


def list_checks(checks: Sequence[PublicCheck]) -> Element:
    """Lay out checks, their results not by colour alone."""
    rows: list[list[Child]] = []
    for check in checks:
        word = "passed" if check.passed else "FAILED"
        result = element("span", word, class_=word.lower())
        rows.append([check.name, result, check.asks, check.detail])
    return table(["check", "result", "what it asks for", "finding"], rows, class_="checks")


def build_ingest_section(manifest: Manifest, unit: Unit) -> Element:
    """Show what came in, as the manifest reports it."""
    return section(
        "ingest",
        "What came in",
        element("p", "As the manifest reports on the log; an audit recounts it."),
        facts(list_ingest_facts(manifest["ingest"], unit.plane)),
    )


def build_origin_section(
    manifest: Manifest, figures: Figures, unit: Unit, *, is_private: bool
) -> Element:
    """Say how the release was made, and from which files this page was."""
    settings = sorted(
        (name.replace("_", " "), _show_setting(value))
        for name, value in manifest["parameters"].items()
        if value is not None
    )
    needs = (
        "The audit and the attack come from the private log and policy file; they can be repeated "
        "only with these."
        if is_private
        else "Not on this page, because it takes the private log and policy file: the audit, and "
        "what each class of attacker learns. Their holder adds both with --log and --policy."
    )
    return section(
        "origin",
        "How it was made",
        facts(
            [
                ("software", str(manifest["software"])),
                ("algorithm", f"{manifest['algorithm']}, {manifest['cloak']} cloaks"),
                ("k", f"{manifest['k']:,}"),
                ("cost", unit.area(figures.cost)),
                ("mean cloak", unit.square(figures.mean_area)),
                ("coordinates", str(manifest["crs"] or unit.plane)),
                (
                    "region",
                    f"a square of {unit.length(manifest['region']['side'])} cut into "
                    f"2^{manifest['height']} cells each way",
                ),
            ]
        ),
        details("All settings", facts(settings)),
        element("h3", "This page"),
        element(
            "p",
            *mark_options(
                "Map, figures and checks come from the release alone; the same files give the same "
                f"page, byte for byte. {needs} The top of the page has the SHA-256 of all files."
            ),
        ),
    )


def _show_setting(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return show_number(value) if isinstance(value, int | float) else str(value)


def describe_instant(release: PublishedRelease, instant: int) -> str:
    """Name an instant: its moment, or its number."""
    moment = release.times.describe_instant(instant)
    return f"instant {instant}" if moment is None else show_moment(moment)
