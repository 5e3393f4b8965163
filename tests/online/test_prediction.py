"""Predictors, and what they are told."""

import numpy as np
import pytest

from trajcloak.online.history import ABSENT, History, Recorder
from trajcloak.online.prediction import MOST_RINGS, PREDICTORS, Damped, Learned


def build_history(frames):
    recorder = Recorder(epoch=1, lag=0)
    for frame in frames:
        recorder.add(np.asarray(frame, np.int32))
    return recorder.look_back(len(frames[-1]))


def draw_history(random, users, instants):
    """Let users go up and down two streets, and turn where these cross."""
    place = np.column_stack([random.integers(0, 200, users), np.full(users, 100)])
    step = np.column_stack([random.choice([-6, 6], users), np.zeros(users, np.int64)])
    frames = []
    for _ in range(instants):
        place = place + step
        is_crossing = np.abs(place - 100).max(axis=1) < 3
        step = np.where(is_crossing[:, None], step[:, ::-1], step)
        step = np.where(
            (place < 6) | (place > 250), np.abs(step) * np.where(place < 6, 1, -1), step
        )
        frames.append(place.copy())
    return build_history(frames)


def test_hold_and_damped_by_hand():
    history = build_history([[[10, 10], [5, 5], [ABSENT, ABSENT]], [[20, 0], [5, 5], [7, 7]]])
    users = np.arange(3)
    assert PREDICTORS["hold"].predict(history, users, 2, 4).tolist() == [
        [[[20, 0], [20, 0]]],
        [[[5, 5], [5, 5]]],
        [[[7, 7], [7, 7]]],
    ]
    assert Damped().predict(history, users[[0, 2]], 2, 4).tolist() == [
        [[[28, -8], [34, -14]]],
        [[[7, 7], [7, 7]]],
    ]


def find_nearest_slowly(history, user, length, count):
    """List the movers nearest to a user, wherever they are, by distance."""
    frames, top = history
    now, before = frames[-1, user].astype(int), frames[-2, user].astype(int)
    movers = []
    for t in range(1, len(frames) - length):
        for u in range(frames.shape[1]):
            if (frames[t - 1 : t + length + 1, u] == ABSENT).any():
                continue
            by = [*(frames[t, u] - now), *(frames[t, u] - frames[t - 1, u] - now + before)]
            way = frames[t + 1 : t + length + 1, u] - frames[t, u]
            movers.append((sum(b * b for b in by) + (int(top[u]) - int(top[user])) ** 2, way))
    return sorted(movers, key=lambda mover: mover[0])[:count]


@pytest.mark.parametrize("seed", range(5))
def test_learned_follows_the_nearest_movers(seed):
    random = np.random.default_rng(seed)
    history = draw_history(random, 12, 9)
    gone = random.random(history.frames.shape[:2]) < 0.05
    gone[-2:] = False
    frames = np.where(gone[..., None], np.int32(ABSENT), history.frames)
    history = build_history(list(frames))
    length, count = 3, 4
    futures = Learned().predict(history, np.arange(12), length, count)
    for user in range(12):
        nearest = find_nearest_slowly(history, user, length, count)
        distances = [distance for distance, _ in nearest]
        if len(set(distances)) == count and distances[-1] < 20**2:
            ways = futures[user] - history.frames[-1, user]
            expected = sorted(way.tolist() for _, way in nearest)
            assert sorted(ways.tolist()) == expected


def test_learned_takes_the_mean_where_one_future_is_asked_for():
    history = draw_history(np.random.default_rng(0), 12, 9)
    ways = [w for _, w in find_nearest_slowly(history, 3, 2, 8)]
    [[future]] = Learned().predict(history, np.array([3]), 2, 1)
    assert np.abs(future - history.frames[-1, 3] - np.mean(ways, axis=0)).max() <= 0.5


def test_learned_knows_where_people_turn():
    history = draw_history(np.random.default_rng(1), 300, 40)
    seen = History(history.frames[:-4], history.top_speed)
    users = np.arange(300)
    errors = {
        name: np.abs(
            predictor.predict(seen, users, 4, 8) - history.frames[-4:].transpose(1, 0, 2)[:, None]
        ).mean()
        for name, predictor in PREDICTORS.items()
    }
    assert errors["learned"] < 0.5 * errors["damped"] < 0.5 * errors["hold"]


def test_where_nobody_has_been_learned_is_damped():
    far = 1 << 20
    still = [[[n, n] for n in range(500)] + [[far + t, far]] for t in range(4)]
    history = build_history(still)
    assert far >> MOST_RINGS > 500
    user = np.array([500])
    alone = Learned().predict(history, user, 5, 3)
    assert alone.tolist() == np.repeat(Damped().predict(history, user, 5, 1), 3, axis=1).tolist()


@pytest.mark.parametrize("name", PREDICTORS)
@pytest.mark.parametrize("threads", [1, 3])
def test_every_predictor_works_from_one_instant_on(name, threads):
    predictor = PREDICTORS[name]
    for instants in (1, 2, 3, 9):
        history = draw_history(np.random.default_rng(2), 40, instants)
        for num_futures in (1, 5):
            found = predictor.predict(history, np.arange(40), 4, num_futures, threads=threads)
            assert found.shape[0] == 40
            assert found.shape[1] in (1, num_futures)
            assert found.shape[2:] == (4, 2)
            again = predictor.predict(history, np.arange(40), 4, num_futures)
            assert (again == found).all()


def test_recorder_keeps_and_forgets():
    recorder = Recorder(epoch=2, lag=1)
    recorder.add(np.array([[0, 0], [5, 5]], np.int32))
    recorder.add(np.array([[3, 4], [ABSENT, ABSENT]], np.int32))
    recorder.add(np.array([[3, 4], [6, 5], [9, 9]], np.int32))
    history = recorder.look_back(4)
    assert history.frames[:, 2:].tolist() == [
        [[ABSENT] * 2] * 2,
        [[ABSENT] * 2] * 2,
        [[9, 9], [ABSENT] * 2],
    ]
    assert history.top_speed.tolist() == [5, 0, 0, 0]
    assert recorder.is_seen(4).tolist() == [True, True, True, False]
    recorder.renumber(np.array([2, 0]))
    assert recorder.get_frame(1, 2).tolist() == [[ABSENT, ABSENT], [3, 4]]
    assert recorder.look_back(2).top_speed.tolist() == [0, 5]


def test_memory_is_bounded_by_users(monkeypatch):
    monkeypatch.setattr("trajcloak.online.history.MOST_MOVEMENTS", 100)
    recorder = Recorder(epoch=3, lag=1)
    for _ in range(50):
        recorder.add(np.zeros((10, 2), np.int32))
    recorder.trim(10)
    assert len(recorder.look_back(10).frames) == 10 + 2
    recorder.trim(1000)
    assert len(recorder.look_back(1000).frames) == 1 + 2
