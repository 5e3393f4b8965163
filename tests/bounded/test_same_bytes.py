"""A run in bounded memory publishes the bytes of a run in memory, whatever it is asked for."""

import pytest

import trajcloak as tc
from bounded.runs import cut_small, draw_run
from small_logs import list_tree, new_folder

PER_TEST = 15
NUM_TESTS = 20


def outcome(anonymize, folder):
    """Everything that a run leaves: files and rare values, or an error."""
    release, policy = folder / "release", folder / "policy.parquet"
    try:
        rare = anonymize(release, policy)
    except tc.TrajcloakError as error:
        assert not list(folder.iterdir()), "an error leaves nothing behind"
        return type(error), str(error)
    assert {path.name for path in folder.iterdir()} == {"release", "policy.parquet"}
    assert policy.stat().st_mode & 0o777 == 0o600
    return list_tree(folder), rare


def compare(seed, monkeypatch):
    """Compare both runs; tells whether there was a release."""
    with new_folder() as folder, new_folder() as one, new_folder() as other:
        drawn = draw_run(seed, folder)
        before = list_tree(folder)
        expected = outcome(drawn.in_memory, one)
        with monkeypatch.context() as patched:
            cut_small(patched, seed)
            actual = outcome(drawn.in_bounded_memory, other)
        assert list_tree(folder) == before
    assert actual == expected, f"seed {seed}: {drawn}"
    return isinstance(expected[0], dict)


@pytest.mark.needs_jit
@pytest.mark.parametrize("test", range(NUM_TESTS))
def test_the_same_bytes(test, monkeypatch):
    seeds = range(test * PER_TEST, (test + 1) * PER_TEST)
    released = [compare(seed, monkeypatch) for seed in seeds]
    assert sum(released) >= PER_TEST // 3
