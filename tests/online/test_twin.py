"""The library against the slow twin, and what must not change what is published."""

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from online.streams import (
    NAMES,
    REGION,
    Stream,
    build_twin,
    publish,
    publish_at_once,
    read,
    read_all,
    streams,
)
from reference.online import list_suspects
from trajcloak.online import OnlineAnonymizer, OnlineOptions
from zoo import examples


@given(stream=streams())
@examples(60)
def test_publishes_what_the_twin_publishes(stream):
    run = publish(stream)
    twin = build_twin(stream, run)
    twin.check_groups()
    assert [p.instant for p in run.published] == list(
        range(max(0, len(stream.reports) - stream.options.lag))
    )
    for found in run.published:
        assert read(found) == twin.publish(stream.all_requests, found.instant)


@given(stream=streams(), seed=st.integers(0, 2**32 - 1))
@examples(30)
def test_order_of_lines_and_batches_do_not_matter(stream, seed):
    expected = read_all(publish(stream).published)
    assert read_all(publish(stream, np.random.default_rng(seed)).published) == expected
    if len(stream.reports) <= stream.options.epoch + stream.options.lag:
        assert read_all(publish_at_once(stream)) == expected


@given(stream=streams(), share=st.floats(0, 1))
@examples(30)
def test_nothing_published_depends_on_what_comes_later(stream, share):
    published = read_all(publish(stream).published)
    cut = stream.cut(1 + int(share * (len(stream.reports) - 1)))
    before = read_all(publish(cut).published)
    assert before == published[: len(before)]


@given(stream=streams(one_input=False), data=st.data())
@examples(40)
def test_two_inputs_a_request_may_be_anybodys_of_the_group(stream, data):
    run = publish(stream)
    twin = build_twin(stream, run)
    moved = [[*of_instant] for of_instant in stream.requests]
    for instant, of_instant in enumerate(moved[: len(run.published)]):
        for group in filter(None, twin.list_groups(instant)):
            for place, (user, time, values) in enumerate(of_instant):
                if user in group:
                    other = data.draw(st.sampled_from(sorted(group)))
                    of_instant[place] = (other, time, values)
    changed = replace(stream, requests=tuple(map(tuple, moved)))
    assert read_all(publish(changed).published) == read_all(run.published)


@given(stream=streams(one_input=True), data=st.data())
@examples(40)
def test_one_input_rows_of_a_group_may_swap_their_contents(stream, data):
    run = publish(stream)
    twin = build_twin(stream, run)
    moved = []
    for instant, of_instant in enumerate(stream.requests):
        sent = Counter(of_instant)
        contents = {(user, time): values for user, time, values in of_instant}
        kept = list(of_instant)
        if instant < len(run.published):
            for group in filter(None, twin.list_groups(instant)):
                rows = [(u, twin.find_report(u, instant)[0]) for u in sorted(group)]
                others = data.draw(st.permutations(rows))
                kept = [request for request in kept if request[:2] not in rows]
                kept += [
                    (*other, contents[row])
                    for row, other in zip(rows, others, strict=True)
                    if row in contents
                ]
        assert len(kept) == sum(sent.values())
        moved.append(tuple(kept))
    changed = replace(stream, requests=tuple(moved))
    assert read_all(publish(changed).published) == read_all(run.published)


@given(stream=streams())
@examples(40)
def test_an_epoch_leaves_k_present_members(stream):
    run = publish(stream)
    twin = build_twin(stream, run)
    epoch = stream.options.epoch
    for found in run.published:
        instants = range(found.instant - found.instant % epoch, found.instant + 1)
        for user in set().union(*twin.list_groups(found.instant)):
            assert len(list_suspects(twin, instants, user)) >= stream.options.k


@given(stream=streams())
@examples(20)
def test_parts_show_all_members(stream):
    stream = replace(stream, options=replace(stream.options, k=3))
    options = replace(stream.options, parts=2)
    run = publish(replace(stream, options=options))
    assert read_all(run.published) == read_all(publish(stream).published)
    twin = build_twin(stream, run)
    for found in run.published:
        groups = [group for group in twin.list_groups(found.instant) if group]
        first = found.parts.first
        assert (found.parts.sizes >= options.parts).all()
        for group, start, stop in zip(groups, first[:-1], first[1:], strict=True):
            assert found.parts.sizes[start:stop].sum() == len(group)
            boxes = found.parts.cloaks[start:stop].tolist()
            for user in group:
                x, y = twin.find_place(user, found.instant)
                assert any(a <= x < c and b <= y < d for a, b, c, d in boxes)


def test_drawn_streams_show_silence_and_absence():
    """The streams of these tests are not all alike."""
    seen: Counter[str] = Counter()

    @given(stream=streams())
    @settings(max_examples=150, deadline=None, database=None, derandomize=True)
    def look(stream: Stream) -> None:
        run = publish(stream)
        twin = build_twin(stream, run)
        for found in run.published:
            groups = twin.list_groups(found.instant)
            seen["silent"] += any(not group for group in groups)
            seen["published"] += any(groups)
            seen["requests"] += len(found.requests.kind) > 0
            before = [] if found.instant in run.groups else twin.list_groups(found.instant - 1)
            seen["absence"] += any(
                0 < len(now) < len(then) for now, then in zip(groups, before, strict=False)
            )

    look()
    assert {"silent", "published", "requests", "absence"} <= {name for name in seen if seen[name]}


def test_no_users_no_groups():
    online = OnlineAnonymizer(OnlineOptions(k=2, every=10, epoch=2), REGION, NAMES, origin=0)
    assert [read(p) for p in online.advance(50)] == [{}] * 5
