"""``trajcloak query``."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, option
from trajcloak.cli.printing import ValueTable, out, print_json, to_markup
from trajcloak.quantities import show_count, show_moment

if TYPE_CHECKING:
    from trajcloak.query import Answer, PublishedRelease, RequestAnswer
    from trajcloak.query.published_release import Steps

    Answers = dict[int | None, Answer]
    """By instant; None: all steps."""

SHOWN_VALUES = 30


@click.command("query", cls=GroupedCommand)
@click.argument("release", type=shared.PATH)
@option(
    "--region",
    "regions",
    multiple=True,
    metavar="X_MIN,Y_MIN,X_MAX,Y_MAX",
    help="Rectangle to ask about; repeat it, each with an --at, for moves and routes.",
)
@option(
    "--at",
    "times",
    multiple=True,
    metavar="TIME",
    help="An instant's number or a timestamp; one for each --region.",
)
@option("--from", "first", metavar="TIME", help="First time.  [default: the release's]")
@option("--to", "last", metavar="TIME", help="Last time.  [default: the release's]")
@option(
    "--route",
    metavar="POINTS",
    help="Line 'X,Y X,Y ...' to follow at an even pace between --from and --to.",
)
@option("--width", type=float, help="Width of the --route, in units of the CRS.")
@option("--lonlat", is_flag=True, help="Regions and routes are in degrees, longitude first.")
@option(
    "--tz",
    metavar="ZONE",
    help="Zone of times that have none, and of those that are shown, such as Europe/Berlin.  "
    "[default: UTC, or as the release has them]",
)
@option("--by", metavar="ATTRIBUTE", help="Also count requests, by the attribute's value.")
@shared.json_option
def command(
    release: Path,
    regions: tuple[str, ...],
    times: tuple[str, ...],
    first: str | None,
    last: str | None,
    route: str | None,
    width: float | None,
    lonlat: bool,
    tz: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Ask RELEASE how many users were where, and what they asked for.

    One --region: users inside it, instant by instant, at one time or --from and --to.
    Several, each with its --at: users who were in all of them. A --route with its
    --width: users who followed it. Each answer is two bounds that hold for certain,
    and an estimate.
    """
    from trajcloak.options import WGS84
    from trajcloak.query import ASSUMPTIONS, UNLINKED, build_route, open_published, parse_region
    from trajcloak.query.questions import parse_points

    if bool(regions) == bool(route):
        raise click.UsageError("Either --region or --route is needed, and not both.")
    if bool(route) != (width is not None):
        raise click.UsageError("--route and --width go together.")
    if times and (first or last):
        raise click.UsageError("--at does not go with --from and --to.")
    if (len(regions) > 1 or times) and len(times) != len(regions):
        raise click.UsageError(
            f"--region is given {len(regions)} times, --at {len(times)} times: one --at for each "
            f"--region is needed, or one --region with --from and --to."
        )
    opened = open_published(release)
    if tz is not None:
        opened = replace(opened, times=opened.times.follow_clock(tz))
    crs = WGS84 if lonlat else None
    rectangles = [opened.place_region(parse_region(text), crs) for text in regions]
    answers: Answers
    steps: Steps
    if len(regions) == 1:
        first, last = (times[0], times[0]) if times else (first, last)
        counted = opened.count(rectangles[0], first, last)
        answers = dict(counted.items())
        steps = [(rectangles[0], instant) for instant in counted]
        requests = opened.count_requests(rectangles[0], by, first, last) if by else {}
        assumes = list(ASSUMPTIONS)
    else:
        steps = list(zip(rectangles, times, strict=True))
        if route and width is not None:
            points = opened.place_points(parse_points(route), crs)
            steps = [*build_route(points, width, opened.times.between(first, last))]
        answers = {None: opened.follow(steps)}
        requests = opened.follow_requests(steps, by) if by else {}
        assumes = [*ASSUMPTIONS, *([UNLINKED] if opened.crosses_windows(steps) else [])]
    if as_json:
        print_json(_to_dict(opened, answers, steps, by, requests, assumes))
    else:
        print_answers(opened, answers, by, requests, assumes)


def _to_dict(
    release: "PublishedRelease",
    answers: "Answers",
    steps: "Steps",
    by: str | None,
    requests: dict[Any, "RequestAnswer"],
    assumes: list[str],
) -> dict[str, Any]:
    content = {
        "users": [
            {**_describe_time(release, instant), **asdict(answer)}
            for instant, answer in answers.items()
        ],
        "steps": [
            {**_describe_time(release, release.times.find_instant(time)), "region": list(region)}
            for region, time in steps
        ],
        "assumes": assumes,
        "published_users": release.manifest["users"],
        "withheld": release.manifest["withheld"],
        "suppressed": release.manifest["suppressed"],
    }
    if by:
        content["by"] = by
        content["requests"] = [
            {"value": value, **asdict(answer)} for value, answer in requests.items()
        ]
    return content


def _describe_time(release: "PublishedRelease", instant: int | None) -> dict[str, Any]:
    if instant is None:
        return {}
    moment = release.times.describe_instant(instant)
    return {"instant": instant} if moment is None else {"instant": instant, "t_start": moment}


def print_answers(
    release: "PublishedRelease",
    answers: "Answers",
    by: str | None,
    requests: dict[Any, "RequestAnswer"],
    assumes: list[str],
) -> None:
    """Show bounds and estimates, and what they assume."""
    table = ValueTable("Users", "at", ("at least", "about", "at most"))
    digits = max((len(str(instant)) for instant in answers), default=0)
    for instant, answer in answers.items():
        number, *moment = _describe_time(release, instant).values() or ["all steps"]
        table.add_row(
            " ".join([str(number).rjust(digits), *map(show_moment, moment)]), *_show(answer)
        )
    out.print(table)
    if by:
        _print_requests(by, requests)
    for line in assumes:
        out.print(line)
    withheld, suppressed = release.manifest["withheld"], release.manifest["suppressed"]
    left_out = (
        f"{show_count(withheld['users'], 'user')}, {show_count(withheld['windows'], 'window')}, "
        f"{show_count(withheld['sets'], 'set')} of requests"
    )
    counted = f"; suppressed: {suppressed:,} times, in single windows" if suppressed else ""
    out.print(f"Published: {release.manifest['users']:,} users; withheld: {left_out}{counted}.")


def _print_requests(by: str, requests: dict[Any, "RequestAnswer"]) -> None:
    table = ValueTable(
        f"Requests by {to_markup(by)}",
        "value",
        ("requests >=", "about", "<=", "users >=", "about", "<="),
    )
    for value, answer in list(requests.items())[:SHOWN_VALUES]:
        shown = "(null)" if value is None else str(value)
        table.add_row(to_markup(shown), *_show(answer.requests), *_show(answer.users))
    out.print(table)
    if len(requests) > SHOWN_VALUES:
        out.print(f"{len(requests) - SHOWN_VALUES:,} rarer values are left out; --json has all.")


def _show(answer: "Answer") -> tuple[str, str, str]:
    return f"{answer.lower:,}", f"{answer.estimate:,.1f}", f"{answer.upper:,}"
