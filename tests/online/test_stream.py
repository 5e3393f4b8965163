"""Lines in, instants out, and a release that the audit checks."""

import errno
import json
import os
import shutil
from collections import Counter, defaultdict
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online.broken_rules import ForgetsLag, KeepsAbsent, NeverSilent
from online.stream_runs import EVERY, START, Walk, encode, run_stream
from trajcloak.errors import InputError, OptionError, OutputError
from trajcloak.log import read_in_memory
from trajcloak.online import stream_run
from trajcloak.online.stream_state import open_state, replace_private
from trajcloak.options import LogColumns
from trajcloak.query import open_published
from trajcloak.utility import measure_answers
from zoo import examples

WALK = Walk(users=30, instants=11, seed=4, absence=0.04)


@st.composite
def walks(draw: st.DrawFn) -> Walk:
    return Walk(
        users=draw(st.integers(8, 24)),
        instants=draw(st.integers(4, 10)),
        seed=draw(st.integers(0, 2**32 - 1)),
        absence=draw(st.sampled_from([0.0, 0.05, 0.2])),
        values=draw(st.sampled_from([("food", "fuel"), ("food", "7", "(other)", "x y")])),
    )


@st.composite
def settings(draw: st.DrawFn) -> dict:
    k = draw(st.integers(2, 4))
    epoch = draw(st.integers(1, 4))
    return {
        "k": k,
        "epoch": epoch,
        "lag": draw(st.integers(0, min(2, epoch - 1))),
        "hold": draw(st.integers(0, 1)),
        "parts": draw(st.sampled_from([None, 2])) if k > 2 else None,
        "predictor": draw(st.sampled_from(["learned", "hold"])),
        "rare_below": draw(st.integers(2, 3)),
    }


@given(walk=walks(), options=settings())
@examples(25)
def test_the_audit_finds_every_release_right(tmp_path_factory, walk, options):
    folder = tmp_path_factory.mktemp("stream")
    run = run_stream(folder / "run", walk.list_lines(), **options)
    if run.release.exists():
        report = run.audit()
        assert report.passed, report.verdict + str([c for c in report.checks if not c.passed])
    shutil.rmtree(folder)


@given(walk=walks(), options=settings(), data=st.data())
@examples(20)
def test_who_sent_a_request_changes_no_byte(tmp_path_factory, walk, options, data):
    folder = tmp_path_factory.mktemp("stream")
    lines = walk.list_lines()
    run = run_stream(folder / "run", lines, **options)
    groups = find_groups(run) if run.release.exists() else {}
    moved = []
    for line in lines:
        instant = int(line["time"] - START) // EVERY
        group = groups.get((instant, line["user_id"]))
        if line["kind"] == "request" and group is not None:
            line = {**line, "user_id": data.draw(st.sampled_from(group))}
        moved.append(line)
    again = run_stream(folder / "again", moved, **options)
    assert again.published == run.published
    if run.release.exists():
        assert again.read_files() == run.read_files()
    shutil.rmtree(folder)


