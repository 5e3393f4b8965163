"""What choices would give, measured before anything is published."""

import numpy as np
import pytest

import trajcloak as tc
from runs import anonymize
from small_logs import Row, draw_log, new_folder, read_rows
from trajcloak import plan
from trajcloak.drawn_questions import draw_count, draw_moves, find_followers
from trajcloak.options import Options
from trajcloak.pipeline import prepare
from trajcloak.plan import plan_rows
from trajcloak.query import open_published
from trajcloak.utility import measure_areas


def wander(num_users, length, seed=0, side=1000.0):
    """Users who walk at random; a third of them live close together."""
    rng = np.random.default_rng(seed)
    spread = np.where(np.arange(num_users) % 3, 1.0, 0.1)[:, None]
    home = side * (0.4 + spread * rng.uniform(-0.4, 0.4, (num_users, 2)))
    steps = rng.normal(0, side / 50, (length, num_users, 2))
    places = np.clip(home + np.cumsum(steps, axis=0), 0, side)
    return [
        Row(f"u{u}", t, *places[t, u].tolist()) for t in range(length) for u in range(num_users)
    ]


def write_release(log, folder, choice):
    made = anonymize(log, choice.k, length=choice.length, parts=choice.parts, effort="low")
    made.write(folder / "release", folder / "policy.parquet")
    return open_published(folder / "release")


@pytest.mark.needs_jit
@pytest.mark.slow
def test_a_plan_for_all_users_says_what_releases_give(monkeypatch):
    """The same areas, and the same answers to the same questions."""
    monkeypatch.setattr(plan, "QUERIES", 20)
    log = read_rows(wander(150, 7))
    found = plan_rows(log, k=12)
    assert (found.users, found.sampled, found.in_metres) == (150, 150, False)
    assert [(c.length, c.parts) for c in found.choices] == [
        (length, parts) for length in (1, 2, 7) for parts in (None, 10, 5)
    ]
    for choice in found.choices:
        assert (choice.k, choice.members, choice.users, choice.sets) == (12, 12, 0.0, 0.0)
        with new_folder() as folder:
            release = write_release(log, folder, choice)
            assert choice.area == pytest.approx(measure_areas(release).own)
            assert choice.count_error == pytest.approx(ask(log, release, choice, draw_count))
            if choice.length == 1:
                assert choice.move_error is None
            else:
                assert choice.move_error == pytest.approx(ask(log, release, choice, draw_moves))


def ask(log, release, choice, draw):
    """Ask a release the questions of a plan; returns their mean error."""
    prepared = prepare(log, Options(k=choice.k, length=choice.length), 1)
    region = prepared.layout.region
    windows = [w for w in prepared.windows() if draw is draw_count or w.stop - w.start > 1]
    rng = np.random.default_rng(0)
    errors = []
    for number in range(plan.QUERIES):
        window = windows[number % len(windows)]
        steps = draw(rng, window.cells, region.height)
        true = find_followers(window.cells, steps).sum()
        asked = [
            (tuple(float(region.edges(i % 2, np.array(e))) for i, e in enumerate(box)), instant)
            for box, instant in [(box, window.start + i) for box, i in steps]
        ]
        errors.append(abs(release.follow(asked).estimate - true) / max(true, 1))
    return np.mean(errors)


@pytest.mark.slow
@pytest.mark.needs_jit
def test_withheld_are_whom_and_what_a_release_withholds(monkeypatch):
    monkeypatch.setattr(plan, "SHARES", (1,))
    with_sets = with_users = 0
    for seed in range(60):
        drawn = draw_log(seed)
        log = read_rows(drawn.rows)
        options = {
            "every": str(drawn.options["every"] or 3),
            "max_gap": str(drawn.options["max_gap"] or 6),
            "length": drawn.options["length"],
        }
        (choice,) = plan_rows(log, k=2, **options).choices
        try:
            made = anonymize(log, 2, rows_alike=True, **options)
        except tc.NotEnoughUsersError:
            assert choice.users == 1.0 or choice.sets is None
            assert choice.area is choice.count_error is choice.move_error is None
            continue
        withheld = sum(made.figures["user_windows"].values())
        assert choice.users == pytest.approx(withheld / count_user_windows(log, options))
        withheld = made.manifest["withheld"]["sets"]
        assert choice.sets == pytest.approx(withheld / count_sets(made))
        with_users += choice.users > 0
        with_sets += 0 < choice.sets < 1
    assert with_sets >= 5
    assert with_users >= 5


def count_user_windows(log, options):
    """Count, over windows, the users with a row there."""
    windows = prepare(log, Options(k=2, **options), 1).windows()
    return sum(int(w.reported.sum()) + w.left_out_users for w in windows)


def count_sets(made):
    with new_folder() as folder:
        made.write(folder / "release")
        return sum(window.counts.size for window in open_published(folder / "release").windows)


@pytest.mark.slow
@pytest.mark.needs_jit
def test_a_sample_is_as_dense_as_the_log(monkeypatch):
    """Areas of neighbourhoods are those of the log; a thinned-out log has larger ones."""
    monkeypatch.setattr(plan, "SHARES", (1,))
    monkeypatch.setattr(plan, "PARTS", (5,))
    monkeypatch.setattr(plan, "QUERIES", 5)
    rows = wander(6000, 4)
    whole = plan_rows(read_rows(rows), k=10)
    assert whole.sampled == 6000
    monkeypatch.setattr(plan, "MOST_CELLS", 1500 * 4)
    sample = plan_rows(read_rows(rows), k=10)
    assert sample.sampled == 1500
    thin = plan_rows(read_rows([row for row in rows if int(row.user[1:]) % 4 == 0]), k=10)
    for of_whole, of_sample, of_thin in zip(
        whole.choices, sample.choices, thin.choices, strict=True
    ):
        assert 0.8 < of_sample.area / of_whole.area < 1.3
        assert of_thin.area / of_whole.area > 1.6


@pytest.mark.needs_jit
def test_without_k_some_are_tried(monkeypatch):
    monkeypatch.setattr(plan, "QUERIES", 5)
    found = plan_rows(read_rows(wander(60, 2)))
    assert [(c.length, c.k, c.parts, c.area is None) for c in found.choices] == [
        (length, k, parts, k == 100)
        for length in (1, 2)
        for k, parts in [(10, None), (50, None), (50, 10), (50, 5), (100, None)]
    ]
    assert {c.users for c in found.choices if c.k == 100} == {1.0}


def test_fewer_members_than_k_are_refused():
    with pytest.raises(tc.OptionError, match="members is 3 and k is 10"):
        plan_rows(read_rows(wander(20, 2)), k=10, members=3)


@pytest.mark.needs_jit
def test_more_members_than_k(monkeypatch):
    monkeypatch.setattr(plan, "QUERIES", 5)
    monkeypatch.setattr(plan, "PARTS", ())
    rows = [row for row in wander(200, 3) if (int(row.user[1:]) + row.time) % 5]
    log = read_rows(rows)
    few, many = (
        plan_rows(log, k=10, members=members, max_gap="2", length=3).choices[-1]
        for members in (None, 20)
    )
    assert (few.members, many.members) == (10, 20)
    assert many.sets < few.sets
    assert many.area > few.area
