"""What an audit says, for which k and against whom; groups made otherwise; clean copies."""

import errno
import filecmp
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
import trajcloak.pipeline
from auditor.damages import FILES, REQUESTS, edit, set_fields, write_otherwise
from auditor.expected import list_failed
from auditor.released import WORLDS, release_one_log
from trajcloak.algorithms.policy import Policy
from trajcloak.auditor import CHECKS, audit_files
from trajcloak.cloaks import build_cloaks


@pytest.fixture
def world(tmp_path):
    return WORLDS["one log"](tmp_path / "world")


@pytest.mark.parametrize(
    ("name", "attacker"), [("one log", "report-aware"), ("two inputs", "tp-aware")]
)
def test_the_verdict_names_k_and_the_attacker(tmp_path, name, attacker):
    report = WORLDS[name](tmp_path / "world").audit()
    assert report.verdict == (
        f"Passed: at least 3 possible senders for every request, against the {attacker} attacker."
    )
    assert report.to_dict() | {"checks": []} == {
        "passed": True,
        "verdict": report.verdict,
        "k": 3,
        "attacker": attacker,
        "notes": list(report.notes),
        "checks": [],
    }
    assert [check.name for check in report.checks] == list(CHECKS)[:-1]


def test_the_verdict_says_whether_the_algorithm_was_run_again(world):
    assert any("was not run again" in note for note in world.audit().notes)
    replayed = world.audit(replay=True)
    assert replayed.passed
    assert not any("was not run again" in note for note in replayed.notes)
    assert [check.name for check in replayed.checks] == list(CHECKS)


@pytest.mark.parametrize(("k", "passed"), [(2, True), (3, True), (4, False), (50, False)])
def test_a_release_for_a_smaller_k_than_asked_for(world, k, passed):
    report = world.audit(k=k)
    assert report.passed == passed
    assert list_failed(report) == (set() if passed else {"at least k users"})
    assert "at least 3 possible senders for every request" in report.verdict
    assert ("Not proven" in report.verdict) == (not passed)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 100_017),
        ("clip", "-100017.0,-90.0,180.0,90.0"),
        ("max_speed", 100_017.0),
        ("max_gap", "100017s"),
        ("blocks", 100_017),
    ],
)
def test_numbers_that_no_file_confirms_are_listed(world, name, value):
    """They could hold anything, such as the id of a user."""
    assert not any(f"{name} {value}" in note for note in world.audit().notes)
    manifest = json.loads((world.release / "manifest.json").read_text())
    manifest["parameters"][name] = value
    text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
    (world.release / "manifest.json").write_text(text)
    report = world.audit()
    is_listed = any(f"{name} {value}" in note for note in report.notes)
    assert is_listed or not report.passed