def find_groups(run):
    """Find who is shown with whom: {(instant, user): members}; from the private files alone."""
    members = defaultdict(set)
    for row in pq.read_table(run.state / "policy.parquet").to_pylist():
        members[row["window"], row["bundle_id"]].add(row["user_id"])
    located = defaultdict(set)
    for file in run.state.glob("finished/*/locations.parquet"):
        for row in pq.read_table(file).to_pylist():
            located[int(row["time"].timestamp() - START) // EVERY].add(row["user_id"])
    shown = {(row["bundle_id"], row["instant"]) for row in run.published}
    epoch = json.loads((run.release / "manifest.json").read_text())["parameters"]["length"]
    groups = {}
    for (window, bundle), left in members.items():
        for instant in range(window * epoch, (window + 1) * epoch):
            left = left & located[instant]
            if (bundle, instant) in shown:
                groups |= {(instant, user): sorted(left) for user in left}
    return groups


@given(walk=walks(), options=settings(), share=st.floats(0, 1))
@examples(15)
def test_what_is_published_does_not_depend_on_later_lines(tmp_path_factory, walk, options, share):
    folder = tmp_path_factory.mktemp("stream")
    lines = walk.list_lines()
    published = run_stream(folder / "run", lines, **options).published
    before = run_stream(folder / "cut", lines[: int(share * len(lines))], **options).published
    assert before == published[: len(before)]
    shutil.rmtree(folder)


@given(data=st.data())
@examples(10)
def test_pieces_of_the_text_do_not_matter(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("stream")
    text = encode(WALK.list_lines())
    pieces = data.draw(st.lists(st.integers(0, len(text)), max_size=30))
    run = run_stream(folder / "run", text)
    again = run_stream(folder / "again", text, pieces)
    assert run.published == again.published
    assert run.read_files() == again.read_files()
    shutil.rmtree(folder)


def test_lines_and_release_say_the_same(tmp_path):
    run = run_stream(tmp_path / "run", WALK.list_lines(), parts=2)
    first = run.published[0]
    assert list(first) == [
        "window", "bundle_id", "instant", "t_start", "t_end", "parts", "requests",
    ]  # fmt: skip
    assert (first["t_start"], first["t_end"]) == ("2026-03-02T08:00:00Z", "2026-03-02T08:00:10Z")
    columns = ["window", "bundle_id", "instant", "x_min", "y_min", "x_max", "y_max", "users"]
    released = pq.read_table(run.release / "bundles.parquet", columns=columns).to_pylist()
    last = max(row["instant"] for row in released)
    printed = [
        {**{name: line[name] for name in columns[:3]}, **part}
        for line in run.published
        if line["instant"] <= last
        for part in line["parts"]
    ]
    printed.sort(key=lambda row: (row["bundle_id"], row["instant"]))
    assert printed == released
    requests = [
        {**{name: line[name] for name in columns[:3]}, **request}
        for line in run.published
        if line["instant"] <= last
        for request in line["requests"]
    ]
    requests.sort(key=lambda row: (row["bundle_id"], row["instant"], row["category"]))
    assert requests == pq.read_table(run.release / "requests.parquet").to_pylist()
    assert requests


def test_a_release_answers_questions(tmp_path):
    walk = replace(WALK, absence=0.1, instants=13)
    run = run_stream(tmp_path / "run", walk.list_lines(), epoch=4)
    release = open_published(run.release)
    assert any((window.counts == 0).any() for window in release.windows), "no bundle is silent"
    users = defaultdict(int)
    for line in run.published:
        users[line["instant"]] += sum(part["users"] for part in line["parts"])
    everywhere = release.count((-1e6, -1e6, 1e6, 1e6))
    assert {i: (a.lower, a.upper) for i, a in everywhere.items()} == {
        i: (users[i], users[i]) for i in everywhere
    }
    stay = release.follow([((-1e6, -1e6, 1e6, 1e6), i) for i in range(4)])
    assert stay.lower == stay.upper == users[3]


@pytest.mark.parametrize("parts", [None, 2])
def test_true_answers_are_within_bounds(tmp_path, parts):
    walk = replace(WALK, absence=0.1, instants=13)
    run = run_stream(tmp_path / "run", walk.list_lines(), epoch=4, parts=parts)
    log = read_in_memory(
        str(run.state / "finished/*/locations.parquet"),
        LogColumns(requests=("category",)),
        str(run.state / "finished/*/requests.parquet"),
    )
    measured = measure_answers(log, run.release, run.state / "policy.parquet", queries=60)
    assert {row.question: row.within for row in measured} == {
        "count": 1, "moves": 1, "requests": 1,
    }  # fmt: skip


HOSTILE = [
    b"",
    b"no json",
    b"[1, 2]",
    b"7",
    b'"text"',
    b"\xff\xfe",
    b"[" * 10_000,
    b'{"kind": "rumour", "user_id": "secret", "time": 1772438401}',
    b'{"kind": "report", "user_id": "secret", "time": 1772438401}',
    b'{"kind": "report", "user_id": "secret", "time": 1772438401, "x": NaN, "y": 1}',
    b'{"kind": "report", "user_id": "secret", "time": 1772438401, "x": true, "y": 1}',
    b'{"kind": "report", "user_id": "secret", "time": 1772438401, "x": 1e999, "y": 1}',
    b'{"kind": "report", "user_id": "secret", "time": "yesterday", "x": 1, "y": 1}',
    b'{"kind": "report", "user_id": "secret", "time": 1e300, "x": 1, "y": 1}',
    b'{"kind": "report", "user_id": "secret", "time": [], "x": 1, "y": 1}',
    b'{"kind": "report", "user_id": "", "time": 1772438401, "x": 1, "y": 1}',
    b'{"kind": "report", "user_id": null, "time": 1772438401, "x": 1, "y": 1}',
    b'{"kind": "report", "user_id": "\\ud800", "time": 1772438401, "x": 1, "y": 1}',
    b'{"kind": "request", "user_id": "user 1", "time": 1772438401}',
    b'{"kind": "request", "user_id": "user 1", "time": 1772438401, "category": {"a": 1}}',
    b'{"kind": "request", "user_id": "user 1", "time": 1772438401, "category": "\\udfff"}',
    b'{"kind": "request", "user_id": "user 1", "time": 1772438401, "category": "'
    + b"x" * 2000
    + b'"}',
    b'{"kind": "report", "user_id": "' + b"x" * 200_000 + b'"}',
]


def test_hostile_lines_are_counted_and_change_nothing(tmp_path):
    lines = encode(WALK.list_lines()).splitlines(keepends=True)
    mixed = [line + HOSTILE[n % len(HOSTILE)] + b"\n" for n, line in enumerate(lines)]
    run = run_stream(tmp_path / "run", b"".join(lines))
    pieces = list(range(0, 10**7, 50_000))
    hostile = run_stream(tmp_path / "hostile", b"".join(mixed), pieces)
    assert hostile.published == run.published
    assert hostile.read_files() == run.read_files()
    added = sum(hostile.counts.values()) - sum(run.counts.values())
    assert added == len(lines) - sum(not HOSTILE[n % len(HOSTILE)] for n in range(len(lines)))
    assert "secret" not in str(hostile.counts)


def test_wrong_clocks_do_not_close_instants_or_fill_memory(tmp_path):
    lines = WALK.list_lines()
    wrong = [
        {"kind": "report", "user_id": f"user {n}", "time": START + 10**8, "x": 1, "y": 1}
        for n in range(30)
    ]
    run = run_stream(tmp_path / "run", lines)
    late = run_stream(tmp_path / "late", lines[:100] + wrong + lines[100:])
    assert late.published == run.published
    assert late.counts["early"] == 30


def test_fewer_than_k_wrong_clocks_close_no_instant(tmp_path):
    lines = WALK.list_lines()
    wrong = [
        {"kind": "report", "user_id": f"{n}", "time": START + 8 * EVERY, "x": 1e6, "y": 0}
        for n in range(3)
    ]
    run = run_stream(tmp_path / "run", lines, k=3)
    two = run_stream(tmp_path / "two", lines[:100] + wrong[:2] + lines[100:], k=3)
    assert two.published == run.published
    three = run_stream(tmp_path / "three", lines[:100] + wrong + lines[100:], k=3)
    assert three.published != run.published


@pytest.mark.parametrize("place", [10, 200, 1000])
def test_requests_close_no_instant(tmp_path, place):
    lines = WALK.list_lines()
    ahead = [
        {"kind": "request", "user_id": f"stranger {n}", "time": START + n * EVERY, "category": "a"}
        for n in range(2 * WALK.instants)
    ]
    run = run_stream(tmp_path / "run", lines, box=None)
    again = run_stream(tmp_path / "again", lines[:place] + ahead + lines[place:], box=None)
    assert again.published == run.published


def test_requests_beyond_a_limit_are_counted_and_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_run, "MOST_SENT", 3)
    lines = WALK.list_lines()
    run = run_stream(tmp_path / "run", lines)
    sent = Counter(line["time"] // EVERY for line in lines if line["kind"] == "request")
    beyond = sum(max(0, count - 3) for count in sent.values())
    assert run.counts["too many requests"] == beyond > 0
    assert run.audit().passed


def test_long_requests_count_as_several(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_run, "MOST_SENT", 40)
    monkeypatch.setattr(stream_run, "MOST_HELD", 100)
    long = replace(WALK, values=("a" * 700, "b" * 700))
    run = run_stream(tmp_path / "run", long.list_lines())
    sent = pq.ParquetDataset(sorted(run.state.glob("finished/*/requests.parquet"))).read()
    assert 0 < max(Counter(sent["time"].to_pylist()).values()) <= 3
    assert run.audit().passed
    with_ids = replace(long, ids=["c" * 900 + str(n) for n in range(long.users)])
    again = run_stream(tmp_path / "again", with_ids.list_lines())
    assert again.counts["too many requests"] == run.counts["too many requests"] > 0
    before = [r.counts[stream_run.BEFORE] for r in (run, again)]
    assert before[0] == before[1] > 0


def test_groups_are_on_disk_before_anything_is_published(tmp_path, monkeypatch):
    on_disk, seen = set(), []
    monkeypatch.setattr(os, "fsync", lambda file: on_disk.add(os.fstat(file).st_ino))
    spell = stream_run.spell_instant

    def look(instant, *rest):
        folder = tmp_path / "run" / "state" / "started" / f"{instant.window:08}"
        needed = [folder.parent, folder, folder / "policy.parquet"]
        seen.append({file.stat().st_ino for file in needed} <= on_disk)
        return spell(instant, *rest)

    monkeypatch.setattr(stream_run, "spell_instant", look)
    run_stream(tmp_path / "run", WALK.list_lines())
    assert seen
    assert all(seen)


def test_a_run_goes_on_with_the_next_epoch(tmp_path):
    lines = replace(WALK, instants=20).list_lines()
    cut = next(n for n, line in enumerate(lines) if line["time"] >= START + 8 * EVERY)
    one = run_stream(tmp_path / "run", lines[:cut])
    assert {line["window"] for line in one.published} == {0, 1, 2}
    assert {window.start for window in open_published(one.release).windows} == {0, 3}
    two = run_stream(tmp_path / "run", lines[cut:])
    assert {line["window"] for line in two.published} == {3, 4, 5, 6}
    starts = [window.start for window in open_published(two.release).windows]
    assert starts == [0, 3, 9, 12, 15]
    assert two.audit().passed
    assert json.loads((two.release / "manifest.json").read_text())["withheld"]["windows"] == 1


def test_lines_that_come_again_are_not_published_again(tmp_path):
    lines = replace(WALK, instants=20).list_lines()
    cut = next(n for n, line in enumerate(lines) if line["time"] >= START + 8 * EVERY)
    one = run_stream(tmp_path / "run", lines[:cut])
    two = run_stream(tmp_path / "run", lines)
    assert {line["window"] for line in one.published} == {0, 1, 2}
    assert {line["window"] for line in two.published} == {3, 4, 5, 6}


def test_other_settings_need_another_state(tmp_path):
    lines = WALK.list_lines()
    run_stream(tmp_path / "run", lines)
    with pytest.raises(OptionError, match="another epoch"):
        run_stream(tmp_path / "run", lines, epoch=4)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"settings": 1, "start": 2}', "\udcff"])
def test_a_damaged_state_is_one_clear_message(tmp_path, content):
    run = run_stream(tmp_path / "run", WALK.list_lines())
    (run.state / "started" / ".cache").touch()
    run_stream(tmp_path / "run", [])
    (run.state / "stream.json").write_text(content, errors="surrogateescape")
    with pytest.raises(InputError, match="is damaged"):
        run_stream(tmp_path / "run", [])
    (run.state / "stream.json").unlink()
    with pytest.raises(InputError, match="is missing"):
        run_stream(tmp_path / "run", [])


def test_a_full_disk_is_one_clear_message(tmp_path, monkeypatch):
    run = run_stream(tmp_path / "run", WALK.list_lines())
    lines = WALK.list_lines(first=20)

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("trajcloak.online.stream_release.join_row_groups", fail)
        with pytest.raises(OutputError, match="No space left"):
            run_stream(tmp_path / "run", lines)
    assert run.release.exists()
    run_stream(tmp_path / "run", [])
    assert run.audit().passed
    assert not list(run.folder.glob(".*"))


def test_the_audit_may_work_in_little_memory(tmp_path):
    run = run_stream(tmp_path / "run", replace(WALK, absence=0.1).list_lines(), parts=2)
    assert run.audit(memory=1 << 14).passed


def test_one_run_at_a_time(tmp_path):
    with (
        open_state(tmp_path / "state", {}),
        pytest.raises(OutputError, match="another run"),
        open_state(tmp_path / "state", {}),
    ):
        pass


def test_the_release_of_something_else_is_not_replaced(tmp_path):
    one = run_stream(tmp_path / "one", WALK.list_lines())
    two = run_stream(tmp_path / "two", WALK.list_lines(), k=4)
    shutil.rmtree(one.release)
    shutil.copytree(two.release, one.release)
    with pytest.raises(OutputError, match="something else"):
        run_stream(tmp_path / "one", [])
    assert (one.release / "manifest.json").read_bytes() == (
        two.release / "manifest.json"
    ).read_bytes()


def test_the_state_is_private_and_outside_releases(tmp_path):
    run = run_stream(tmp_path / "run", WALK.list_lines())
    assert run.state.stat().st_mode & 0o777 == 0o700
    assert (run.state / "policy.parquet").stat().st_mode & 0o777 == 0o600
    with (
        pytest.raises(OptionError, match="inside the release"),
        open_state(run.release / "state", {}),
    ):
        pass


@pytest.mark.parametrize("private", ["release/policy.parquet", "other/policy.parquet"])
def test_the_policy_file_is_never_inside_a_release(tmp_path, private):
    lines = replace(WALK, instants=20).list_lines()
    run = run_stream(tmp_path / "run", lines[:300])
    shutil.copytree(run.release, run.folder / "other")
    policy = run.folder / private
    with pytest.raises(OptionError, match="policy file would stand inside the release"):
        run_stream(tmp_path / "run", lines[300:], policy=policy)
    with pytest.raises(OptionError, match="policy file would stand inside the release"):
        run_stream(tmp_path / "new", lines, policy=tmp_path / "new" / "release" / "p.parquet")
    assert len(list(policy.parent.iterdir())) == 3


def test_nothing_is_published_if_a_release_cannot_follow(tmp_path):
    """Without its state, nobody knows which instants a stream has published."""
    lines = WALK.list_lines()
    run = run_stream(tmp_path / "run", lines)
    printed, taken = tmp_path / "printed", tmp_path / "taken"
    taken.touch()
    shutil.rmtree(run.state)
    with pytest.raises(OutputError, match="exists already"):
        run_stream(tmp_path / "run", lines[50:], printed=printed)
    with pytest.raises(OutputError, match="exists already"):
        run_stream(tmp_path / "two", lines, policy=taken, printed=printed)
    assert not printed.exists()


def test_a_private_file_is_not_written_into_a_file_of_others(tmp_path):
    theirs, policy = tmp_path / "theirs", tmp_path / "policy.parquet"
    theirs.touch()
    (tmp_path / ".policy.parquet.unfinished").symlink_to(theirs)
    with replace_private(policy) as stream:
        stream.write(b"private")
    assert theirs.read_bytes() == b""
    assert policy.read_bytes() == b"private"
    assert policy.stat().st_mode & 0o777 == 0o600
    assert not policy.is_symlink()


def test_rare_requests_are_kept_only_with_a_vocabulary(tmp_path):
    with pytest.raises(OptionError, match="vocabulary"):
        run_stream(tmp_path / "run", [], rare="keep")
    words = {"category": ["food"]}
    run = run_stream(tmp_path / "two", WALK.list_lines(), rare="keep", vocabulary=words)
    shown = {request["category"] for line in run.published for request in line["requests"]}
    assert shown == {"food"}
    assert run.audit(vocabulary=words).passed


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (KeepsAbsent, "bundles"),
        (NeverSilent, "bundles"),
        (ForgetsLag, "one bundle per user"),
    ],
)
def test_the_audit_finds_rules_that_are_broken(tmp_path, monkeypatch, broken, check):
    walk = replace(WALK, absence=0.15, instants=12)
    options = {"epoch": 4, "lag": 1}
    assert run_stream(tmp_path / "right", walk.list_lines(), **options).audit().passed
    monkeypatch.setattr("trajcloak.online.stream_run.OnlineAnonymizer", broken)
    report = run_stream(tmp_path / "broken", walk.list_lines(), **options).audit()
    assert not report[check].passed


