"""What is written, for whom, and what is refused."""

import hashlib
import json
import re
import shutil
import stat
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from online.stream_runs import EVERY, START, Walk, run_stream
from report.conftest import HOSTILE, publish
from runs import anonymize
from small_logs import COLUMNS, Row, list_tree, read_rows
from trajcloak.log import read_in_memory
from trajcloak.report import write_report_page

PRIVATE_WORDS = (
    "Private.",
    "Audit against the log",
    "What each attacker learns",
    "identified",
    "What became of the requests",
    "policy file: policy.parquet",
)


@pytest.fixture
def copied(made, tmp_path):
    for name in ("release", "log.parquet", "policy.parquet"):
        part = made / name
        (shutil.copytree if part.is_dir() else shutil.copy2)(part, tmp_path / name)
    return tmp_path


def write_private(folder, name="report.html", **options):
    return write_report_page(
        folder / "release", folder / name, log=folder / "log.parquet",
        policy=folder / "policy.parquet", columns=COLUMNS, **options,
    )  # fmt: skip


def test_one_file_that_loads_nothing(pages):
    for page in pages.values():
        text = page.read_text()
        links = re.findall(r'<[^>]*\b(?:src|href|action|data)="([^"]*)"', text)
        assert links
        assert all(link.startswith("#") for link in links)
        assert not re.search(r"<(link|img|iframe|object|embed|form|base)\b", text)
        assert "url(" not in text
        assert "@import" not in text
        assert text.count("<script") == 2
        assert "innerHTML" not in text
        assert "default-src 'none'" in text


def test_the_public_page_has_nothing_private(pages):
    public, private = (pages[kind].read_text() for kind in ("public", "private"))
    for words in PRIVATE_WORDS:
        assert words not in public
        assert words in private
    assert stat.S_IMODE(pages["public"].stat().st_mode) == 0o644
    assert stat.S_IMODE(pages["private"].stat().st_mode) == 0o600


