"""Commands on locations and requests from two inputs."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajcloak.cli import cli
from trajcloak.log import read as read_module

REQUESTS = ("--request", "category", "--request", "detail")
GENERATE = ("generate", "--users", "60", "--length", "4", "--junctions", "2000")


@pytest.fixture
def inputs(run, tmp_path):
    """Locations, their request log, and both in one file with a column that marks reports."""
    done = run(*GENERATE, "-o", "places.parquet", "--request-log", "requests.csv", "--json")
    assert (done.code, json.loads(done.out)["request_log"]) == (0, "requests.csv")
    done = run(*GENERATE, "-o", "x.parquet", "--request-log", "requests.parquet")
    assert "requests.parquet" in done.out
    tables = pq.read_table("places.parquet"), pq.read_table("requests.parquet")
    marked = [
        table.append_column("report", pa.array([is_report] * len(table)))
        for table, is_report in zip(tables, (True, False), strict=True)
    ]
    pq.write_table(pa.concat_tables(marked[::-1], promote_options="default"), "marked.parquet")
    return tmp_path


TWO = {
    "request log": ("places.parquet", "--request-log", "requests.parquet"),
    "CSV": ("places.parquet", "--request-log", "requests.csv"),
    "is report": ("marked.parquet", "--is-report", "report"),
}


@pytest.mark.parametrize("memory", [(), ("--memory", "1GiB")], ids=["", "folder"])
def test_anonymize(run, inputs, memory):
    found = []
    for number, source in enumerate(TWO.values()):
        done = run("anonymize", *source, "-o", f"release{number}", "--k", "5", *REQUESTS, *memory)
        assert done.code == 0, done.err
        found.append(
            [
                (inputs / f"release{number}" / name).read_bytes()
                for name in ("bundles.parquet", "requests.parquet")
            ]
        )
    assert found[0] == found[1] == found[2]
    assert pq.read_table("release0/requests.parquet").num_rows > 0


@pytest.mark.parametrize("source", TWO.values(), ids=TWO)
@pytest.mark.parametrize(
    "command",
    [
        ("inspect",),
        ("attack", "--k", "5"),
        ("compare", "--k", "5", "--algorithms", "baseline"),
    ],
    ids=lambda command: command[0],
)
def test_commands_on_logs(run, inputs, source, command):
    done = run(*command, *source, *REQUESTS, "--json")
    assert done.code == 0, done.err
    expected = run(*command, *TWO["request log"], *REQUESTS, "--json")
    one, other = json.loads(done.out), json.loads(expected.out)
    if command[0] == "compare":
        one, other = ([r["cost_mbr"] for r in found["results"]] for found in (one, other))
    # The proposed command names the files.
    one, other = (
        {name: value for name, value in found.items() if name != "command"}
        if isinstance(found, dict)
        else found
        for found in (one, other)
    )
    assert one == other


@pytest.mark.parametrize("source", TWO.values(), ids=TWO)
def test_utility(run, inputs, source):
    run("anonymize", *source, "-o", "release", "--k", "5", *REQUESTS, "--policy", "p.parquet")
    log, *rest = source
    done = run(
        "utility", log, "release", "--policy", "p.parquet", *rest, "--queries", "40", "--json"
    )
    assert done.code == 0, done.err
    assert {result["question"] for result in json.loads(done.out)["results"]} >= {"requests"}


def test_nothing_is_written_into_a_folder_of_requests(run, inputs):
    (inputs / "sent").mkdir()
    (inputs / "requests.csv").rename(inputs / "sent" / "requests.csv")
    given = ("anonymize", "places.parquet", "--request-log", "sent", "--k", "5", *REQUESTS)
    for more in (("-o", "sent/release"), ("-o", "sent/release", "--memory", "1GiB")):
        done = run(*given, *more)
        assert done.code == 2
        assert "sent/release: would stand inside the folder of the log sent" in done.err
    assert run(*given, "-o", "release").code == 0


def test_a_run_is_continued_with_the_same_request_log(run, inputs, monkeypatch):
    given = ("anonymize", "places.parquet", "--k", "5", *REQUESTS, "-o", "release")
    memory = ("--memory", "1GiB", "--request-log", "requests.csv")
    with monkeypatch.context() as patched:
        patched.setattr(read_module, "match_requests", None)
        with pytest.raises(TypeError):
            cli.main([*given, *memory], standalone_mode=False)
    assert (inputs / ".release.trajcloak-work").exists()
    content = (inputs / "requests.csv").read_text()
    (inputs / "requests.csv").write_text(content + content.splitlines()[1] + "\n")
    done = run(*given, *memory, "--resume")
    assert done.code == 2
    assert "had other log files" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--request-log", "requests.csv", "--is-report", "report"), "leave out --request-log or"),
        (("--is-report", "time"), "column 'time' is to say which rows are location reports"),
        (("--request-log", "gone.csv"), "request log: gone.csv: no log found"),
    ],
)
def test_what_does_not_go_together(run, inputs, options, message):
    done = run("inspect", "marked.parquet", *options, *REQUESTS)
    assert done.code == 2
    assert message in " ".join(done.err.split())


def test_a_foreign_release_has_no_requests(run):
    done = run("audit", "a", "b", "--foreign", "--k", "2", "--request-log", "c")
    assert done.code == 2
    assert "--request-log does not go with --foreign" in done.err
