"""Damage to members and windows, one by one; tests name exactly the checks that must notice."""

import pytest

from reference.release_by_hand import geographic, planar, refresh


def test_user_moved_to_another_bundle(find_failed):
    example = planar()
    first, last = example.policy[0], example.policy[-1]
    first["bundle_id"], last["bundle_id"] = last["bundle_id"], first["bundle_id"]
    assert find_failed(example) == {"locations", "requests"}


def test_bundle_below_k(find_failed):
    def group(_, users):
        return [users[:2], *(users[start : start + 4] for start in range(2, 30, 4)), users[30:]]

    assert find_failed(planar(group=group)) == {"at least k users"}


def test_wrong_users_column(find_failed):
    example = planar()
    for row in example.bundles:
        if row["bundle_id"] == 5:
            row["users"] += 1
    assert find_failed(example) == {"at least k users"}


def test_users_column_changes_within_a_bundle(find_failed):
    example = planar()
    example.bundles[1]["users"] += 1
    assert find_failed(example) == {"bundle rows"}


def test_missing_window(find_failed):
    example = geographic(suppressed=())
    for table in (example.bundles, example.requests, example.policy):
        table[:] = [row for row in table if row["window"] == 0]
    refresh(example)
    assert find_failed(example) == {"windows", "one bundle per user", "withheld"}


def test_window_below_k_is_published(find_failed):
    example = geographic(k=2, suppressed=())
    example.manifest["k"] = 4
    assert find_failed(example) == {"windows", "at least k users"}


def test_user_missing_from_the_policy(find_failed):
    example = planar(k=2, group=lambda _, users: [users[:3], users[3:20], users[20:]])
    del example.policy[20]
    refresh(example)
    assert {"one bundle per user", "withheld"} <= find_failed(example)


def test_user_twice_in_the_policy(find_failed):
    example = planar()
    example.policy.append(example.policy[0] | {"bundle_id": 11})
    refresh(example)
    assert find_failed(example) == {"one bundle per user"}


def test_unknown_user_in_the_policy(find_failed):
    example = planar()
    example.policy.append(example.policy[0] | {"user_id": 99})
    assert find_failed(example) == {"one bundle per user"}


def test_unknown_bundle_in_the_policy(find_failed):
    example = planar()
    example.policy[0]["bundle_id"] = 99
    assert "one bundle per user" in find_failed(example)


def test_user_who_does_not_take_part(find_failed):
    example = geographic()
    example.policy.append({"window": 0, "user_id": "device-0018", "bundle_id": 0})
    refresh(example)
    assert find_failed(example) == {"one bundle per user", "withheld"}


def test_users_left_out_unasked(find_failed):
    example = geographic()
    assert example.manifest["suppressed"] == 1
    example.manifest["parameters"]["suppress_above"] = None
    assert find_failed(example) == {"one bundle per user"}


@pytest.mark.parametrize(("share", "failed"), [(0.04, {"one bundle per user"}), (0.07, set())])
def test_users_left_out_beyond_the_budget(find_failed, share, failed):
    example = geographic()
    assert example.manifest["users"] >= 17
    example.manifest["parameters"] |= {"suppress_above": None, "max_suppressed": share}
    assert find_failed(example) == failed


@pytest.mark.parametrize("parameter", [{"suppress_above": 1.0}, {"max_suppressed": 0.99}])
def test_whole_window_left_out(find_failed, parameter):
    of_window = [row["user_id"] for row in geographic().policy if row["window"] == 1]
    example = geographic(suppressed=[(user, 1) for user in of_window])
    example.manifest["parameters"] |= {"suppress_above": None} | parameter
    assert "windows" in find_failed(example)