def test_the_public_page_needs_nothing_but_the_release(made, pages, tmp_path):
    """And the same files give the same bytes, wherever they are."""
    shutil.copytree(made / "release", tmp_path / "elsewhere")
    write_report_page(tmp_path / "elsewhere", tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == pages["public"].read_bytes()


def test_the_private_page_is_the_same_again(copied, pages):
    write_private(copied)
    assert (copied / "report.html").read_bytes() == pages["private"].read_bytes()


@pytest.mark.parametrize("kind", ["public", "private"])
def test_no_request_becomes_markup(pages, kind):
    text = pages[kind].read_text()
    for hostile in HOSTILE:
        assert hostile not in text


def test_what_the_pages_say(plain, tmp_path):
    copied = Path(shutil.copytree(plain, tmp_path / "copied"))
    public = write_report_page(copied / "release", copied / "public.html")
    private = write_private(copied)
    words = "every published request has at least 5 possible senders"
    assert public.verdict == f"By its own account, {words}"
    assert private.verdict == words.capitalize()
    assert (public.private, private.private) == (False, True)
    assert public.passed
    assert private.passed
    assert public.to_dict()["bundles_drawn"] == public.bundles
    assert public.allowed == private.allowed == []
    for name, state in (("public.html", "stated"), ("report.html", "safe")):
        page = (copied / name).read_text()
        assert f'class="status {state}"' in page
        assert "llowed by hand" not in page
        assert "(the report-aware attacker)" in page
        assert "a set is published only where at least 5 users of the bundle have one" in page


def test_what_was_allowed_by_hand_is_in_the_headline(copied):
    """Of both pages, which are neither green nor silent about it."""
    public = write_report_page(copied / "release", copied / "public.html")
    private = write_private(copied)
    assert private.verdict.startswith("Every published request has at least")
    assert private.verdict.endswith(", with attributes allowed by hand: what")
    assert public.verdict.startswith("By its own account, every published request has at least")
    assert public.verdict.endswith(", with attributes allowed by hand: what")
    assert public.allowed == private.allowed == ["what"]
    assert public.passed
    assert private.passed
    for name in ("public.html", "report.html"):
        page = (copied / name).read_text()
        assert 'class="status caution"' in page
        assert "Only if the values of what name nobody and no place" in page
        assert 'Allowed by hand with <code class="option">--allow</code>' in page
        assert "<dt>allow</dt><dd>what</dd>" in page
        assert "Yes, in the sense of" not in page


def test_a_failed_audit_outweighs_what_was_allowed(copied):
    file = copied / "release" / "manifest.json"
    file.write_text(file.read_text().replace('"suppressed": 0,', '"suppressed": 1,'))
    assert write_private(copied).verdict == "Do not publish this release"


def test_what_became_of_the_requests_is_private(plain, tmp_path):
    """One request is sent once, and withheld for it."""
    table = pq.read_table(plain / "log.parquet")
    what = table["what"].to_pylist()
    what[what.index("fuel")] = "opera"
    pq.write_table(table.set_column(4, "what", [what]), tmp_path / "log.parquet")
    result = anonymize(read_in_memory(tmp_path / "log.parquet", COLUMNS), 5)
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    write_private(tmp_path, attack=False)
    write_report_page(tmp_path / "release", tmp_path / "public.html")
    page = (tmp_path / "report.html").read_text()
    shown = page[page.index('id="sent"') : page.index('id="requests"')]
    rows = re.findall(
        r"<tr><th[^>]*>([^<]*)</th><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td></tr>", shown
    )
    assert [row[:2] for row in rows] == [
        ("in the log", "160"),
        ("published, distinct in their bundle and instant", str(result.figures["published"])),
        ("equal to another one of their bundle and instant", str(result.figures["equal"])),
        ("withheld: shown by too few bundles", "1"),
    ]
    assert rows[-1][2] == "0.6%"
    public = (tmp_path / "public.html").read_text()
    assert 'id="sent"' not in public
    assert "in the log" not in public[public.index("<main") :]


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def list_digests(page):
    top = page[page.index("<header") : page.index("</header>")]
    return dict(
        re.findall(r"<tr><th[^>]*>([^<]*)</th><td[^>]*><code>([0-9a-f]{64})</code></td></tr>", top)
    )


def test_the_files_that_are_signed_for(made, pages):
    released = {
        f"release: {name}": digest(made / "release" / name)
        for name in ("bundles.parquet", "requests.parquet", "manifest.json")
    }
    assert list_digests(pages["public"].read_text()) == released
    assert list_digests(pages["private"].read_text()) == {
        **released,
        "log: log.parquet": digest(made / "log.parquet"),
        "policy file: policy.parquet": digest(made / "policy.parquet"),
    }


def test_a_log_of_several_files_has_one_digest(copied):
    table = pq.read_table(copied / "log.parquet")
    (copied / "logs").mkdir()
    files = [copied / "logs" / f"{i:02}.parquet" for i in range(2)]
    for i, file in enumerate(files):
        pq.write_table(table.filter(pc.equal(pc.bit_wise_and(table["user_id"], 1), i)), file)
    write_report_page(
        copied / "release", copied / "report.html", log=copied / "logs",
        policy=copied / "policy.parquet", columns=COLUMNS, attack=False,
    )  # fmt: skip
    found = list_digests((copied / "report.html").read_text())
    lines = "".join(f"{digest(file)}\n" for file in files)
    whole = hashlib.sha256(lines.encode()).hexdigest()
    assert found["log: list of the SHA-256 of its 2 files"] == whole
    assert len(found) == 3 + 1 + 1


def test_rare_values_stand_with_the_verdict(tmp_path, plain):
    """By attribute, those that one bundle alone shows; only where they are kept."""
    texts = [f"only once {number}" for number in range(25)] + ["fuel"] * 200
    publish(tmp_path, 60, 8, 5, texts)
    write_report_page(tmp_path / "release", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    top = page[page.index("<header") : page.index("</header>")]
    shown = re.findall("<bdi>(only once [0-9]+)</bdi>", top)
    assert shown == sorted(texts[:25])[:20]
    assert "<bdi>what</bdi> (allowed by hand): 25 of 26: " in top
    assert "and 5 more" in top
    write_report_page(plain / "release", tmp_path / "plain.html")
    assert "What must somebody look at?" not in (tmp_path / "plain.html").read_text()


def test_lengths_over_the_embedded_city_are_kilometres(tmp_path):
    """Its streets are in metres, so the release is, though its log names no coordinate system."""
    log = tmp_path / "log.parquet"
    tc.generate_log(log, users=60, length=3, junctions=2_000)
    anonymize(log, 5).write(tmp_path / "release")
    for name, network in (("known.html", "city"), ("unknown.html", None)):
        write_report_page(tmp_path / "release", tmp_path / name, network=network)
        page = (tmp_path / name).read_text()
        words = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
        assert ("\u00a0km" in words) == ("side of the cloak (km)" in words) == (network == "city")
        assert ("\u00a0units" in words) == ("unit not known" in words) == (network is None)
        assert ('"metres":true' in page) == (network == "city")


def test_a_failed_audit_is_the_headline(copied):
    manifest = copied / "release" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"suppressed": 0,', '"suppressed": 1,'))
    report = write_private(copied)
    assert not report.passed
    assert report.verdict == "Do not publish this release"
    page = (copied / "report.html").read_text()
    assert re.search(r"No\. \d of 12 checks against the log failed: [a-z ,]+\. The audit", page)
    assert "FAILED" in page
    assert "Not run: the audit failed, so that" in page, "files may not belong together"
    assert "Not counted: the audit failed, so that" in page


def test_a_contradiction_is_the_headline(copied):
    manifest = copied / "release" / "manifest.json"
    manifest.write_text(re.sub(r'"k": \d+', '"k": 99', manifest.read_text()))
    report = write_report_page(copied / "release", copied / "report.html")
    assert not report.passed
    assert report.verdict == "Do not rely on this release"
    assert "state fewer than k\u00a0=\u00a099" in (copied / "report.html").read_text()


NOTHING = "Nobody and nothing: all users of the log are in the release"


def test_nothing_was_left_out(pages):
    assert NOTHING in pages["public"].read_text()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"withheld": {"users": 12}}, "12 users of 60 (20.0%) withheld throughout"),
        ({"withheld": {"windows": 1}}, "1 window with too few users"),
        ({"withheld": {"sets": 8}}, "8 of 88 sets of requests (9.1%), where too few users"),
        ({"suppressed": 3}, "users suppressed 3 times, once for each window"),
        ({"ingest": {"dropped": {"teleport": 5}}}, "5 rows of the log dropped"),
        (
            {"parameters": {"rare": "drop", "rare_below": 3}},
            "by rule, requests that fewer than 3 bundles of their window show</li>",
        ),
        ({"parameters": {"rare": "other"}}, "after their rare values were replaced"),
        ({"parameters": {"vocabulary": True}}, "by rule, requests with a value that is not on"),
        ({"parameters": {"link_safe": True}}, "by rule, requests that would narrow down"),
    ],
)
def test_what_was_left_out_is_told(copied, change, says):
    """Each of these alone, and then it is not said that nothing was."""
    file = copied / "release" / "manifest.json"
    file.write_text(json.dumps(merge(json.loads(file.read_text()), change)))
    write_report_page(copied / "release", copied / "report.html")
    page = (copied / "report.html").read_text()
    assert says in page
    assert NOTHING not in page


