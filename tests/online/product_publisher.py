"""The library behind the face of the slow twin, for tests that list all worlds."""

from online.streams import REGION, feed_lines, read
from reference.online import OnlinePublisher
from trajcloak.online import OnlineAnonymizer, OnlineOptions

NAME = "category"


class ProductPublisher(OnlinePublisher):
    """Publishes with the library, in the groups that it forms.

    What is published of an instant does not depend on what is sent at others, which
    :meth:`publish_world` lets a test check. So one run for each set of senders shows all worlds.
    """

    def __init__(self, reports, rules, kind=OnlineAnonymizer):
        super().__init__(reports, {}, rules)
        self._kind = kind
        self._length = 1 + max(time for _, time, _ in reports)
        self._known = {}
        _, self._members = self._run([[]] * self._length)

    def _run(self, world):
        """Run a stream; returns what is published, and who is left in which group."""
        rules = self.rules
        options = OnlineOptions(
            k=rules.k, every=rules.every, epoch=rules.epoch, one_input=rules.one_input,
            hold=rules.hold, rare_below=rules.rare_below, predictor="hold",
        )  # fmt: skip
        online = self._kind(options, REGION, [NAME, "detail"], origin=0, threads=1)
        published, members = [], []
        for instant, sent in enumerate(world):
            feed_lines(online, self._list_lines(instant, sent))
            published += [read(found) for found in online.advance(instant + 1)]
            members.append(list_left(online.list_members()))
        return published, members

    def _list_lines(self, instant, sent):
        values = {user: value for user, _, (value,) in sent}
        lines = [
            {"user_id": user, "time": instant, "x": place[0] + 0.5, "y": place[1] + 0.5}
            for (user, when), ((_, place),) in sorted(self.reports.items())
            if when == instant
        ]
        if self.rules.one_input:
            return [{**line, NAME: values.get(line["user_id"]), "detail": None} for line in lines]
        about = {"time": instant, "detail": None}
        return lines + [{"user_id": user, NAME: value, **about} for user, value in values.items()]

    def publish_world(self, world):
        """Publish all instants of a world; ``world`` has the requests of each."""
        return [
            {number: (cloak, users, frozenset((value,) for value, _ in requests))
             for number, (cloak, users, requests) in published.items()}
            for published in self._run(world)[0]
        ]  # fmt: skip

    def publish(self, requests, instant):
        """Publish an instant in which these requests are sent, the same at all instants."""
        senders = frozenset(requests and [user for user, _, _ in requests])
        if senders not in self._known:
            value = requests[0][2] if requests else None
            self._known[senders] = self.publish_world(
                [
                    [(user, i, value) for user in sorted(senders) if self._can_send(user, i)]
                    for i in range(self._length)
                ]
            )
        return self._known[senders][instant]

    def _can_send(self, user, instant):
        return not self.rules.one_input or self.find_report(user, instant) is not None

    def list_groups(self, instant):
        """List the members who are left of each group, as the library counts them."""
        return self._members[instant]


def list_left(members):
    """List groups by number; a group that is silent is empty."""
    groups = {}
    for row in members.to_pylist():
        groups.setdefault(row["bundle_id"], set()).add(row["user_id"])
    return [groups.get(number, set()) for number in range(max(groups, default=-1) + 1)]
