"""What attackers learn from a release: at least k suspects, unless they link windows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import trajcloak as tc
from guarantee.movable_logs import KINDS, ONE_LOG, draw_movable, write_log
from reference import attacks as naive
from runs import anonymize
from small_logs import UNIT_CELLS, new_folder, read_rows
from test_attackers import attack_rows, by_name, walk_rows
from trajcloak.attackers import ATTACKERS, attack_policies, attack_release
from trajcloak.attackers.candidate_sets import count_breaches
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns
from trajcloak.query import open_published
from trajcloak.replay import prepare_like_release
from zoo import examples


def publish_walks(folder, **options):
    """A log of walks with its release and policy file."""
    rows = walk_rows()
    anonymize(read_rows(rows), 3, threads=1, **UNIT_CELLS, **options).write(
        folder / "release", folder / "policy"
    )
    return rows, open_published(folder / "release")


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


@examples(120)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS))
def test_a_release_keeps_k_suspects_for_all_but_those_who_link(seed, kind):
    """And for those too, if it is to be safe against linking; all as the slow twin says."""
    drawn, requests = draw_movable(seed, kind)
    with new_folder() as folder:
        source, columns, request_log, *_ = write_log(drawn, requests, folder)
        log = read_in_memory(source, columns, request_log, threads=1)
        try:
            made = anonymize(log, drawn.k, threads=1, **drawn.options)
        except tc.TrajcloakError:
            assume(False)
        made.write(folder / "release", folder / "policy")
        release = open_published(folder / "release")
        found = attack_release(log, release, folder / "policy", threads=1)
        table = pq.read_table(folder / "release/requests.parquet").to_pylist()
        policy = pq.read_table(folder / "policy").to_pylist()
    ours = {f.attacker: f for f in found.findings if f.policy == made.manifest["algorithm"]}
    assert {f.requests for f in ours.values()} == {len(table)}
    safe = set(ATTACKERS) if drawn.options.get("link_safe") else set(ATTACKERS) - {"linking"}
    assert {name: ours[name].breaches for name in safe} == dict.fromkeys(safe, 0)

    users = log.users.to_pylist()
    grid = prepare_like_release(log, release, 1).layout.grid
    instants = ((log.time - grid.origin) // grid.every).tolist()
    rows = set(zip(log.user.tolist(), instants, strict=True))

    def can_send(user, instant):
        return kind != ONE_LOG or (user, instant) in rows

    bundles, shown = {}, {}
    for row in policy:
        of_window = bundles.setdefault(row["window"], [None] * len(users))
        of_window[users.index(row["user_id"])] = row["bundle_id"]
    for row in table:
        entry = row["bundle_id"], row["instant"], tuple(row.items())[3:]
        shown.setdefault(row["window"], []).append(entry)
    reporting, linked = [], []
    for window, entries in shown.items():
        reporting += [
            {user for user, b in enumerate(bundles[window]) if b == bundle and can_send(user, i)}
            for bundle, i, _ in entries
        ]
        suspects = naive.suspect_one_sender(bundles[window], entries, can_send)
        linked.append([(e[2], s) for e, s in zip(entries, suspects, strict=True)])
    for name, sets in (("report-aware", reporting), ("linking", naive.link_windows(linked))):
        sizes = np.array(list(map(len, sets)), np.int64)
        assert ours[name] == count_breaches(ours[name].policy, name, sizes, drawn.k)


PLACES_OF = ("cafe", "bank", "park", "pool", "bar", "zoo")


def personal_rows(num_users=48, num_windows=8):
    """Common values in combinations that two users have, who walk in company that changes."""
    rng = np.random.default_rng(137)
    pairs = [(a, b) for a in PLACES_OF for b in PLACES_OF][: num_users // 2]
    rows = []
    for window in range(num_windows):
        where = rng.permutation(num_users)
        for user in range(num_users):
            place, detail = pairs[user % len(pairs)]
            x, y = divmod(int(where[user]) // 4, 4)
            rows += [
                (f"u{user:02d}", instant, x * 3.0, y * 3.0, place, detail)
                for instant in (2 * window, 2 * window + 1)
            ]
    return pa.table(list(zip(*rows, strict=True)), ["user_id", "time", "x", "y", "place", "detail"])


@pytest.mark.parametrize("is_one_log", [True, False], ids=["one log", "two inputs"])
def test_personal_combinations_of_common_values(is_one_log):
    table = personal_rows()
    columns = LogColumns(requests=("place", "detail"))
    if is_one_log:
        log = read_in_memory(table, columns)
    else:
        places, sent = (table.select(names) for names in (range(4), [0, 1, 4, 5]))
        log = read_in_memory(places, columns, sent)
    options = {"length": 2, "threads": 1, **UNIT_CELLS}
    # Every single value is common: each has eight senders in every window.
    for name in columns.requests:
        counts = table[name].value_counts().field("counts").to_pylist()
        assert min(counts) >= 8 * 8 * 2
    linked = by_name(attack_policies(log, 3, **options))["traj-anon", "linking"]
    assert linked.identified > linked.requests / 2
    found = by_name(attack_policies(log, 3, link_safe=True, **options))
    for attacker in ATTACKERS:
        assert 0 < found["traj-anon", attacker].requests < linked.requests
        assert found["traj-anon", attacker].breaches == 0
