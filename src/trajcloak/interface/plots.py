"""Rectangles of a release, drawn; and packages that only some callers need."""

from importlib import import_module
from typing import Any

import numpy as np

from trajcloak.errors import OptionError
from trajcloak.quantities import show_moment
from trajcloak.query import PublishedRelease

COLOUR = "#009E73"


def need(name: str) -> Any:
    """Import a package; raises, with what to install, if it is not there."""
    try:
        return import_module(name)
    except ImportError as error:
        raise OptionError(
            f"{name} is not installed; expected it for plots and frames; install it with "
            f"pip install 'trajcloak[frames]'"
        ) from error


def plot_instant(release: PublishedRelease, instant: int, ax: Any = None) -> Any:
    """Draw the rectangles of an instant; returns the axes.

    A place is drawn the darker, the more rectangles hold it.
    """
    if ax is None:
        ax = need("matplotlib.pyplot").subplots(layout="constrained")[1]
    collections = need("matplotlib.collections")
    window = next(w for w in release.windows if w.start <= instant < w.stop)
    parts = window.find_parts(instant)
    x_min, y_min, x_max, y_max = window.rectangles[:, parts]
    corners = np.stack(
        [
            np.stack([x_min, x_max, x_max, x_min], axis=1),
            np.stack([y_min, y_min, y_max, y_max], axis=1),
        ],
        axis=2,
    )
    ax.add_collection(
        collections.PolyCollection(corners, facecolors=(COLOUR, 0.08), edgecolors=(COLOUR, 0.6))
    )
    ax.autoscale_view()
    ax.set_aspect("equal")
    moment = release.times.describe_instant(instant)
    when = show_moment(instant if moment is None else moment)
    users = int(window.sizes[parts].sum())
    ax.set_title(f"{users:,} users in {len(window.users):,} bundles, {when}")
    unit = " (m)" if release.manifest["crs"] else ""
    ax.set_xlabel(f"x{unit}")
    ax.set_ylabel(f"y{unit}")
    return ax
