"""Tricks with paths and links: nothing lands where it must not."""

import pyarrow as pa
import pyarrow.csv
import pytest

import trajcloak as tc
from runs import anonymize
from small_logs import clustered_rows, list_tree, read_rows
from test_output import KINDS, fill
from trajcloak.log.write import log_writer


@pytest.fixture(scope="module")
def result():
    return anonymize(read_rows(clustered_rows()), 3)


@KINDS
def test_a_parent_may_be_a_link(tmp_path, new, is_folder):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with new(tmp_path / "link" / "out") as staging:
        fill(staging, is_folder)
    assert (tmp_path / "real" / "out").exists()


@pytest.mark.parametrize("leads_to", ["nowhere", "folder", "file"])
def test_a_link_is_no_new_path(tmp_path, result, leads_to):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / leads_to)
    before = list_tree(tmp_path)
    for write in (
        lambda: result.write(tmp_path / "link"),
        lambda: result.write(tmp_path / "release", tmp_path / "link"),
    ):
        with pytest.raises(tc.OutputError, match="link: exists already"):
            write()
    assert list_tree(tmp_path) == before


@pytest.mark.parametrize(
    "path",
    [
        "release/policy.parquet",
        "release/../release/policy.parquet",
        "other/../release/policy.parquet",
        "link/policy.parquet",
        "link/../release/policy.parquet",
        "chain/policy.parquet",
        "./release/./policy.parquet",
    ],
)
@pytest.mark.parametrize("is_relative", [True, False])
def test_no_policy_inside_a_release(tmp_path, monkeypatch, result, path, is_relative):
    monkeypatch.chdir(tmp_path)
    result.write("release")
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("release")
    (tmp_path / "chain").symlink_to("link")
    before = list_tree(tmp_path)
    target = path if is_relative else tmp_path / path
    with pytest.raises(tc.OptionError, match="would stand inside the release"):
        result.write("release-2", target)
    assert list_tree(tmp_path) == before


@pytest.mark.parametrize("name", ["release", "Release", "RELEASE"])
def test_no_policy_inside_the_release_that_is_being_made(tmp_path, result, name):
    """Spelt otherwise the folder does not exist, or is the same one, which is new."""
    with pytest.raises((tc.OptionError, tc.OutputError)):
        result.write(tmp_path / "release", tmp_path / name / "policy.parquet")
    assert list_tree(tmp_path) == {}


def test_text_of_others_is_quoted_in_csv(tmp_path):
    """And comes back as it was, but for an apostrophe before what looks like a formula."""
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "a,b", 'say "x"', "two\nlines", "\t=1"]
    n = len(texts)
    table = pa.table(
        {"user_id": texts, "time": list(range(n)), "x": [1.0] * n, "y": [1.0] * n, "what": texts}
    )
    with log_writer(tmp_path / "log.csv", table.schema, quoting="needed") as append:
        append(table)
    text = (tmp_path / "log.csv").read_text()
    assert '"\'=1+1"' in text
    assert '"say ""x"""' in text
    back = pa.csv.read_csv(
        tmp_path / "log.csv", parse_options=pa.csv.ParseOptions(newlines_in_values=True)
    )
    formulas = ("=", "+", "-", "@", "\t")
    assert back["what"].to_pylist() == [f"'{t}" if t.startswith(formulas) else t for t in texts]
