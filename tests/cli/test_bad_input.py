"""Bad input, case by case: exit code 2, one clear message, and nothing written.

The logs hold ids and coordinates that must not show in a message (invariant 6).
What the library itself says of bad input is tested in ``tests/bad_input``.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from small_logs import list_tree

HEADER = "user_id,time,x,y,what"
DEGREES = "user_id,time,lon,lat,what"
IDS = ("zebra-4711", "okapi-8822", "tapir-3344")
PLACES = (7213.8831, 7645.1279, 7401.9953)
SECRETS = (*IDS, *(f"{place:.2f}" for place in PLACES), *(f"{place:g}" for place in PLACES))


@dataclass(frozen=True)
class Case:
    """What is wrong; how the message begins; whether click itself finds it."""

    name: str
    says: str
    build: Callable[[Path], list[str]]
    is_usage: bool = False


CASES: list[Case] = []
LOG_CASES: list[Case] = []
"""Those in which it is the log that is wrong, so that no command can read it."""


def case(says: str, *, is_usage: bool = False):
    """Add a case; its function returns the arguments of ``anonymize`` after the log."""

    def add(build):
        CASES.append(Case(build.__name__, says, build, is_usage))

    return add


def log_case(says: str):
    """Add a case; its function writes ``log.csv`` or ``log.parquet`` and returns its name."""

    def add(build):
        LOG_CASES.append(Case(build.__name__, says, build))

    return add


def write_csv(*lines: str, header: str = HEADER) -> str:
    Path("log.csv").write_text("\n".join((header, *lines)) + "\n")
    return "log.csv"


def line(number: int, *, time: object = 0, x: object = None, y: object = None) -> str:
    place = PLACES[number]
    return f"{IDS[number]},{time},{place if x is None else x},{place if y is None else y},r"


def write_table(**columns) -> str:
    default = {"user_id": IDS, "time": [0] * 3, "x": PLACES, "y": PLACES, "what": ["r"] * 3}
    pq.write_table(pa.table({**default, **columns}), "log.parquet")
    return "log.parquet"


def good_log() -> str:
    return write_csv(*(line(number) for number in range(3)))


@log_case(r"log\.csv: .*; expected a (header and rows|complete CSV file)")
def empty_file(folder):
    Path("log.csv").touch()
    return "log.csv"


@log_case(r".*log.* no rows; expected at least one")
def no_rows(folder):
    return write_csv()


@log_case(r"log\.csv: .*column.* 'y'.*; expected ")
def missing_column(folder):
    return write_csv(f"{IDS[0]},0,{PLACES[0]},r", header="user_id,time,x,what")


@log_case(r".*row 2: column 'x' .*; expected ")
def nan_coordinate(folder):
    return write_csv(line(0), line(1, x="nan"))


@log_case(r".*row 3: column 'y' .*; expected ")
def nan_coordinate_in_parquet(folder):
    return write_table(y=[PLACES[0], PLACES[1], float("nan")])


@log_case(r".*row 2: column 'x' .*; expected a (finite )?number")
def text_in_a_number(folder):
    return write_csv(line(0), line(1, x=IDS[2]), line(2))


@log_case(r".*row 2: column 'lat' is out of range .*; expected -90\.\.90 degrees")
def latitude_137(folder):
    lines = (line(0, x=13, y=52), line(1, x=13, y=137), line(2, x=13, y=52))
    return write_csv(*lines, header=DEGREES)


@log_case(r".*row 3: column 'user_id' .*; expected ")
def empty_user_id(folder):
    return write_csv(line(0), line(1), f",0,{PLACES[2]},{PLACES[2]},r")


@log_case(r".*row 2: column 'user_id' .*; expected ")
def null_user_id_in_parquet(folder):
    return write_table(user_id=[IDS[0], None, IDS[2]])


@log_case(r".*rows 2 and 4: .*; expected one place")
def two_places_at_once(folder):
    return write_csv(line(0), line(1), line(2), line(1, x=PLACES[0]))


@log_case(r"log\.parquet: .*; expected ")
def unreadable_file(folder):
    write_table()
    if os.geteuid() == 0:
        # Root may read everything, but not a folder as if it were a file.
        Path("log.parquet").unlink()
        Path("log.parquet").mkdir()
    else:
        Path("log.parquet").chmod(0)
    return "log.parquet"


@log_case(r"log\.parquet: cannot be read.*; expected ")
def truncated_parquet(folder):
    path = Path(write_table())
    path.write_bytes(path.read_bytes()[:-20])
    return "log.parquet"


@log_case(r"log\.csv: .*; expected ")
def no_such_log(folder):
    return "log.csv"


@log_case(r"log\.txt: .*; expected ")
def another_kind_of_file(folder):
    Path(good_log()).rename("log.txt")
    return "log.txt"


@case(r"the log has 3 users; expected at least 4 for a bundle; lower --k")
def fewer_than_k_users(folder):
    return ["--k", "4"]


@case(r"k is 0; expected a whole number of at least 2")
def k_of_0(folder):
    return ["--k", "0"]


@case(r"k is 1; expected a whole number of at least 2")
def k_of_1(folder):
    return ["--k", "1"]


@case(r"k is -5; expected a whole number of at least 2")
def negative_k(folder):
    return ["--k", "-5"]


@case(r"Invalid value for '--k': 'many' is not a valid integer", is_usage=True)
def k_in_words(folder):
    return ["--k", "many"]


@case(r"Invalid value for '--k': '2\.5' is not a valid integer", is_usage=True)
def k_with_decimals(folder):
    return ["--k", "2.5"]


@case(r"Missing option '--k'", is_usage=True)
def no_k(folder):
    return []


@case(r"release: exists already; expected a new path")
def output_exists(folder):
    Path("release").mkdir()
    return ["--k", "2"]


@case(r"release: exists already; expected a new path")
def output_exists_as_a_file(folder):
    Path("release").write_text("mine")
    return ["--k", "2"]


@case(r"\.: exists already; expected a new path")
def output_is_the_current_folder(folder):
    return ["--k", "2", "-o", "."]


@case(r"\.: exists already; expected a new path")
def output_in_bounded_memory_is_the_current_folder(folder):
    return ["--k", "2", "-o", ".", "--memory", "1GiB"]


@case(r"\.: exists already; expected a new path")
def policy_is_the_current_folder(folder):
    return ["--k", "2", "--policy", "."]


@case(r"policy\.parquet: exists already; expected a new path")
def policy_exists(folder):
    Path("policy.parquet").write_text("mine")
    return ["--k", "2", "--policy", "policy.parquet"]


@case(r"release/policy\.parquet: the policy file would stand inside the release release; expected")
def policy_inside_the_release(folder):
    return ["--k", "2", "--policy", "release/policy.parquet"]


@case(r"old/policy\.parquet: the policy file would stand inside the release .*; expected")
def policy_inside_another_release(folder):
    Path("old").mkdir()
    for name in ("manifest.json", "bundles.parquet", "requests.parquet"):
        Path("old", name).touch()
    return ["--k", "2", "--policy", "old/policy.parquet"]


@case(r"algorithm is 'magic'; expected one of traj-anon")
def unknown_algorithm(folder):
    return ["--k", "2", "--algorithm", "magic"]


@case(r"Invalid value for '--cloak': 'cape' is not one of", is_usage=True)
def unknown_cloak(folder):
    return ["--k", "2", "--cloak", "cape"]


@case(r"both a price and a budget for suppression are given; expected one of them")
def both_suppression_options(folder):
    return ["--k", "2", "--suppress-above", "100", "--max-suppressed", "1%"]


@case(r"Invalid value for '--max-suppressed': 'few' is not a share such as 1%", is_usage=True)
def share_in_words(folder):
    return ["--k", "2", "--max-suppressed", "few"]


@case(r"Invalid value for '--region': '1,2' is not 3 numbers", is_usage=True)
def region_of_two_numbers(folder):
    return ["--k", "2", "--region", "1,2"]


@case(r"No such option '?--magic", is_usage=True)
def unknown_option(folder):
    return ["--k", "2", "--magic"]


@case(r"every is '60s'; the log has integer instants, so expected a whole number")
def duration_for_instants(folder):
    return ["--k", "2", "--every", "60s"]


@case(r"Invalid value for '--length': 0 is not in the range x>=1", is_usage=True)
def empty_windows(folder):
    return ["--k", "2", "--length", "0"]


@case(r"log\.csv: .*'colour'.*; expected ")
def unknown_request_column(folder):
    return ["--k", "2", "--request", "colour"]


@case(r"request column 'user_id' also holds the user, time or place, ")
def user_column_as_request(folder):
    return ["--k", "2", "--request", "user_id"]


@case(r"request column 'x' also holds the user, time or place, ")
def place_column_as_request(folder):
    return ["--k", "2", "--request", "x"]


def check_refusal(done, says: str, *, is_usage: bool = False) -> None:
    """Exit code 2 and one message: what is wrong, what was expected, and a remedy."""
    assert done.code == 2
    assert done.out == ""
    assert "Traceback" not in done.err
    assert done.err.count("Error: ") == 1
    before, message = done.err.split("Error: ")
    assert re.match(says, message), message
    assert message.endswith("\n")
    assert message.count("\n") == 1
    if is_usage:
        assert re.search(r"^Try 'trajcloak \w+ --help' for help\.$", before, re.MULTILINE)
    else:
        assert before == ""
        *_, remedy = message.split("; ")
        assert message.count("; ") >= 1
        assert not remedy.startswith("expected"), f"no remedy: {message}"
    assert not [secret for secret in SECRETS if secret in done.err]


@pytest.mark.parametrize("bad", CASES, ids=lambda bad: bad.name)
def test_bad_options(run, tmp_path, bad):
    log = good_log()
    args = bad.build(tmp_path)
    before = list_tree(tmp_path)
    done = run("anonymize", log, "-o", "release", *args)
    check_refusal(done, bad.says, is_usage=bad.is_usage)
    assert list_tree(tmp_path) == before, "something was written"


@pytest.mark.parametrize("bad", LOG_CASES, ids=lambda bad: bad.name)
def test_anonymize_refuses_a_bad_log(run, tmp_path, bad):
    log = bad.build(tmp_path)
    before = list_names(tmp_path)
    args = ("-o", "release", "--k", 2, "--request", "what", "--policy", "policy.parquet")
    check_refusal(run("anonymize", log, *args), bad.says)
    assert list_names(tmp_path) == before, "something was written"


@pytest.mark.parametrize("bad", LOG_CASES, ids=lambda bad: bad.name)
def test_audit_refuses_a_bad_log(run, made, tmp_path, bad):
    log = bad.build(tmp_path)
    before = list_names(tmp_path)
    args = (made / "release", "--policy", made / "policy.parquet", "--request", "what")
    # The audit has no row numbers: who wants them anonymizes.
    check_refusal(run("audit", log, *args), r".*; expected ")
    assert list_names(tmp_path) == before, "something was written"


def list_names(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_the_cases_fail_for_their_own_reason_only(run, tmp_path):
    """A good log and good options pass; its secrets would be found."""
    log = good_log()
    args = ("--k", 2, "--request", "what", "--policy", "policy.parquet")
    assert run("anonymize", log, "-o", "release", *args).code == 0
    assert [secret for secret in SECRETS if secret in Path(log).read_text()]


@pytest.mark.parametrize(
    ("args", "says", "is_usage"),
    [
        (["-o", "taken.csv"], r"taken\.csv: exists already; expected a new path", False),
        (["-o", "log.txt"], r"log\.txt: .*; expected '\.parquet' or '\.csv'", False),
        (["-o", "none/log.csv"], r"none/log\.csv: there is no folder none; expected", False),
        (["--users", "0"], r"users is 0; expected a whole number from 1", False),
        (["--length", "0"], r"length is 0; expected a whole number from 1", False),
        (["--seed", "-1"], r"seed is -1; expected a whole number from 0", False),
        (["--request-share", "2"], r"request_share is 2\.0; expected a number from 0 to 1", False),
        (["--every", "0"], r"Invalid value for '--every': 0 is not in the range", True),
        (["--network", "moon"], r"moon: no such file or folder; expected a \.node or", False),
        (["--junctions", "5"], r"junctions is 5; expected a whole number from 2000", False),
        (["--classes", "0"], r"classes is 0; expected a whole number from 1", False),
        (["--speed", "light"], r"Invalid value for '--speed': 'light' is not one of", True),
        (["--on-arrival", "leave"], r"Invalid value for '--on-arrival': 'leave' is not", True),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_generate_refuses(run, tmp_path, args, says, is_usage):
    Path("taken.csv").write_text("mine")
    before = list_tree(tmp_path)
    done = run("generate", "-o", "log.csv", "--users", 3, "--length", 3, *args)
    check_refusal(done, says, is_usage=is_usage)
    assert list_tree(tmp_path) == before, "something was written"


def test_unknown_command(run):
    done = run("publish")
    assert done.code == 2
    assert done.err.endswith("Error: No such command 'publish'.\n")
    done = run("anonymise", "log.csv")
    assert done.err.endswith("Error: No such command 'anonymise'. Did you mean 'anonymize'?\n")


def test_message_is_not_wrapped_in_a_file(run):
    """Whoever searches a log of messages finds each on one line, however long."""
    name = "long-" * 40 + ".csv"
    done = run("anonymize", name, "-o", "release", "--k", 2)
    assert done.err.startswith(f"Error: {name}: no log found; ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("output", "policy"),
    [
        ("logs/release", "policy.parquet"),
        ("release", "logs/policy.parquet"),
        ("logs/inner/release", None),
        ("link/release", None),
        ("logs/../logs/release", None),
    ],
)
def test_nothing_is_written_into_the_log(run, made, tmp_path, output, policy):
    (tmp_path / "logs" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("logs")
    (tmp_path / "logs" / "log.parquet").write_bytes((made / "log.parquet").read_bytes())
    args = () if policy is None else ("--policy", policy)
    done = run("anonymize", "logs", "-o", output, "--k", 5, *args)
    assert done.code == 2
    assert "would stand inside the folder of the log logs; expected a place outside it" in done.err
    assert [child.name for child in (tmp_path / "logs").rglob("*")] == ["inner", "log.parquet"]