def test_the_promise_is_that_of_the_setting(copied, pages):
    """What two inputs and --link-safe add; and that rare requests were kept."""
    one_log, recurring = "Somebody who knows that several requests", "A request that recurs in"
    public = pages["public"].read_text()
    assert one_log in public
    assert recurring in public
    file = copied / "release" / "manifest.json"
    change = {"attacker": "tp-aware", "parameters": {"link_safe": True, "allow": []}}
    file.write_text(json.dumps(merge(json.loads(file.read_text()), change)))
    write_report_page(copied / "release", copied / "report.html")
    page = (copied / "report.html").read_text()
    assert one_log not in page
    assert recurring not in page
    assert "giving a request to another user of its bundle gives the same release" in page
    assert 'Rare requests are published, too (<code class="option">--rare</code> keep)' in page


def merge(old, new):
    """Replace some leaves of nested dictionaries."""
    return {**old, **{k: merge(old[k], v) if isinstance(v, dict) else v for k, v in new.items()}}


def test_without_the_attack(copied):
    assert write_private(copied, attack=False).private
    assert "Not run: it was left out when this page" in (copied / "report.html").read_text()


def test_the_page_about_a_stream_has_its_rules(tmp_path):
    """Of a stream that was interrupted; what is not available for streams is said to be so."""
    lines = Walk(users=30, instants=20, seed=4, absence=0.04).list_lines()
    cut = next(n for n, line in enumerate(lines) if line["time"] >= START + 8 * EVERY)
    for some in (lines[:cut], lines[cut:]):
        run = run_stream(tmp_path / "run", some, parts=2)
    finished = run.state / "finished" / "*"
    write_report_page(
        run.release, tmp_path / "report.html", log=str(finished / "locations.parquet"),
        policy=run.state / "policy.parquet", request_log=str(finished / "requests.parquet"),
    )  # fmt: skip
    page = (tmp_path / "report.html").read_text()
    assert "all 12 checks passed" in page
    assert "Not run: this is not available for releases of streams" in page
    assert "Not counted: this is not available for releases of streams" in page
    assert "the audit failed" not in page
    manifest = json.loads((run.release / "manifest.json").read_text())
    shown = pq.read_table(run.release / "bundles.parquet", columns=["bundle_id", "instant"])
    silent, num_sets = manifest["withheld"]["sets"], manifest["bundles"] * 3
    assert silent
    assert shown.group_by(shown.column_names).aggregate([]).num_rows == num_sets - silent
    assert f"{silent} of {num_sets} sets of requests" in page
    assert "too few users of the bundle were left" in page
    assert "1 epoch with too few users, or in which a run of the stream ended" in page
    assert "users who came within an epoch, or were absent at one of its instants" in page
    assert "requests that fewer than 2 bundles show at their instant</li>" in page
    assert "of their window show" not in page
    assert "A request that recurs in several windows may link these" in page
    assert "--link-safe" not in page
    assert "with all users still in its bundle, 3 or more" in page
    assert "The release has no instants where the line is broken." in page
    files = {f"policy file: {name}" for name in ("policy.parquet", "policy-parts.parquet")}
    assert files <= list_digests(page).keys()


