"""The first page, on paper, too: is it safe, against whom, what was left out, what to sign."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trajcloak.options import KEEP, OTHER, REPORT_AWARE
from trajcloak.quantities import show_count, show_k, show_moment, show_share
from trajcloak.release.manifest_schema import Manifest
from trajcloak.report.figures import Figures, PublicCheck
from trajcloak.report.html_elements import Child, Element, element, facts, mark_options, table
from trajcloak.report.map_contents import AttributeSummary

SAFE, STATED, CAUTION, UNSAFE = "safe", "stated", "caution", "unsafe"
"""Audited and passed; consistent, but not audited here; either, with attributes that were allowed
although they may identify somebody; a check failed."""

MOST_RARE = 20  # values of an attribute that are listed one by one
RARE_KEPT = (
    " Rare requests are published, too (--rare keep): somebody who knows who would ask for such a "
    "thing may recognise the sender."
)
NOTHING_LEFT_OUT = (
    "Nobody and nothing: all users of the log are in the release, with all their requests. Equal "
    "requests of one bundle and instant are published once."
)
NOT_SAID = (
    "How many requests were withheld is not said: that would tell something about who sent them."
)


class Verdict(NamedTuple):
    """What the page begins with: the finding, its source, and whether the release is safe."""

    state: str  # ``SAFE``, ``STATED``, ``CAUTION`` or ``UNSAFE``.
    headline: str
    status: str
    answer: str


def judge(
    manifest: Manifest, checks: list[PublicCheck], audited: Mapping[str, bool] | None
) -> Verdict:
    """Judge a release by its own checks and, if there was an audit, by what passed there."""
    failed = [check for check in checks if not check.passed]
    senders = f"every published request has at least {manifest['k']:,} possible senders"
    rare = RARE_KEPT if manifest["parameters"]["rare"] == KEEP else ""
    if audited is not None and not all(audited.values()):
        names = [name for name, passed in audited.items() if not passed]
        of_all = f"{len(names)} of {len(audited)} checks"
        return Verdict(
            UNSAFE,
            "Do not publish this release",
            f"Audit failed: {of_all}",
            f"No. {of_all} against the log failed: {', '.join(names)}. The audit below says what "
            f"was found.",
        )
    if failed:
        return Verdict(
            UNSAFE,
            "Do not rely on this release",
            f"It contradicts itself in {show_count(len(failed), 'check')}",
            f"No. Its files do not say what they must: {failed[0].name} "
            f"({failed[0].detail}). The checks below have the rest.",
        )
    if audited is not None:
        headline = senders[0].upper() + senders[1:]
        status = f"Audited against the log: all {len(audited)} checks passed"
        answer = f"Yes, in the sense of sender k\u2011anonymity with {show_k(manifest['k'])}."
        found = (
            f"An audit computed from log and policy file, with code of its own, what must have "
            f"been published, and compared it byte for byte: all {len(audited)} checks hold."
        )
    else:
        headline = f"By its own account, {senders}"
        status = "Not audited on this page: that takes the private log"
        answer = "It says so."
        found = (
            f"Its files agree with each other: all {len(checks)} checks that need no log hold. "
            f"Whether every bundle really has that many users can be seen only with the log: ask "
            f"the publisher for the outcome of the audit."
        )
    allowed = ", ".join(list_allowed(manifest))
    if allowed:
        return Verdict(
            CAUTION,
            f"{headline}, with attributes allowed by hand: {allowed}",
            f"{status}; no check is about what was allowed by hand",
            f"Only if the values of {allowed} name nobody and no place: they were published "
            f"whatever they look like (--allow), and one that names its sender gives them away "
            f"among however many. Somebody has to look at them. {found}",
        )
    return Verdict(STATED if audited is None else SAFE, headline, status, f"{answer} {found}{rare}")


def list_allowed(manifest: Manifest) -> list[str]:
    """List the attributes that were published unchecked: with ``--rare keep``, and ``--allow``."""
    made = manifest["parameters"]
    return list(made["allow"]) if made["rare"] == KEEP else []


def describe_rare(manifest: Manifest) -> str:
    """Say what became of requests that few bundles show."""
    made = manifest["parameters"]
    where = "show at their instant" if "stream" in made else "of their window show"
    what = f"requests that fewer than {made['rare_below']:,} bundles {where}"
    if made["rare"] == OTHER:
        return f"{what}, after their rare values were replaced by “(other)”"
    return what


def build_header(
    verdict: Verdict,
    figures: Figures,
    manifest: Manifest,
    attributes: Sequence[AttributeSummary],
    digests: Mapping[str, str],
) -> Element:
    """Build the top of the page; ``digests`` are the SHA-256 of the files that it is about."""
    return element(
        "header",
        element("p", "Release report", class_="eyebrow"),
        element("h1", verdict.headline),
        element("p", verdict.status, class_=f"status {verdict.state}"),
        element("p", describe_extent(manifest), class_="lede"),
        element(
            "div",
            _card("Is it safe?", element("p", *mark_options(verdict.answer))),
            _card("Against whom?", element("p", describe_attacker(manifest))),
            _card("On which figures?", _list_figures(figures, manifest)),
            _card("What was left out?", *describe_left_out(manifest, figures.num_sets)),
            class_="cards",
        ),
        _list_unchecked(manifest, attributes),
        element(
            "div",
            table(
                ["file", "SHA-256"],
                ([name, element("code", digest)] for name, digest in digests.items()),
                caption="The files that this page is about, and that a signature is for",
                class_="digests",
            ),
            element("p", "Reviewed by", class_="sign"),
            element("p", "Date and signature", class_="sign"),
            class_="files",
        ),
        class_=f"top is-{verdict.state}",
    )


def _list_unchecked(manifest: Manifest, attributes: Sequence[AttributeSummary]) -> Element | None:
    """List what no rule held back, for somebody to look at: allowed attributes, rare values."""
    if manifest["parameters"]["rare"] != KEEP or not attributes:
        return None
    allowed = list_allowed(manifest)
    items = [
        element(
            "li",
            element("bdi", attribute.name),
            " (allowed by hand): " if attribute.name in allowed else ": ",
            *_name_rare(attribute),
        )
        for attribute in attributes
    ]
    few = f"fewer than {manifest['parameters']['rare_below']:,} bundles of a window show"
    return element(
        "div",
        element("h2", "What must somebody look at?"),
        element("p", *mark_options(f"Values that {few}, published with --rare keep:")),
        element("ul", *items),
        class_="card unchecked",
    )


def _name_rare(attribute: AttributeSummary) -> list[Child]:
    """Name the rare values of an attribute, as many as fit."""
    if not attribute.rare:
        return [f"none of {show_count(attribute.num_values, 'value')}"]
    words: list[Child] = [f"{len(attribute.rare):,} of {attribute.num_values:,}: "]
    for number, value in enumerate(attribute.rare[:MOST_RARE]):
        words += [", " if number else None, element("bdi", value)]
    more = len(attribute.rare) - MOST_RARE
    return [*words, f" and {more:,} more" if more > 0 else None]


def describe_attacker(manifest: Manifest) -> str:
    """Say whom the release is safe from."""
    knows = "knows this software and all its settings"
    if manifest["attacker"] == REPORT_AWARE:
        knows = f"has every row of the log but for the requests in it, {knows}"
    return (
        f"Somebody who knows where every user was at every instant, {knows}, reads everything that "
        f"is published, and has unlimited computing power (the {manifest['attacker']} attacker). "
        f"They do not know who sent which request: that is what stays hidden."
    )


def describe_extent(manifest: Manifest) -> str:
    """Say in a line what the release holds."""
    ingest = manifest["ingest"]
    parts = [
        show_count(manifest["users"], "user"),
        show_count(manifest["bundles"], "bundle"),
        show_count(manifest["instants"], "instant"),
    ]
    if manifest["windows"] > 1:
        parts.append(show_count(manifest["windows"], "unlinked window"))
    if isinstance(ingest["start"], str):
        parts.append(f"{show_moment(ingest['start'])} to {show_moment(str(ingest['end']))}")
    return " · ".join(parts)


def describe_left_out(manifest: Manifest, num_sets: int) -> list[Child]:
    """Say who and what is not in the release, which has so many sets of requests, some empty."""
    withheld, made = manifest["withheld"], manifest["parameters"]
    suppressed, is_stream = manifest["suppressed"], "stream" in made
    everyone, dropped = manifest["ingest"]["users"], sum(manifest["ingest"]["dropped"].values())
    lost, few_users = "window", "with too few users"
    few_senders = "where too few users of the bundle have a row"
    if is_stream:
        num_sets += withheld["sets"]  # The release has no rows of silent bundles.
        lost, few_users = "epoch", "with too few users, or in which a run of the stream ended"
        few_senders = "where too few users of the bundle were left"
    share = f" ({show_share(withheld['sets'] / max(num_sets, 1))})"
    rules = [
        made["vocabulary"] and "requests with a value that is not on a public list",
        made["rare"] != KEEP and describe_rare(manifest),
        made["link_safe"] and "requests that would narrow down their sender over several windows",
    ]
    parts = [
        withheld["users"]
        and f"{show_count(withheld['users'], 'user')} of {everyone:,} "
        f"({withheld['users'] / max(everyone, 1):.1%}) withheld throughout",
        withheld["windows"] and f"{show_count(withheld['windows'], lost)} {few_users}",
        suppressed
        and f"users suppressed {show_count(suppressed, 'time')}, once for each window: hiding them "
        f"would cost too much",
        withheld["sets"]
        and f"{withheld['sets']:,} of {show_count(num_sets, 'set')} of requests{share}, "
        f"{few_senders}",
        is_stream
        and "by rule, users who came within an epoch, or were absent at one of its instants, for "
        "the rest of it, with their requests",
        dropped and f"{show_count(dropped, 'row')} of the log dropped while reading",
        *(made["requests"] and rule and f"by rule, {rule}" for rule in rules),
    ]
    listed = [element("li", str(part)) for part in parts if part]
    if listed:
        return [element("ul", *listed), element("p", NOT_SAID)]
    return [element("p", NOTHING_LEFT_OUT)]


def _list_figures(figures: Figures, manifest: Manifest) -> Element:
    parts, k = manifest["parts"], manifest["k"]
    divided = "" if parts is None else f"in parts of at least {parts['users']:,} users "
    numbers = {
        f"users in the smallest bundle; at least {k:,} asked for": figures.smallest,
        f"bundles, each {divided}with an area per instant": figures.num_bundles,
        "requests, distinct in their bundle and instant": manifest["requests"],
    }
    return facts([(name, f"{n:,}") for name, n in numbers.items()], class_="numbers")


def _card(title: str, *children: Child) -> Element:
    return element("div", element("h2", title), *children, class_="card")
