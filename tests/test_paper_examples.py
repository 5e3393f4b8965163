"""The paper's Examples 1 to 8 and 10.

Figures 1, 2 and 4 to 6 are not in the text, so their coordinates are chosen here,
consistently with all that the examples say of them:

- Integer coordinates name unit squares, counted from 1. (x, y) lies in the closed
  square from (x - 1, y - 1) to (x, y); the region is 4 by 4.
- R3 is the whole region, R2 its lower left quadrant, and R4 the unit square of
  (2, 2), inside R2. All three are quadrants of the region.
- Users 1 to 5 of Example 1 are Alice, Bob, Carrol, Sam and Tom of Example 3.

Definition 1 asks that V_i is in s_i. Example 5 (b3 masks Bob, who sends nothing at
instant 2) shows that "no request" asks for nothing, and so it is read here.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reference.k_summing import solve
from reference.partitions import best_partition
from reference.tree import Cloak, all_child_cloaks, build_tree
from runs import anonymize
from trajcloak.auditor import audit_files
from trajcloak.bundles import Bundles, count_shown
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns
from trajcloak.release.manifest import add_up
from trajcloak.release.published_rows import place_box
from trajcloak.release.result import BundleRange

HEIGHT = 2


class History(NamedTuple):
    user: str
    locations: tuple
    requests: tuple  # None: no request


class Bundle(NamedTuple):
    number: int
    cloaks: tuple
    requests: tuple  # one set for each instant


# Example 3
ALICE = History("id_a", ((1, 2), (1, 3)), ("v1", "v2"))
BOB = History("id_b", ((1, 2), (2, 2)), ("v3", None))
CARROL = History("id_c", ((2, 2), (2, 2)), (None, "v4"))
SAM = History("id_s", ((2, 1), (4, 4)), ("v5", None))
TOM = History("id_t", ((3, 3), (3, 3)), (None, "v6"))
HISTORIES = (ALICE, BOB, CARROL, SAM, TOM)

# Figures 1 and 2, in cells counted from 0
R2 = Cloak(0, 0, 2, 2)
R3 = Cloak(0, 0, 4, 4)
R4 = Cloak(1, 1, 1, 1)

# Table 1
P1 = {1: R2, 2: R2, 3: R2, 4: R3, 5: R3}
P2 = {1: R3, 2: R4, 3: R4, 4: R3, 5: R3}

# Example 4
B1 = Bundle(1, (R2, R3), ({"v1", "v3", "v5"}, {"v2", "v4"}))
B2 = Bundle(2, (R3, R3), ({"v1", "v3", "v5"}, {"v2", "v4", "v6"}))
B3 = Bundle(3, (R2, R4), ({"v3"}, {"v4"}))
B4 = Bundle(4, (R3, R4), ({"v3"}, {"v4"}))

# Examples 6 and 8
P3 = {"id_a": B1, "id_b": B3, "id_c": B3, "id_s": B1, "id_t": B2}
P4 = {"id_a": B2, "id_b": B3, "id_c": B3, "id_s": B2, "id_t": B2}


def is_inside(location, cloak):
    x, y = location[0] - 1, location[1] - 1
    return cloak.x0 <= x < cloak.x0 + cloak.width and cloak.y0 <= y < cloak.y0 + cloak.height


def is_masked(history, bundle):
    """Definition 1."""
    return all(
        is_inside(location, cloak) and (request is None or request in requests)
        for location, request, cloak, requests in zip(
            history.locations, history.requests, bundle.cloaks, bundle.requests, strict=True
        )
    )


def masked_users(bundle):
    return {history.user for history in HISTORIES if is_masked(history, bundle)}


def inverse_image(policy, value):
    return {user for user, chosen in policy.items() if chosen == value}


def smallest_inverse_image(policy):
    return min(len(inverse_image(policy, value)) for value in policy.values())


def cells_of(history):
    return [(x - 1, y - 1) for x, y in history.locations]


def write_log(path):
    """Write the histories of Example 3 as a log; locations are the squares' centres."""
    lines = ["user_id,time,x,y,request"]
    for history in HISTORIES:
        for instant, ((x, y), request) in enumerate(
            zip(history.locations, history.requests, strict=True), start=1
        ):
            lines.append(f"{history.user},{instant},{x - 0.5},{y - 0.5},{request or ''}")
    path.write_text("\n".join(lines) + "\n")


def anonymize_example_3(folder, **options):
    """Anonymize the log with k = 2 on the 4 by 4 region of the examples."""
    write_log(folder / "log.csv")
    log = read_in_memory(folder / "log.csv", LogColumns(requests=("request",)))
    return anonymize(log, k=2, rare="keep", region=(0.0, 0.0, 4.0), height=HEIGHT, **options)


