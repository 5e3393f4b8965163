"""Stages of a run, each broken in one way: given the right function, each returns a wrong one."""

from dataclasses import replace

import numpy as np

import trajcloak as tc
from trajcloak.bundles import ShownKinds
from trajcloak.log.request_values import infer_types
from trajcloak.log.sharded_log import build_shard, describe


def add_rows_for_requests(original):
    """A request of a second input adds a row, near its user's first: it shapes the region."""

    def read(*args):
        log = original(*args)
        shard = build_shard(log.shards[0])
        if shard.is_one_log or not shard.num_requests:
            return log
        first = np.unique(shard.user, return_index=True)[1][shard.request_user]
        columns = {
            "user": np.append(shard.user, shard.request_user),
            "time": np.append(shard.time, shard.request_time),
            "x": np.append(shard.x, shard.x[first] + 0.25),
            "y": np.append(shard.y, shard.y[first]),
        }
        x, y, time = columns["x"], columns["y"], columns["time"]
        shaped = replace(
            shard,
            **columns,
            bounds=(x.min(), y.min(), x.max(), y.max()),
            time_range=(int(time.min()), int(time.max())),
            file_row=np.arange(len(time)),
        )
        return replace(log, shards=[[shaped]], facts=describe(shaped))

    return read


def withhold_without_a_report(original):
    """A request of a user who has no report in its instant is withheld."""

    def collect(log, grid, start, chosen, user):
        reported = set(zip(log.user.tolist(), (log.time // grid.every).tolist(), strict=True))
        sent = zip(
            log.request_user[chosen].tolist(),
            (log.request_time[chosen] // grid.every).tolist(),
            strict=True,
        )
        has_report = np.array([place in reported for place in sent], np.bool_)
        return original(log, grid, start, chosen[has_report], user)

    return collect


def count_senders(original):
    """A request is rare if it was sent seldom."""

    def decide(engine, ranges, found, kinds, asked, **more):
        for window in found:
            is_shown = np.ones(kinds.num_rows, np.bool_)
            is_shown[window.kind[window.sent < asked.rare_below]] = False
            window.keep(is_shown)
        return original(engine, ranges, found, kinds, replace(asked, rare="keep"), **more)

    return decide


def find_types_of_all_values(original):
    """Types of text come from all requests of the log."""

    def decide(engine, ranges, found, kinds, asked, *, is_text):
        if is_text and asked.rare != "other":
            kinds = infer_types(kinds)
        return original(engine, ranges, found, kinds, asked, is_text=False)

    return decide


def count_requests(original):
    """The manifest says how many requests the log has."""

    def build(facts, *rest):
        return {**original(facts, *rest), "sent": facts.num_requests}

    return build


def stop_at_odd_times(original):
    """The run stops if a request was sent at an odd second."""

    def lay_out(log, asked):
        if any((times % 2).any() for times in log.ask(lambda shard: shard.request_time)):
            raise tc.InputError("odd times")
        return original(log, asked)

    return lay_out


def all_sets(original):
    """All sets of written bundles are published, whoever has a row."""

    def find(*args):
        return np.ones_like(original(*args))

    return find


def leave_out_empty_columns(original):
    """Columns without any value in the log are left out."""

    def decide(engine, ranges, found, kinds, asked, **more):
        empty = [name for name in kinds.column_names if kinds[name].null_count == len(kinds)]
        decided = original(engine, ranges, found, kinds, asked, **more)
        left = [name for name in kinds.column_names if name not in empty[:1]]
        return decided._replace(kinds=decided.kinds.select(left))

    return decide


def refuse_any_value(original):
    """Values that are not shown decide about a refusal, too."""

    def check(log, ranges, kinds, allow):
        shown = ShownKinds(*[np.arange(kinds.num_rows, dtype=np.int32)] * 3)
        return original(log, [replace(r, shown=shown) for r in ranges], kinds, allow)

    return check


def refuse_values_of_one_user(original):
    """The run stops if each request was sent once."""

    def collect(unpublished):
        found = original(unpublished)
        if len(found.sent) > 1 and (found.sent == 1).all():
            raise tc.InputError("near-unique values")
        return found

    return collect
