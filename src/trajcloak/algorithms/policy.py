"""What every algorithm returns."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.cloaks import Cloaks, compute_areas


@dataclass(frozen=True)
class Policy:
    """Which trajectory is in which bundle, and the bundles' cloaks."""

    # (n,): bundle of each trajectory, numbered from 0; -1: suppressed.
    bundle: npt.NDArray[np.int32]
    cloaks: Cloaks  # (bundles, instants, 4): cells, as :data:`trajcloak.cloaks.Cloaks`.
    # (n, 1): the part of each trajectory in its bundle, from 0, if the algorithm made parts itself.
    part: npt.NDArray[np.int32] | None = None

    @property
    def num_bundles(self) -> int:
        """How many bundles there are."""
        return len(self.cloaks)

    @property
    def sizes(self) -> npt.NDArray[np.int32]:
        """Count the trajectories of each bundle: (bundles,) int32."""
        return np.bincount(self.bundle[self.bundle >= 0], minlength=self.num_bundles).astype(
            np.int32
        )

    @property
    def num_suppressed(self) -> int:
        """How many trajectories are in no bundle."""
        return int((self.bundle < 0).sum())

    def cost(self) -> float:
        """Sum, over trajectories, the areas of their cloaks, in cells."""
        return float((compute_areas(self.cloaks).sum(axis=1) * self.sizes).sum())