def read_published(folder):
    """Read a release and its policy file: a policy as in Example 6."""
    cloaks, requests = {}, {}
    for row in pq.read_table(folder / "release" / "bundles.parquet").to_pylist():
        corners = (row["x_min"], row["y_min"], row["x_max"], row["y_max"])
        assert all(corner == int(corner) for corner in corners)
        x0, y0, x1, y1 = map(int, corners)
        cloaks.setdefault(row["bundle_id"], []).append(Cloak(x0, y0, x1 - x0, y1 - y0))
        requests.setdefault(row["bundle_id"], []).append(set())
    for row in pq.read_table(folder / "release" / "requests.parquet").to_pylist():
        requests[row["bundle_id"]][row["instant"]].add(row["request"])
    bundles = {
        number: Bundle(number, tuple(cloaks[number]), tuple(requests[number])) for number in cloaks
    }
    policy = pq.read_table(folder / "policy.parquet").to_pylist()
    return {row["user_id"]: bundles[row["bundle_id"]] for row in policy}


def publish(folder, policy):
    """Write a policy of the examples as a release and a policy file, and audit them.

    The sets of requests hold what the bundle's members sent, no more: those of
    Example 4 also hold requests of others, which masking allows but a release does not.
    """
    result = anonymize_example_3(folder, cloak="quad")
    cloaks = sorted(
        {bundle.cloaks for bundle in policy.values()},
        key=lambda cloaks: [(c.x0, c.y0, c.x0 + c.width, c.y0 + c.height) for c in cloaks],
    )
    number = {user: cloaks.index(bundle.cloaks) for user, bundle in policy.items()}
    sizes = [list(number.values()).count(b) for b in range(len(cloaks))]
    areas = [[c.width * c.height for c in sequence] for sequence in cloaks]
    kinds = result.kinds["request"].to_pylist()
    sent = sorted(
        (number[history.user], instant, kinds.index(request))
        for history in HISTORIES
        for instant, request in enumerate(history.requests)
        if request is not None
    )
    bundles = Bundles(
        window=0,
        start=0,
        stop=2,
        cloaks=np.array(
            [[(c.x0, c.y0, c.x0 + c.width, c.y0 + c.height) for c in q] for q in cloaks], np.uint32
        ),
        sizes=np.array(sizes, np.int32),
        request_bundle=np.array([row[0] for row in sent], np.int32),
        request_instant=np.array([row[1] for row in sent], np.int32),
        request_kind=np.array([row[2] for row in sent], np.int32),
        ids=pa.array(sorted(number, key=lambda user: (number[user], user))),
    )
    manifest = result.manifest | {
        "bundles": len(cloaks),
        "smallest_bundle": min(sizes),
        "cost": float(sum(size * sum(area) for size, area in zip(sizes, areas, strict=True))),
        "mean_cloak_area": float(np.mean(areas)),
        "requests": len(sent),
    }
    totals = add_up(bundles, result._head.region)
    ranges = [BundleRange([bundles], 0, 2, totals, count_shown(bundles))]
    box = place_box(result._head.region, totals.low, totals.high)
    head = replace(result._head, box=box)
    release = replace(result, manifest=manifest, _head=head, _ranges=ranges)
    release.write(folder / "release", folder / "policy.parquet")
    columns = LogColumns(requests=("request",))
    return audit_files(folder / "log.csv", folder / "release", folder / "policy.parquet", columns)


def test_example_1_snapshot_policies_are_policy_aware_2_anonymous():
    for instant, policy in ((0, P1), (1, P2)):
        for user, cloak in policy.items():
            assert is_inside(HISTORIES[user - 1].locations[instant], cloak)
        assert smallest_inverse_image(policy) >= 2
    assert inverse_image(P1, R2) == {1, 2, 3}
    assert inverse_image(P2, R3) == {1, 4, 5}


def test_example_2_intersection_of_linked_requests_breaches_2_anonymity():
    suspects_of_first = inverse_image(P1, P1[1])
    suspects_of_second = inverse_image(P2, P2[1])
    assert suspects_of_first & suspects_of_second == {1}


def test_example_3_the_log_at_each_instant():
    sent = [{h.requests[instant] for h in HISTORIES} - {None} for instant in (0, 1)]
    assert sent == [{"v1", "v3", "v5"}, {"v2", "v4", "v6"}]
    assert ALICE.locations == ((1, 2), (1, 3))
    assert BOB.requests[1] is None


def test_example_4_bundles_use_quadrants_and_requests_of_the_log():
    quadrants = {
        Cloak(x, y, side, side)
        for side in (1, 2, 4)
        for x in range(0, 4, side)
        for y in range(0, 4, side)
    }
    for bundle in (B1, B2, B3, B4):
        assert set(bundle.cloaks) <= quadrants
        for instant in (0, 1):
            assert bundle.requests[instant] <= {h.requests[instant] for h in HISTORIES}


