"""The anonymizer with one rule broken, to see that somebody notices."""

import numpy as np

from trajcloak.online.anonymizer import NO_GROUP, OnlineAnonymizer
from trajcloak.online.history import ABSENT


class KeepsAbsent(OnlineAnonymizer):
    """Members who were absent count again when they are back."""

    def _publish(self, instant):
        is_start = instant % self._asked.epoch == 0
        before = self._group.copy()
        published = super()._publish(instant)
        if not is_start:
            is_back = (self._group == NO_GROUP) & (before != NO_GROUP)
            alive = np.isin(before, published.bundle_id)
            self._group[is_back & alive] = before[is_back & alive]
        return published


class NeverSilent(OnlineAnonymizer):
    """Groups with too few members left are published."""

    def _publish(self, instant):
        k = self._asked.k
        if instant % self._asked.epoch:
            object.__setattr__(self._asked, "k", 1)
        try:
            return super()._publish(instant)
        finally:
            object.__setattr__(self._asked, "k", k)


class ForgetsLag(OnlineAnonymizer):
    """Users who are known to leave while instants are waited for take part nevertheless."""

    def _form(self):
        frame = self._recorder.get_frame(0, self._users.count).copy()
        before = self._recorder.get_frame(self._asked.lag, self._users.count)
        kept = self._recorder._frames[-1]
        self._recorder._frames[-1] = np.where(frame == ABSENT, before, frame)
        try:
            return super()._form()
        finally:
            self._recorder._frames[-1] = kept