def test_groups_cannot_be_made_again(tmp_path):
    run = run_stream(tmp_path / "run", WALK.list_lines())
    with pytest.raises(OptionError, match="leave out replay"):
        run.audit(replay=True)
    told = " ".join(run.audit().notes)
    assert "groups of a stream rest on what it remembered, and cannot be made again" in told
    assert "--replay" not in told
    assert "the region, which is fixed when a stream begins" in told


def drop_part(run):
    file = run.state / "policy-parts.parquet"
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)


def empty_bundle(run):
    """Move members of the first bundle to the second, until too few are left."""
    file = run.state / "policy.parquet"
    table = pq.read_table(file)
    bundle = table["bundle_id"].to_pylist()
    bundle[: bundle.count(0) - 1] = [1] * (bundle.count(0) - 1)
    pq.write_table(table.set_column(2, "bundle_id", pa.array(bundle, pa.int64())), file)


def change_manifest(run, **stream):
    file = run.release / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["parameters"]["stream"] |= stream
    file.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")


def forget_stream(run):
    file = run.release / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["parameters"]["stream"]
    file.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")


def bridge_gaps(run):
    file = run.release / "manifest.json"
    file.write_text(file.read_text().replace('"max_gap": "10s"', '"max_gap": "20s"'))


def move_origin(run):
    file = run.release / "manifest.json"
    file.write_text(file.read_text().replace("T08:00:00", "T07:59:50"))


@pytest.mark.parametrize(
    "damage",
    [
        drop_part,
        empty_bundle,
        lambda run: change_manifest(run, lag=1),
        lambda run: change_manifest(run, lag=7),
        forget_stream,
        move_origin,
        bridge_gaps,
        lambda run: (run.state / "policy-parts.parquet").chmod(0o644),
    ],
    ids=[
        "a part",
        "a bundle",
        "another lag",
        "no lag of the epoch",
        "no stream",
        "the origin",
        "gaps are bridged",
        "parts for all to read",
    ],
)
def test_damage_is_found(tmp_path, damage):
    absence = 0.0 if damage is bridge_gaps else 0.1
    run = run_stream(tmp_path / "run", replace(WALK, absence=absence).list_lines(), parts=2)
    assert run.audit().passed
    damage(run)
    assert not run.audit().passed