@pytest.mark.parametrize(
    ("per", "words", "limit"),
    [
        ("window", "is the anonymity of whereabouts.", "Parts keep their users for a whole window"),
        (
            "instant",
            "is the anonymity of whereabouts, for single instants only.",
            "A way that is pieced together from parts may be that of fewer users",
        ),
    ],
)
def test_the_promise_of_parts(tmp_path, per, words, limit):
    """Requests at k, whereabouts at M; and all private files have their digest."""
    options = {"parts": 2, "parts_per": per, "rare": "drop", "allow": ()}
    publish(tmp_path, 60, 8, 5, ["fuel", "bus", "food"], algorithm="refined", **options)
    write_private(tmp_path, attack=False)
    page = (tmp_path / "report.html").read_text()
    assert "sees areas of at least 2 users. So this number (M), not k, " + words in page
    assert limit in page
    assert "published as the areas of its parts, each of at least 2 users, for each" in page
    assert "published as one area" not in page
    private = ["policy.parquet", *(["policy-parts.parquet"] if per == "instant" else [])]
    found = {name: sha for name, sha in list_digests(page).items() if name.startswith("policy")}
    assert found == {f"policy file: {name}": digest(tmp_path / name) for name in private}


@pytest.mark.parametrize("given", [{"log": "log.parquet"}, {"policy": "policy.parquet"}])
def test_log_and_policy_go_together(copied, given):
    options = {name: copied / file for name, file in given.items()}
    with pytest.raises(tc.OptionError, match="expected both or neither"):
        write_report_page(copied / "release", copied / "report.html", **options)
    assert not (copied / "report.html").exists()


def test_nothing_is_overwritten_and_no_link_followed(copied):
    (copied / "report.html").symlink_to(copied / "victim.html")
    before = list_tree(copied)
    with pytest.raises(tc.OutputError, match="exists already"):
        write_report_page(copied / "release", copied / "report.html")
    assert list_tree(copied) == before


def test_no_report_inside_a_release(copied):
    """A release is three files; a private page inside it would be given away with it."""
    for name in ("release/report.html", "release/../release/report.html"):
        with pytest.raises(tc.OptionError, match="the report would stand inside the release"):
            write_private(copied, name)
    (copied / "link").symlink_to(copied / "release")
    with pytest.raises(tc.OptionError, match="the report would stand inside the release"):
        write_report_page(copied / "release", copied / "link" / "report.html")
    assert len(list((copied / "release").iterdir())) == 3


def test_no_report_inside_the_log(copied):
    (copied / "logs").mkdir()
    (copied / "log.parquet").rename(copied / "logs" / "log.parquet")
    with pytest.raises(tc.OptionError, match="would stand inside the folder of the log"):
        write_report_page(
            copied / "release", copied / "logs" / "report.html", log=copied / "logs",
            policy=copied / "policy.parquet", columns=COLUMNS,
        )  # fmt: skip


def test_no_user_is_named(copied):
    """With ids that cannot be anything else."""
    table = pq.read_table(copied / "log.parquet")
    ids = [f"user-{number:09d}" for number in table["user_id"].to_pylist()]
    table = table.set_column(0, "user_id", [ids])
    pq.write_table(table, copied / "named.parquet")
    result = anonymize(
        read_in_memory(copied / "named.parquet", COLUMNS), 5, rare="keep", allow=("what",), length=4
    )
    result.write(copied / "named", copied / "named-policy.parquet")
    write_report_page(
        copied / "named", copied / "report.html", log=copied / "named.parquet",
        policy=copied / "named-policy.parquet", columns=COLUMNS,
    )  # fmt: skip
    assert "user-0" not in (copied / "report.html").read_text()


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (None, "bundles, each with an area per instant"),
        (2, "bundles, each in parts of at least 2 users with an area per instant"),
    ],
)
def test_the_verdict_says_in_which_areas_bundles_are_shown(tmp_path, parts, words):
    rows = [Row(user, time, 10 * user, time, "food") for user in range(12) for time in range(3)]
    anonymize(read_rows(rows), 4, rare="keep", parts=parts).write(
        tmp_path / "release", tmp_path / "policy.parquet"
    )
    write_report_page(tmp_path / "release", tmp_path / "report.html")
    assert words in (tmp_path / "report.html").read_text()
