"""What each class of attacker learns, against plain sets; and the paper's examples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from reference import attacks as naive
from reference.tree import Cloak
from small_logs import UNIT_CELLS, Row, publish, read_rows, write_parquet
from trajcloak.algorithms import Policy, build_algorithm
from trajcloak.attackers import ATTACKERS, Breach, Finding, attack_policies, study
from trajcloak.attackers.candidate_sets import (
    Shown,
    Suspects,
    attack_bundles,
    attack_snapshots,
    build_sent,
    count_breaches,
    link_windows,
)
from trajcloak.log import read_in_memory
from trajcloak.options import ALGORITHMS, Options
from trajcloak.pipeline import anonymize_log
from trajcloak.snapshot import BULK_DP, K_INSIDE, SNAPSHOT_POLICIES, Snapshot, solve_snapshot
from zoo import Example, as_trajectories, draw_examples, draw_walks, examples, needs_jit


def draw_sent(rng, n, length):
    """Requests of some users at some instants, several of some."""
    count = int(rng.integers(1, 2 * n))
    columns = [rng.integers(0, high, size=count).astype(np.int32) for high in (n, length, 3)]
    return build_sent(*columns)


def draw_rows(rng, n, length):
    """Who has a row at which instant: often everybody."""
    return rng.random((n, length)) < rng.choice([1.0, 0.8])


def know_rows(has_row):
    return lambda user, instant: has_row[user, instant]


def as_tuples(*columns):
    return list(zip(*(column.tolist() for column in columns), strict=True))


def build_requests(user, instant):
    """Requests that all say the same."""
    user, instant = np.array(user, np.int32), np.array(instant, np.int32)
    return build_sent(user, instant, np.zeros_like(user))


def as_cloaks(sequence):
    return [Cloak(x0, y0, x1 - x0, y1 - y0) for x0, y0, x1, y1 in sequence]


def check_candidates(actual, expected):
    assert list(actual) == list(expected) == list(ATTACKERS[:-1])
    for attacker, sizes in actual.items():
        assert sizes.tolist() == list(map(len, expected[attacker])), attacker


def list_suspects(suspects):
    """The suspects of each request, with what it says."""
    sets = [set(s.tolist()) for s in np.split(suspects.user, suspects.first[1:-1])]
    return [(int(suspects.kind[group]), sets[group]) for group in suspects.group]


def everybody(example):
    return np.ones(example.cells.shape[:2], np.bool_)


def solve_snapshots(example, policy):
    cells, height, k = example
    return [solve_snapshot(cells[:, i], height, k, policy) for i in range(cells.shape[1])]


def test_requests_are_sorted_by_sender_and_instant():
    user, instant = np.array([4, 0, 4, 4, 0], np.int32), np.array([2, 1, 0, 2, 1], np.int32)
    sent = build_sent(user, instant, np.arange(5, dtype=np.int32))
    assert as_tuples(sent.user, sent.instant, sent.kind) == [
        (0, 1, 1), (0, 1, 4), (4, 0, 2), (4, 2, 0), (4, 2, 3)
    ]  # fmt: skip
    assert sent.first.tolist() == [0, 2, 5]


def test_no_requests():
    sent = build_requests([], [])
    assert sent.first.tolist() == [0]
    example = next(draw_examples(131, 1))
    for threads in (1, 2):
        sizes, suspects = attack_snapshots(
            solve_snapshots(example, BULK_DP), sent, everybody(example), threads
        )
        assert [found.tolist() for found in sizes.values()] == [[]] * 5
        assert link_windows([suspects, suspects], len(example.cells)).tolist() == []
    assert count_breaches("p", "a", sizes["tp-aware"], 2) == Finding("p", "a", 0, 0, 0, 0)


@pytest.mark.parametrize("policy", SNAPSHOT_POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_snapshot_policies(policy, seed):
    rng = np.random.default_rng([132, seed])
    breached = dict.fromkeys(ATTACKERS, 0)
    for example in draw_examples([133, seed], 50, most=20):
        n, length = example.cells.shape[:2]
        sent, has_row = draw_sent(rng, n, length), draw_rows(rng, n, length)
        snapshots = solve_snapshots(example, policy)
        policies = [
            [as_cloaks(s.cloaks[c].tolist())[0] for c in s.cloak.tolist()] for s in snapshots
        ]
        requests = as_tuples(sent.user, sent.instant, sent.kind)
        expected = naive.attack_snapshots(
            as_trajectories(example.cells), policies, requests, know_rows(has_row)
        )
        for threads in (1, 3):
            found, suspects = attack_snapshots(snapshots, sent, has_row, threads)
            check_candidates(found, expected)
            assert list_suspects(suspects) == [
                (what, possible)
                for (*_, what), possible in zip(requests, expected["report-aware"], strict=True)
            ]
        for attacker, sizes in found.items():
            breached[attacker] += sizes.min() < example.k
    # Both are safe against those they are made for, and fall to those who know trajectories.
    assert breached["policy-unaware"] == 0
    assert (breached["policy-aware"] > 0) == (policy == K_INSIDE)
    assert breached["trajectory-aware"] > 0
    assert breached["tp-aware"] > 0


@pytest.mark.parametrize("cloak", ["mbr", "quad"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_bundles(algorithm, cloak):
    rng = np.random.default_rng(134)
    solver = build_algorithm(algorithm)
    for example in draw_examples(135, 100, most=12):
        cells, height, k = example
        n, length = cells.shape[:2]
        sent, has_row = draw_sent(rng, n, length), draw_rows(rng, n, length)
        policy = solver.solve(cells, height, k, cloak)
        bundles = policy.bundle.tolist()
        shown = Shown(policy.bundle[sent.user], sent.instant, sent.kind)
        entries = as_tuples(shown.bundle, shown.instant, shown.kind)
        can_send = know_rows(has_row)
        expected = naive.attack_bundles(
            as_trajectories(cells),
            bundles,
            [as_cloaks(sequence) for sequence in policy.cloaks.tolist()],
            entries,
            can_send,
        )
        for threads in (1, 4):
            found, suspects = attack_bundles(cells, policy, shown, has_row, threads)
            check_candidates(found, expected)
            one_sender = naive.suspect_one_sender(bundles, entries, can_send)
            assert list_suspects(suspects) == [
                (what, possible) for (*_, what), possible in zip(entries, one_sender, strict=True)
            ]
        assert all(found[attacker].min() >= k for attacker in ATTACKERS[:4])


@examples(80)
@given(
    number=st.integers(0, 2**32 - 1),
    algorithm=st.sampled_from(ALGORITHMS),
    cloak=st.sampled_from(["mbr", "quad"]),
)
def test_no_attacker_gets_below_k_where_everybody_reports(number, algorithm, cloak):
    example = next(draw_examples(number, 1, most=25, most_k=6))
    cells, height, k = example
    policy = build_algorithm(algorithm, seed=number).solve(cells, height, k, cloak)
    sets = np.indices((policy.num_bundles, cells.shape[1])).reshape(2, -1).astype(np.int32)
    shown = Shown(*sets, np.zeros(sets.shape[1], np.int32))
    sizes, suspects = attack_bundles(cells, policy, shown, everybody(example), 1)
    sizes["linking"] = link_windows([suspects], len(cells))
    for attacker, candidates in sizes.items():
        finding = count_breaches(algorithm, attacker, candidates, k)
        assert finding.requests == sets.shape[1]
        assert (finding.breaches, finding.identified) == (0, 0)
        assert finding.smallest_candidate_set >= k


@examples(200)
@given(st.data())
def test_equal_requests_over_windows(data):
    num_users = data.draw(st.integers(1, 6))
    users = st.sets(st.integers(0, num_users - 1))
    windows = [
        [
            (kind, members)
            for kind in range(data.draw(st.integers(0, 3)))
            for members in data.draw(st.lists(users, max_size=3))
        ]
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    given_windows = [
        Suspects(
            np.arange(len(window)),
            np.array([kind for kind, _ in window], np.int32),
            np.cumsum([0, *(len(members) for _, members in window)]),
            np.array([user for _, members in window for user in sorted(members)], np.int32),
        )
        for window in windows
    ]
    expected = list(map(len, naive.link_windows(windows)))
    assert link_windows(given_windows, num_users).tolist() == expected


def test_a_bundle_below_k_is_a_breach():
    """The attackers judge what they are given."""
    cells = np.array([[[0, 0]], [[0, 0]], [[3, 3]]], np.uint32)
    cloaks = np.array([[[0, 0, 1, 1]], [[0, 0, 4, 4]]], np.uint32)
    policy = Policy(np.array([0, 0, 1], np.int32), cloaks)
    shown = Shown(
        np.array([0, 1, 1], np.int32), np.zeros(3, np.int32), np.arange(3, dtype=np.int32)
    )
    has_row = np.array([[True], [False], [True]])
    found, _ = attack_bundles(cells, policy, shown, has_row, 1)
    assert found["policy-unaware"].tolist() == [2, 3, 3]
    assert found["policy-aware"].tolist() == [2, 1, 1]
    assert found["trajectory-aware"].tolist() == [2, 3, 3]
    assert found["tp-aware"].tolist() == [2, 1, 1]
    assert found["report-aware"].tolist() == [1, 1, 1]
    finding = count_breaches("hand-made", "tp-aware", found["tp-aware"], 2)
    assert finding == Finding("hand-made", "tp-aware", 3, 2, 1, 2)


# Users 1 to 5 of Example 1 are 0 to 4 here. R2 holds the first three at the first instant, R4
# the second and the third at the second instant, and R3 everybody.
P1 = Snapshot(
    cloak=np.array([0, 0, 0, 1, 1], np.int32),
    cloaks=np.array([[[0, 0, 2, 2]], [[0, 0, 4, 4]]], np.uint32),
    order=np.array([0, 1, 2, 3, 4], np.int32),
    start=np.array([0, 0], np.int32),
    stop=np.array([3, 5], np.int32),
)
P2 = Snapshot(
    cloak=np.array([1, 0, 0, 1, 1], np.int32),
    cloaks=np.array([[[1, 1, 2, 2]], [[0, 0, 4, 4]]], np.uint32),
    order=np.array([1, 2, 0, 3, 4], np.int32),
    start=np.array([0, 0], np.int32),
    stop=np.array([2, 5], np.int32),
)


ALL_OF_THEM = np.ones((5, 2), np.bool_)


def test_example_2():
    """{1, 2, 3} and {1, 4, 5} have user 1 in common."""
    found, _ = attack_snapshots([P1, P2], build_requests([0, 0], [0, 1]), ALL_OF_THEM, 1)
    assert found["policy-unaware"].tolist() == [3, 5]
    assert found["policy-aware"].tolist() == [3, 3]
    assert found["trajectory-aware"].tolist() == [3, 3]
    assert found["tp-aware"].tolist() == [1, 1]


def test_example_2_needs_both_requests_and_all_that_the_attacker_knows():
    for instant in (0, 1):
        sent = build_requests([0], [instant])
        assert attack_snapshots([P1, P2], sent, ALL_OF_THEM, 1)[0]["tp-aware"].tolist() == [3]
    sent = build_requests(np.repeat(np.arange(5), 2), np.tile([0, 1], 5))
    found, _ = attack_snapshots([P1, P2], sent, ALL_OF_THEM, 1)
    assert found["tp-aware"].tolist() == [1, 1, 2, 2, 2, 2, 2, 2, 2, 2]
    assert count_breaches("P", "tp-aware", found["tp-aware"], 2).identified == 2
    assert count_breaches("P", "policy-aware", found["policy-aware"], 2).breaches == 0


def test_who_has_no_row_is_no_suspect():
    has_row = ALL_OF_THEM.copy()
    has_row[1, 0] = False
    found, _ = attack_snapshots([P1, P2], build_requests([0, 1], [0, 1]), has_row, 1)
    assert found["tp-aware"].tolist() == [3, 2]
    assert found["report-aware"].tolist() == [2, 2]


# Figure 15: three users on a line, B nearer to A than to C.
PLACES = {"A": 0, "B": 1, "C": 3}


def share(first):
    """Cloak the first who asks together with the nearest other user: 2-sharing."""
    partner = min(
        (user for user in PLACES if user != first), key=lambda u: abs(PLACES[u] - PLACES[first])
    )
    return frozenset([first, partner])


def test_example_11():
    """Groups depend on who asks first, so the group {B, C} gives C away."""
    assert share("C") == {"B", "C"}
    assert share("B") == share("A") == {"A", "B"}
    names = sorted(PLACES)
    groups = sorted(set(map(share, names)), key=sorted)
    snapshot = Snapshot(
        cloak=np.array([groups.index(share(name)) for name in names], np.int32),
        cloaks=np.array(
            [[[min(PLACES[u] for u in g), 0, max(PLACES[u] for u in g) + 1, 1]] for g in groups],
            np.uint32,
        ),
        order=np.arange(3, dtype=np.int32),
        start=np.array([min(map(names.index, group)) for group in groups], np.int32),
        stop=np.array([max(map(names.index, group)) + 1 for group in groups], np.int32),
    )
    for first, policy_aware in (("A", 2), ("B", 2), ("C", 1)):
        sent = build_requests([names.index(first)], [0])
        found, _ = attack_snapshots([snapshot], sent, ALL_OF_THEM[:3], 1)
        # Two users are inside each cloak, but only those who would get it are suspects.
        assert found["policy-unaware"].tolist() == [2]
        assert found["policy-aware"].tolist() == [policy_aware]
    assert [name for name in names if share(name) == {"B", "C"}] == ["C"]


def walk_rows(num_users=60, length=5, share_of_requests=0.5, seed=136):
    rng = np.random.default_rng(seed)
    rows = []
    for user, trajectory in enumerate(draw_walks(rng, num_users, length, 4).tolist()):
        for instant, (x, y) in enumerate(trajectory):
            what = "r" if rng.random() < share_of_requests else None
            rows.append(Row(f"secret-{user:03d}", instant, x, y, what))
    return rows


def by_name(found):
    return {(f.policy, f.attacker): f for f in found.findings}


def attack_rows(rows, k=3, **options):
    return attack_policies(read_rows(rows), k, **{"threads": 1, **UNIT_CELLS, **options})


def test_attack_on_a_log_counts_every_policy_and_attacker():
    rows = walk_rows()
    found = attack_rows(rows, algorithms=["traj-anon", "baseline"])
    assert [(f.policy, f.attacker) for f in found.findings] == [
        (policy, attacker)
        for policy in ("k-inside", "bulk-dp", "traj-anon", "baseline")
        for attacker in ATTACKERS
    ]
    num_requests = sum(row.request is not None for row in rows)
    findings = by_name(found)
    for policy in SNAPSHOT_POLICIES:
        assert {findings[policy, attacker].requests for attacker in ATTACKERS} == {num_requests}
        tp_aware = findings[policy, "tp-aware"]
        assert 0 < tp_aware.identified <= tp_aware.breaches <= num_requests
        assert tp_aware.smallest_candidate_set == 1
    for policy in ("traj-anon", "baseline"):
        shown = publish(read_rows(rows), 3, algorithm=policy, **UNIT_CELLS).requests.num_rows
        for attacker in ATTACKERS:
            assert findings[policy, attacker].requests == shown > 0
            assert findings[policy, attacker].breaches == 0
            assert findings[policy, attacker].smallest_candidate_set >= 3


def recount(rows, k, start, stop):
    """The TP-aware attack on bulk-dp of a window, with plain sets."""
    users = sorted({row.user for row in rows})
    cells = np.zeros((len(users), stop - start, 2), np.uint32)
    requests = []
    for row in rows:
        if start <= row.time < stop:
            cells[users.index(row.user), row.time - start] = row.x, row.y
            if row.request is not None:
                requests.append((users.index(row.user), row.time - start, row.request))
    snapshots = solve_snapshots(Example(cells, 4, k), BULK_DP)
    policies = [[as_cloaks(s.cloaks[c].tolist())[0] for c in s.cloak] for s in snapshots]
    everybody_reports = know_rows(np.ones(cells.shape[:2], np.bool_))
    found = naive.attack_snapshots(as_trajectories(cells), policies, requests, everybody_reports)
    return list(map(len, found["tp-aware"]))


@pytest.mark.parametrize("length", [5, 2, 1])
def test_windows_are_added_up(length):
    rows = walk_rows()
    finding = by_name(attack_rows(rows, length=length))["bulk-dp", "tp-aware"]
    sizes = [
        size
        for start in range(0, 5, length)
        for size in recount(rows, 3, start, min(start + length, 5))
    ]
    assert finding.requests == len(sizes)
    assert finding.breaches == sum(size < 3 for size in sizes)
    assert finding.identified == sum(size == 1 for size in sizes)
    assert finding.smallest_candidate_set == min(sizes)


def test_a_window_without_requests_has_no_smallest_candidate_set():
    rows = [row._replace(request=row.request if row.time < 2 else None) for row in walk_rows()]
    found = attack_rows(rows, length=1)
    alone = [finding for finding in found.findings if finding.attacker != "linking"]
    assert all(finding.smallest_candidate_set > 0 for finding in alone)
    nothing = attack_rows([row._replace(request=None) for row in rows])
    assert {(f.requests, f.breaches, f.smallest_candidate_set) for f in nothing.findings} == {
        (0, 0, 0)
    }
    assert nothing.breach is None


def test_several_requests_of_a_user_at_an_instant_all_count():
    rows = walk_rows(share_of_requests=0.3)
    more = [row._replace(request=f"r{i}") for row in rows if row.request for i in range(2)]
    once, thrice = attack_rows(rows), attack_rows([*rows, *more])
    for before, after in zip(once.findings, thrice.findings, strict=True):
        assert after.requests == 3 * before.requests
        assert after.breaches == 3 * before.breaches
        assert after.identified == 3 * before.identified
        assert after.smallest_candidate_set == before.smallest_candidate_set


def test_without_request_columns_every_row_counts(tmp_path):
    rows = [row for row in walk_rows() if row.time != 3 or row.user > "secret-005"]
    file = write_parquet(tmp_path / "log.parquet", rows)
    found = by_name(attack_policies(read_in_memory(file), 3, threads=1, length=1, **UNIT_CELLS))
    assert {found[p, a].requests for p in SNAPSHOT_POLICIES for a in ATTACKERS} == {len(rows)}
    shown = found["traj-anon", "report-aware"]
    assert shown.requests > 60
    assert shown.breaches == 0


def test_the_breach_is_told_step_by_step():
    rows = walk_rows()
    breach = attack_rows(rows, algorithms=["slow-clustering", "traj-anon"]).breach
    assert (breach.policy, breach.attacker) == ("bulk-dp", "tp-aware")
    assert breach.bundle_algorithm == "slow-clustering"
    assert breach.bundle_candidates >= 3
    assert breach.steps[-1].left == min(recount(rows, 3, 0, 5)) == 1
    assert breach.steps[0].left == breach.steps[0].fitting
    instants = [step.instant for step in breach.steps]
    assert instants == sorted(set(instants))
    left = [step.left for step in breach.steps]
    assert left == sorted(left, reverse=True)
    for step in breach.steps:
        # Each snapshot on its own keeps what it promises.
        assert step.left <= step.fitting
        assert step.fitting >= 3
    # Nothing in it names anybody.
    assert "secret" not in repr(breach)


def test_the_breach_of_a_later_window_has_its_own_instants():
    rows = walk_rows(length=6)
    rows = [row._replace(request=None if row.time < 3 else "r") for row in rows]
    breach = attack_rows(rows, length=3).breach
    assert isinstance(breach, Breach)
    assert [step.instant for step in breach.steps] == [3, 4, 5]


def test_no_breach_where_nobody_moves():
    rows = [Row(f"u{u}", t, u // 3, 0, "r") for u in range(12) for t in range(4)]
    found = attack_rows(rows)
    assert found.breach is None
    assert {f.breaches for f in found.findings} == {0}


def test_too_few_users():
    with pytest.raises(tc.NotEnoughUsersError, match="the log has 60 users; expected at least 61"):
        attack_rows(walk_rows(), k=61)


def test_windows_with_too_few_users_are_left_out():
    rows = walk_rows(length=4)
    rows = [row for row in rows if row.time < 2 or row.user < "secret-002"]
    found = by_name(attack_rows(rows, length=2))
    num_requests = sum(row.request is not None and row.time < 2 for row in rows)
    for policy in SNAPSHOT_POLICIES:
        assert {found[policy, attacker].requests for attacker in ATTACKERS} == {num_requests}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithms": ["best"]}, "algorithm is 'best'; expected one of"),
        ({"algorithms": []}, "no algorithm is named"),
        ({"k": 1}, "k is 1; expected a whole number of at least 2"),
        ({"seed": -1, "algorithms": ["fast-clustering"]}, "seed is -1"),
        ({"height": 99, "region": None}, "height is 99"),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value),
)
def test_bad_options(options, message):
    with pytest.raises(tc.OptionError, match=message):
        attack_rows(walk_rows(), **options)


def test_what_is_attacked_is_made_with_all_options(monkeypatch):
    made = []

    def anonymize(log, asked, *, threads, progress):
        made.append(asked)
        return anonymize_log(log, asked, threads=threads)

    monkeypatch.setattr(study, "anonymize_log", anonymize)
    options = {"seed": 7, "members": 7, "rare_below": 3, **UNIT_CELLS}
    attack_rows(walk_rows(), algorithms=["fast-clustering", "baseline"], **options)
    assert made == [
        Options(k=3, algorithm=name, rows_alike=True, **options)
        for name in ("fast-clustering", "baseline")
    ]


@needs_jit
def test_threads_change_nothing():
    rows = walk_rows(num_users=300)
    assert attack_rows(rows, threads=1) == attack_rows(rows, threads=3)


def test_progress_ends_where_it_should():
    calls = []
    attack_rows(walk_rows(), progress=lambda *call: calls.append(call))
    stages = {stage: (done, total) for stage, done, total in calls}
    assert stages["attacking"] == (3, 3)
    assert all(done == total for done, total in stages.values())
