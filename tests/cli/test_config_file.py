"""Options from ``trajcloak.toml``, so that they are not repeated in every command."""

import json
from pathlib import Path

import pytest

HEADER = "who,when,east,north,what"


def write_log() -> None:
    lines = [f"u{u},{t},{u},{t},bar" for u in range(6) for t in range(3)]
    Path("log.csv").write_text("\n".join((HEADER, *lines)) + "\n")


COLUMNS = 'user = "who"\ntime = "when"\nx = "east"\ny = "north"\nrequest = ["what"]\n'


def test_columns_and_options_of_the_working_folder(run):
    write_log()
    assert run("anonymize", "log.csv", "-o", "release", "--k", 2).code == 2
    Path("trajcloak.toml").write_text(COLUMNS + "k = 3\n[anonymize]\nmax_gap = 2\n")
    done = run("anonymize", "log.csv", "-o", "release", "--policy", "policy.parquet", "--json")
    assert done.code == 0
    manifest = json.loads(done.out)["manifest"]
    assert (manifest["k"], manifest["parameters"]["max_gap"]) == (3, 2)
    assert manifest["parameters"]["requests"] == ["what"]
    assert "Note: options from trajcloak.toml: k, user, time, x, y, request, max-gap" in done.err
    done = run("audit", "log.csv", "release", "--policy", "policy.parquet")
    assert done.code == 0
    # Nothing of the file is an option of this command.
    assert run("convert", "nothing.gpx", "-o", "x.csv").err.startswith("Error: ")


def test_the_command_line_comes_first(run):
    write_log()
    Path("trajcloak.toml").write_text(COLUMNS + "k = 3\n")
    done = run("anonymize", "log.csv", "-o", "release", "--k", 2, "--json")
    assert json.loads(done.out)["manifest"]["k"] == 2


def test_another_file(run):
    write_log()
    Path("mine.toml").write_text(
        COLUMNS + 'k = 3\ndrop = "empty"\nrare = "keep"\nlink_safe = true\n'
    )
    done = run("anonymize", "log.csv", "-o", "release", "--config", "mine.toml", "--json")
    assert done.code == 0
    made = json.loads(done.out)["manifest"]["parameters"]
    assert (made["drop"], made["rare"], made["link_safe"]) == ("empty", "keep", True)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("usr = 'who'", "trajcloak.toml: no such option 'usr'. Did you mean 'user'?"),
        (
            "[anonymise]\nk = 3",
            "trajcloak.toml: no such option 'anonymise'. Did you mean 'anonymize'?",
        ),
        (
            "[anonymize]\nmax-gab = 3",
            "trajcloak.toml: no such option 'max-gab' of [anonymize]. Did you mean 'max-gap'?",
        ),
        ("[query]\nk = 3", "trajcloak.toml: no such option 'k' of [query]."),
        ("config = 'other.toml'", "trajcloak.toml: no such option 'config'."),
        ("k = ", "trajcloak.toml: not TOML: "),
        ("k = 'many'", "Invalid value for '--k': 'many' is not a valid integer."),
    ],
)
def test_mistakes(run, content, says):
    write_log()
    Path("trajcloak.toml").write_text(content)
    done = run("anonymize", "log.csv", "-o", "release")
    assert done.code == 2
    assert f"Error: {says}" in done.err


def test_a_file_that_is_not_there(run):
    done = run("anonymize", "log.csv", "-o", "release", "--k", 2, "--config", "gone.toml")
    assert done.code == 2
    assert "gone.toml: cannot be read (No such file or directory)" in done.err