class GroupBySenders:
    """Groups whoever sends the same word: a valid policy that looks at requests."""

    name = "refined"

    def __init__(self, log):
        table = pq.read_table(log).sort_by("user_id")
        self.words = dict(zip(table["user_id"].to_pylist(), table["what"].to_pylist(), strict=True))

    def solve(self, cells, height, k, cloak, *, threads=1, **_):
        words = list(self.words.values())
        order = sorted(range(len(cells)), key=lambda row: str(words[row]))
        bundle = np.empty(len(cells), np.int32)
        bundle[order] = np.minimum(np.arange(len(cells)) // k, len(cells) // k - 1)
        return Policy(bundle, build_cloaks(cells, bundle, cloak, threads))


@pytest.mark.parametrize("options", [{}, {"parts": 2}, {"cloak": "quad", "algorithm": "refined"}])
def test_groups_chosen_by_requests_are_found_by_running_the_algorithm_again(
    tmp_path, monkeypatch, options
):
    world = release_one_log(tmp_path / "world", length=None, max_gap="8", **options)
    monkeypatch.setattr(
        trajcloak.pipeline, "choose_algorithm", lambda *_: GroupBySenders(world.log)
    )
    forged = replace(world, folder=tmp_path / "forged")
    forged.folder.mkdir()
    pq.write_table(pq.read_table(world.log), forged.log)
    forged.anonymize()
    monkeypatch.undo()
    assert forged.audit().passed
    assert list_failed(forged.audit(replay=True)) == {"replay"}
    assert world.audit(replay=True).passed


@pytest.mark.parametrize("name", ["quadrants", "parts", "parts per instant", "linked"])
def test_valid_groups_are_made_again(tmp_path, name):
    assert WORLDS[name](tmp_path / "world").audit(replay=True).passed


def test_a_release_that_cannot_be_made_again(world):
    rows = pq.read_table(world.log)
    pq.write_table(pa.concat_tables([rows, rows.slice(0, 1)]), world.log)
    shutil.rmtree(world.release)
    world.policy.unlink()
    world.anonymize()
    set_fields(parameters__rows_alike=False)(world)
    assert world.audit().passed
    assert list_failed(world.audit(replay=True)) == {"replay"}


def test_windows_that_were_bundled_in_blocks_cannot_be_made_again(world):
    set_fields(parameters__blocks=3)(world)
    report = world.audit(replay=True)
    assert list_failed(report) == {"replay"}
    assert "in blocks" in report["replay"].detail
    assert any("blocks 3" in note for note in report.notes)


@pytest.mark.parametrize("region", [None, (-3000.0, -3000.0, 7000.0)])
def test_a_region_that_was_given_is_named(tmp_path, region):
    report = release_one_log(tmp_path / "world", region=region).audit()
    assert report.passed
    assert any("a region" in note for note in report.notes) == (region is not None)


@pytest.mark.parametrize(
    ("options", "first"),
    [({"length": None, "max_gap": "8"}, "one bundle per user"), ({"length": 2}, "policy"),
     ({"members": 8}, "bundles"), ({"members": 3}, "at least k users")],
)  # fmt: skip
def test_the_policy_file_of_another_release_is_suspected(world, tmp_path, options, first):
    other = release_one_log(tmp_path / "other", **options)
    shutil.copy(other.policy, world.policy)
    failed = [check for check in world.audit().checks if not check.passed]
    words = "the policy file may be that of another release"
    assert failed[0].name == first
    assert [words in check.detail for check in failed] == [True] + [False] * (len(failed) - 1)


def test_a_missing_file_of_parts(tmp_path):
    world = WORLDS["parts per instant"](tmp_path / "world")
    (world.folder / "policy-parts.parquet").unlink()
    with pytest.raises(tc.InputError, match=r"policy-parts\.parquet: does not exist; expected the"):
        world.audit()


def test_a_clean_copy(world, tmp_path):
    write_otherwise(REQUESTS, metadata={b"u": b"700000"})(world)
    assert list_failed(world.audit()) == {"bytes"}
    report = world.audit(rewrite=tmp_path / "copy")
    assert report.passed
    assert any("clean copy" in note for note in report.notes)
    clean = replace(world, folder=tmp_path / "other")
    clean.folder.mkdir()
    (tmp_path / "copy").rename(clean.release)
    for name in ("log.parquet", "policy.parquet"):
        (world.folder / name).rename(clean.folder / name)
    assert clean.audit().passed
    assert not filecmp.cmp(clean.release / REQUESTS, world.release / REQUESTS, shallow=False)


def test_no_copy_of_wrong_tables(world, tmp_path):
    edit(REQUESTS, lambda table: table.slice(1))(world)
    assert not world.audit(rewrite=tmp_path / "copy").passed
    assert not (tmp_path / "copy").exists()


def test_bytes_of_another_version_cannot_be_compared(world):
    set_fields(software="trajcloak 99.0")(world)
    write_otherwise(REQUESTS, metadata={b"u": b"700000"})(world)
    report = world.audit()
    assert list_failed(report) == {"bytes"}
    assert "bytes could not be compared" in report["bytes"].detail
    assert "--rewrite" in report["bytes"].detail


def test_a_damaged_name_of_the_encoder(world):
    path = world.release / REQUESTS
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow", b"\x86arquet-cpp-arrow"))
    assert list_failed(world.audit()) == {"bytes"}


def test_a_version_alone_does_not_matter(world):
    set_fields(software="trajcloak 99.0")(world)
    assert world.audit().passed


def test_a_vocabulary_must_be_given(tmp_path):
    world = WORLDS["two inputs"](tmp_path / "world")
    with pytest.raises(tc.OptionError, match="vocabulary="):
        world.audit(vocabulary=None)
    lists = world.options["vocabulary"]
    longest = max(map(len, lists.values()))
    table = pa.table({n: [*v, *[None] * (longest - len(v))] for n, v in lists.items()})
    pq.write_table(table, tmp_path / "words.parquet")
    assert world.audit(vocabulary=tmp_path / "words.parquet").passed
    assert list_failed(world.audit(vocabulary={"what": ["zoo"], "level": ["1"]})) >= {"requests"}
    with pytest.raises(tc.InputError, match="vocabulary"):
        world.audit(vocabulary=tmp_path / "nothing.csv")


def test_inputs_are_not_exchanged(tmp_path):
    world = WORLDS["two inputs"](tmp_path / "world")
    with pytest.raises(tc.InputError, match="what"):
        world.audit(request_log=None)


def test_two_inputs_have_times_of_one_kind(tmp_path):
    world = WORLDS["two inputs"](tmp_path / "world")
    sent = pq.read_table(world.request_log)
    without_zone = sent["time"].cast(pa.timestamp("us"))
    pq.write_table(sent.set_column(1, "time", without_zone), world.request_log)
    with pytest.raises(tc.InputError, match="times of different kinds"):
        world.audit()


@pytest.mark.parametrize("missing", ["log", "release", "policy"])
def test_paths_that_lead_nowhere(world, tmp_path, missing):
    paths = {name: getattr(world, name) for name in ("log", "release", "policy")}
    with pytest.raises(tc.InputError, match="nothing"):
        audit_files(**(paths | {missing: tmp_path / "nothing"}))


def test_progress_reaches_its_end(world):
    told = []
    world.audit(progress=lambda *step: told.append(step))
    ended = {stage for stage, done, total in told if done == total}
    assert ended == {stage for stage, _, _ in told}


def test_a_full_disk(world, monkeypatch):
    opened = Path.open

    def fail(path, mode="r", **options):
        if mode == "ab":
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(path, mode, **options)

    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(tc.OutputError, match="No space left on device"):
        world.audit(memory=2000)


def test_no_files_are_left_behind(world, tmp_path, monkeypatch):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    assert world.audit(memory=2000, replay=True).passed
    assert not list((tmp_path / "scratch").iterdir())
    assert sorted(path.name for path in world.release.iterdir()) == sorted(FILES)