def test_example_5_which_histories_are_masked():
    assert masked_users(B1) == {"id_a", "id_b", "id_c", "id_s"}
    assert masked_users(B2) == {"id_a", "id_b", "id_c", "id_s", "id_t"}
    assert masked_users(B3) == {"id_b", "id_c"}
    assert masked_users(B4) == {"id_b", "id_c"}


@pytest.mark.parametrize("policy", [P3, P4], ids=["P3", "P4"])
def test_example_6_a_policy_maps_each_history_to_a_bundle_that_masks_it(policy):
    assert set(policy) == {history.user for history in HISTORIES}
    assert all(is_masked(history, policy[history.user]) for history in HISTORIES)


def test_example_7_p3_breaks_tp_aware_2_anonymity():
    assert inverse_image(P3, B1) == {"id_a", "id_s"}
    assert inverse_image(P3, B3) == {"id_b", "id_c"}
    assert inverse_image(P3, B2) == {"id_t"}
    assert smallest_inverse_image(P3) == 1


def test_example_7_the_audit_finds_the_breach_of_p3(tmp_path):
    report = publish(tmp_path, P3)
    assert not report["at least k users"].passed
    assert smallest_inverse_image(read_published(tmp_path)) == 1


def test_example_8_the_audit_finds_enough_users_in_p4(tmp_path):
    """And nothing but that no tree has its cloaks: a quadrant, and then a quadrant of that."""
    report = publish(tmp_path, P4)
    assert [check.name for check in report.checks if not check.passed] == ["cloaks"]
    assert "cloak sequences that are no nodes of the tree" in report["cloaks"].detail
    assert smallest_inverse_image(read_published(tmp_path)) == 2


def test_example_8_p4_is_tp_aware_2_anonymous():
    assert inverse_image(P4, B2) == {"id_a", "id_s", "id_t"}
    assert inverse_image(P4, B3) == {"id_b", "id_c"}
    assert smallest_inverse_image(P4) >= 2


def test_example_8_p4_costs_no_less_than_the_best_quadrant_partition():
    cost = sum(cloak.width * cloak.height for bundle in P4.values() for cloak in bundle.cloaks)
    assert cost == 3 * (16 + 16) + 2 * (4 + 1)
    best, groups = best_partition([cells_of(h) for h in HISTORIES], 2, HEIGHT, "quadrant")
    assert best <= cost
    assert all(len(group) >= 2 for group in groups)


@pytest.mark.parametrize("cloak", ["quad", "mbr"])
def test_example_8_our_release_of_the_log_is_tp_aware_2_anonymous(tmp_path, cloak):
    result = anonymize_example_3(tmp_path, cloak=cloak)
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    policy = read_published(tmp_path)
    assert set(policy) == {history.user for history in HISTORIES}
    assert all(is_masked(history, policy[history.user]) for history in HISTORIES)
    assert smallest_inverse_image(policy) >= 2
    for bundle in policy.values():
        members = [h for h in HISTORIES if policy[h.user] == bundle]
        for instant in (0, 1):
            sent = {h.requests[instant] for h in members} - {None}
            assert bundle.requests[instant] == sent


def test_example_8_our_release_costs_the_optimum_of_the_tree(tmp_path):
    result = anonymize_example_3(tmp_path, cloak="quad")
    tree = build_tree([cells_of(h) for h in HISTORIES], HEIGHT, "binary-axis-major")
    assert result.manifest["cost"] == solve(tree, 2)[0]


def test_example_10_u_tree_of_figure_6():
    # R4 of Figure 4 is the root; R0 to R3 are its quadrants.
    r4 = Cloak(0, 0, 2, 2)
    quarters = [Cloak(x, y, 1, 1) for x in (0, 1) for y in (0, 1)]
    everywhere = [
        [(first.x0, first.y0), (second.x0, second.y0)] for first in quarters for second in quarters
    ]
    tree = build_tree(everywhere, 1, "u")
    assert tree.root.cloaks == (r4, r4)
    bottom = {(first, second) for first in quarters for second in quarters}
    assert set(all_child_cloaks(tree.root)) == bottom
    assert {child.cloaks for child in tree.root.children} == bottom
    assert len(bottom) == 4**2
    assert all(child.is_leaf for child in tree.root.children)
    # Trajectory a of Figure 5 is masked by <R0, R3>; the second level of the G-graph,
    # such as <R0, R4>, is in the US-tree but not in the U-tree.
    r0 = quarters[0]
    assert (r0, r4) not in {node.cloaks for node in tree.nodes}
    assert (r0, r4) in {node.cloaks for node in build_tree(everywhere, 1, "us").nodes}
