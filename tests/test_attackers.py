"""What each class of attacker learns, against plain sets; and the paper's examples."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from reference import attacks as naive
from reference.tree import Cloak
from small_logs import COLUMNS, UNIT_CELLS, Row, read_rows, write_parquet
from trajcloak.algorithms import Policy, build_algorithm
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.attackers import ATTACKERS, Breach, Finding, attack, attack_release, study
from trajcloak.attackers.candidate_sets import (
    attack_bundles,
    attack_snapshots,
    build_sent,
    summarize,
)
from trajcloak.options import ALGORITHMS
from trajcloak.snapshot import BULK_DP, K_INSIDE, SNAPSHOT_POLICIES, Snapshot, solve_snapshot
from zoo import Example, as_trajectories, draw_examples, draw_walks, examples, needs_jit


def draw_sent(rng, n, length):
    """Requests of some users at some instants, several of some."""
    count = int(rng.integers(1, 2 * n))
    user = rng.integers(0, n, size=count).astype(np.int32)
    instant = rng.integers(0, length, size=count).astype(np.int32)
    return build_sent(user, instant, length)


def pairs_of(sent):
    return list(zip(sent.user.tolist(), sent.instant.tolist(), strict=True))


def as_cloaks(sequence):
    return [Cloak(x0, y0, x1 - x0, y1 - y0) for x0, y0, x1, y1 in sequence]


def check_candidates(actual, expected, pairs):
    assert list(actual) == list(ATTACKERS)
    for attacker in ATTACKERS:
        sizes = [len(expected[attacker][pair]) for pair in pairs]
        assert actual[attacker].tolist() == sizes, attacker


def solve_snapshots(example, policy):
    cells, height, k = example
    return [solve_snapshot(cells[:, i], height, k, policy) for i in range(cells.shape[1])]


def test_requests_of_a_user_at_an_instant_are_gathered():
    user = np.array([4, 0, 4, 4, 0], np.int32)
    instant = np.array([2, 1, 0, 2, 1], np.int32)
    sent = build_sent(user, instant, 3)
    assert pairs_of(sent) == [(0, 1), (4, 0), (4, 2)]
    assert sent.count.tolist() == [2, 1, 2]
    assert sent.first.tolist() == [0, 1, 3]


def test_no_requests():
    sent = build_sent(np.empty(0, np.int32), np.empty(0, np.int32), 3)
    assert sent.first.tolist() == [0]
    example = next(draw_examples(131, 1))
    for threads in (1, 2):
        found = attack_snapshots(solve_snapshots(example, BULK_DP), sent, threads)
        assert [found[attacker].tolist() for attacker in ATTACKERS] == [[]] * 4
    assert summarize("p", "a", found["tp-aware"], sent, 2) == Finding("p", "a", 0, 0, 0, 0)


@pytest.mark.parametrize("policy", SNAPSHOT_POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_snapshot_policies(policy, seed):
    rng = np.random.default_rng([132, seed])
    breached = dict.fromkeys(ATTACKERS, 0)
    for example in draw_examples([133, seed], 50, most=20):
        n, length = example.cells.shape[:2]
        sent = draw_sent(rng, n, length)
        snapshots = solve_snapshots(example, policy)
        policies = [
            [as_cloaks(s.cloaks[c].tolist())[0] for c in s.cloak.tolist()] for s in snapshots
        ]
        pairs = pairs_of(sent)
        expected = naive.attack_snapshots(as_trajectories(example.cells), policies, pairs)
        for threads in (1, 3):
            found = attack_snapshots(snapshots, sent, threads)
            check_candidates(found, expected, pairs)
        for attacker in ATTACKERS:
            breached[attacker] += found[attacker].min() < example.k
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
        sent = draw_sent(rng, n, length)
        policy = solver.solve(cells, height, k, cloak)
        pairs = pairs_of(sent)
        cloaks = [as_cloaks(sequence) for sequence in policy.cloaks.tolist()]
        expected = naive.attack_bundles(
            as_trajectories(cells), policy.bundle.tolist(), cloaks, pairs
        )
        found = attack_bundles(cells, policy, sent, threads=1)
        check_candidates(found, expected, pairs)
        assert all(found[attacker].min() >= k for attacker in ATTACKERS)
        assert np.array_equal(found["tp-aware"], attack_bundles(cells, policy, sent, 4)["tp-aware"])


@examples(80)
@given(
    number=st.integers(0, 2**32 - 1),
    algorithm=st.sampled_from(ALGORITHMS),
    cloak=st.sampled_from(["mbr", "quad"]),
)
def test_no_attacker_gets_below_k_on_bundles(number, algorithm, cloak):
    example = next(draw_examples(number, 1, most=25, most_k=6))
    cells, height, k = example
    n, length = cells.shape[:2]
    policy = build_algorithm(algorithm, seed=number).solve(cells, height, k, cloak)
    user, instant = np.divmod(np.arange(n * length, dtype=np.int32), np.int32(length))
    sent = build_sent(user, instant, length)
    for attacker, candidates in attack_bundles(cells, policy, sent, 1).items():
        finding = summarize(algorithm, attacker, candidates, sent, k)
        assert finding.requests == n * length
        assert (finding.breaches, finding.identified) == (0, 0)
        assert finding.smallest_candidate_set >= k


def test_a_bundle_below_k_is_a_breach():
    """The attackers judge what they are given."""
    cells = np.array([[[0, 0]], [[0, 0]], [[3, 3]]], np.uint32)
    cloaks = np.array([[[0, 0, 1, 1]], [[0, 0, 4, 4]]], np.uint32)
    sent = build_sent(np.array([0, 1, 2, 2], np.int32), np.zeros(4, np.int32), 1)
    found = attack_bundles(cells, Policy(np.array([0, 0, 1], np.int32), cloaks), sent, 1)
    assert found["policy-unaware"].tolist() == [2, 2, 3]
    assert found["policy-aware"].tolist() == [2, 2, 1]
    assert found["trajectory-aware"].tolist() == [2, 2, 3]
    assert found["tp-aware"].tolist() == [2, 2, 1]
    finding = summarize("hand-made", "tp-aware", found["tp-aware"], sent, 2)
    assert finding == Finding("hand-made", "tp-aware", 4, 2, 1, 2)


def test_suppressed_users_send_nothing_that_is_published():
    cells = np.concatenate([np.zeros((4, 2, 2)), np.full((1, 2, 2), 15)]).astype(np.uint32)
    policy = TrajAnon(suppress_above=8.0).solve(cells, 4, 2, "mbr")
    assert policy.bundle.tolist() == [0, 0, 0, 0, -1]
    sent = build_sent(np.array([0, 4], np.int32), np.array([1, 0], np.int32), 2)
    for sizes in attack_bundles(cells, policy, sent, 1).values():
        assert sizes.tolist() == [4, 5]


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


def test_example_2():
    """{1, 2, 3} and {1, 4, 5} have user 1 in common."""
    user, instant = np.array([0, 0], np.int32), np.array([0, 1], np.int32)
    found = attack_snapshots([P1, P2], build_sent(user, instant, 2), 1)
    assert found["policy-unaware"].tolist() == [3, 5]
    assert found["policy-aware"].tolist() == [3, 3]
    assert found["trajectory-aware"].tolist() == [3, 3]
    assert found["tp-aware"].tolist() == [1, 1]


def test_example_2_needs_both_requests_and_all_that_the_attacker_knows():
    for instant in (0, 1):
        sent = build_sent(np.array([0], np.int32), np.array([instant], np.int32), 2)
        assert attack_snapshots([P1, P2], sent, 1)["tp-aware"].tolist() == [3]
    everybody = np.repeat(np.arange(5, dtype=np.int32), 2)
    sent = build_sent(everybody, np.tile(np.array([0, 1], np.int32), 5), 2)
    found = attack_snapshots([P1, P2], sent, 1)
    assert found["tp-aware"].tolist() == [1, 1, 2, 2, 2, 2, 2, 2, 2, 2]
    assert summarize("P", "tp-aware", found["tp-aware"], sent, 2).identified == 2
    assert summarize("P", "policy-aware", found["policy-aware"], sent, 2).breaches == 0


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
        sent = build_sent(np.array([names.index(first)], np.int32), np.zeros(1, np.int32), 1)
        found = attack_snapshots([snapshot], sent, 1)
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
    return attack(read_rows(rows), k, **{"threads": 1, **UNIT_CELLS, **options})


def test_attack_on_a_log_counts_every_policy_and_attacker():
    rows = walk_rows()
    found = attack_rows(rows, algorithms=["traj-anon", "baseline"])
    assert [(f.policy, f.attacker) for f in found.findings] == [
        (policy, attacker)
        for policy in ("k-inside", "bulk-dp", "traj-anon", "baseline")
        for attacker in ATTACKERS
    ]
    num_requests = sum(row.request is not None for row in rows)
    assert {f.requests for f in found.findings} == {num_requests}
    findings = by_name(found)
    for policy in SNAPSHOT_POLICIES:
        tp_aware = findings[policy, "tp-aware"]
        assert 0 < tp_aware.identified <= tp_aware.breaches <= num_requests
        assert tp_aware.smallest_candidate_set == 1
    for policy in ("traj-anon", "baseline"):
        for attacker in ATTACKERS:
            assert findings[policy, attacker].breaches == 0
            assert findings[policy, attacker].smallest_candidate_set >= 3


def publish_walks(folder, **options):
    """A log of walks with its release and policy file."""
    rows = walk_rows()
    tc.anonymize(read_rows(rows), 3, threads=1, **UNIT_CELLS, **options).write(
        folder / "release", folder / "policy"
    )
    return rows, tc.open_release(folder / "release")


@pytest.mark.parametrize("options", [{}, {"length": 2}, {"length": 1}])
def test_a_release_gives_attackers_what_its_bundles_give_them(tmp_path, options):
    rows, release = publish_walks(tmp_path, algorithm="traj-anon", **options)
    found = attack_release(read_rows(rows), release, tmp_path / "policy", threads=1)
    assert found == attack_rows(rows, algorithms=["traj-anon"], **options)


def test_quad_cloaks_are_attacked_as_published(tmp_path):
    """They are larger than bounding boxes, and hold more users."""
    rows, release = publish_walks(tmp_path, algorithm="traj-anon", cloak="quad")
    quad = by_name(attack_release(read_rows(rows), release, tmp_path / "policy"))
    boxes = by_name(attack_rows(rows, algorithms=["traj-anon"]))
    key = ("traj-anon", "policy-unaware")
    assert quad[key].smallest_candidate_set >= boxes[key].smallest_candidate_set
    assert quad["traj-anon", "tp-aware"] == boxes["traj-anon", "tp-aware"]


def test_suppressed_users_are_no_breach(tmp_path):
    rows, release = publish_walks(tmp_path, algorithm="traj-anon", max_suppressed=0.2)
    assert release.manifest["suppressed"]
    found = by_name(attack_release(read_rows(rows), release, tmp_path / "policy"))
    assert found["traj-anon", "tp-aware"].breaches == 0


def test_a_small_bundle_is_a_breach(tmp_path):
    """What the policy file says counts, not what the release says of itself."""
    rows, release = publish_walks(tmp_path, algorithm="traj-anon")
    policy = pq.read_table(tmp_path / "policy")
    bundle = policy["bundle_id"].to_numpy().copy()
    first = np.flatnonzero(bundle == 0)
    bundle[first[1:]] = 1
    pq.write_table(policy.set_column(2, "bundle_id", [bundle]), tmp_path / "forged")
    found = by_name(attack_release(read_rows(rows), release, tmp_path / "forged"))
    assert found["traj-anon", "tp-aware"].smallest_candidate_set == 1


def test_a_release_of_another_log_is_refused(tmp_path):
    rows, release = publish_walks(tmp_path)
    with pytest.raises(tc.InputError, match="window 0 has other users"):
        attack_release(
            read_rows([r for r in rows if r.user != rows[0].user]), release, tmp_path / "policy"
        )


def recount(rows, k, start, stop):
    """The TP-aware attack on bulk-dp of a window, with plain sets."""
    users = sorted({row.user for row in rows})
    cells = np.zeros((len(users), stop - start, 2), np.uint32)
    requests = []
    for row in rows:
        if start <= row.time < stop:
            cells[users.index(row.user), row.time - start] = row.x, row.y
            if row.request is not None:
                requests.append((users.index(row.user), row.time - start))
    snapshots = solve_snapshots(Example(cells, 4, k), BULK_DP)
    policies = [[as_cloaks(s.cloaks[c].tolist())[0] for c in s.cloak] for s in snapshots]
    found = naive.attack_snapshots(as_trajectories(cells), policies, requests)["tp-aware"]
    return [len(found[request]) for request in requests]


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
    assert all(finding.smallest_candidate_set > 0 for finding in found.findings)
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


def test_without_request_columns_every_report_counts(tmp_path):
    file = write_parquet(tmp_path / "log.parquet", walk_rows())
    found = attack(tc.read_log(file), 3, threads=1, **UNIT_CELLS)
    assert {f.requests for f in found.findings} == {60 * 5}
    named = attack(tc.read_log(file, COLUMNS), 3, threads=1, **UNIT_CELLS)
    assert {f.requests for f in named.findings} != {60 * 5}


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
    with pytest.raises(tc.NotEnoughUsersError, match="no window has k = 61 users"):
        attack_rows(walk_rows(), k=61)


def test_windows_with_too_few_users_are_left_out():
    rows = walk_rows(length=4)
    rows = [row for row in rows if row.time < 2 or row.user < "secret-002"]
    found = attack_rows(rows, length=2)
    assert {f.requests for f in found.findings} == {
        sum(row.request is not None and row.time < 2 for row in rows)
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithms": ["best"]}, "algorithm 'best' is not known"),
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


def test_the_seed_reaches_the_algorithm(monkeypatch):
    built = []

    def build(name, **settings):
        built.append((name, settings))
        return build_algorithm(name, **settings)

    monkeypatch.setattr(study, "build_algorithm", build)
    attack_rows(walk_rows(), algorithms=["fast-clustering", "baseline"], seed=7)
    assert built == [("fast-clustering", {"seed": 7}), ("baseline", {"seed": 7})]


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


def test_a_finding_as_a_dictionary():
    assert Finding("p", "a", 5, 2, 1, 1).to_dict() == {
        "policy": "p",
        "attacker": "a",
        "requests": 5,
        "breaches": 2,
        "smallest_candidate_set": 1,
        "identified": 1,
    }
