"""Rare values of the log that a release was made of: how many, and what became of them."""

from typing import NamedTuple

import numpy as np

from trajcloak.log import RequestLog, hold_in_memory
from trajcloak.options import DROP, KEEP
from trajcloak.query import PublishedRelease
from trajcloak.release.reading import Manifest
from trajcloak.report.markup import Element, Rows, element, section, table
from trajcloak.report.words import count
from trajcloak.requests import RareColumn
from trajcloak.requests.attributes import list_attributes
from trajcloak.requests.rare_values import count_rare, find_rare


class RareValues(NamedTuple):
    """The values of an attribute that few users of the log sent.

    Attributes
    ----------
    below : int
        Fewer users than this are few.
    found : RareColumn
    num_values : int
        All distinct values of the attribute.
    """

    below: int
    found: RareColumn
    num_values: int


def count_rare_values(log: RequestLog, release: PublishedRelease) -> list[RareValues]:
    """Count the rare values of each attribute, by the release's threshold and by k."""
    manifest = release.manifest
    made = manifest["parameters"]
    origin, every = release.times.moments or (made["origin"], made["every"])
    windows = origin + np.array(release.times.ranges, np.int64) * every
    whole = hold_in_memory(log)
    whole = hold_in_memory(log)
    attributes = list_attributes(log)
    counted = []
    for below in sorted({made["rare_below"], manifest["k"]}):
        rare = count_rare(whole, attributes, find_rare(attributes, below), windows)
        by_name = {column.column: column for column in rare}
        counted += [
            RareValues(below, by_name.get(a.name, RareColumn(a.name, 0, 0, 0)), a.num_values)
            for a in attributes
        ]
    return counted


def build_rare(rare: list[RareValues] | None, manifest: Manifest) -> Element:
    """Show the rare values of each attribute; None if they were not counted."""
    title = "Values that few users sent"
    if rare is None:
        return section(
            "rare",
            title,
            element("p", "Not counted: the audit failed, or the release has no request attribute."),
        )
    rows: Rows = [
        [
            element("bdi", found.column),
            f"{below:,} users",
            f"{found.values:,} of {count(num_values, 'value')}",
            f"{found.requests:,}",
            f"{found.recurring:,}",
            _say_treatment(below, manifest) if found.values else "there are none",
        ]
        for below, found, num_values in rare
    ]
    head = ["attribute", "sent by fewer than", "values", "requests of the log",
            "values in several windows", "what became of them"]  # fmt: skip
    return section(
        "rare",
        title,
        element(
            "p",
            "Counted in the log when this page was made. Somebody who knows who uses a rare value "
            "may guess its sender, and one that recurs may link windows. They were kept out only "
            "if that was asked for (--rare drop, --rare other).",
        ),
        table(head, rows),
    )


def _say_treatment(below: int, manifest: Manifest) -> str:
    made = manifest["parameters"]
    if made["rare"] == KEEP:
        return "kept: published as they are"
    done = "dropped: their requests withheld"
    if made["rare"] != DROP:
        done = "replaced by “other”, or by null where they are no text"
    if below > made["rare_below"]:
        return f"those of fewer than {made['rare_below']:,} users {done}; the others kept"
    return done
