"""Bad input, case by case: the right error, a message that helps, and nothing written.

The cases also serve invariant 6: their logs hold ids and coordinates that must not
show in a message.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from small_logs import list_tree

HEADER = "user_id,time,x,y,what\n"
DEGREES = "user_id,time,lon,lat,what\n"
COLUMNS = tc.LogColumns(requests=("what",))


class Secrets:
    """Ids and coordinates that would be recognised in a message."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words: set[str] = set()

    def user(self) -> str:
        name = f"zq{self._random.randrange(16**8):08x}"
        self._words.add(name)
        return name

    def number(self) -> int:
        """An id above 2^63."""
        number = self._random.randrange(2**63, 2**64)
        self._words.add(str(number))
        return number

    def place(self, low: float = 7000, high: float = 7999) -> float:
        value = round(self._random.uniform(low, high), 9)
        # Also as a message would round it, unless too little is left to tell it from chance.
        rounded = {str(value), f"{value:.3f}", f"{value:.4f}", f"{value:.5g}", f"{value:.6g}"}
        self._words |= {text for text in rounded if len(text.lstrip("0.")) >= 6}
        return value

    def row(self, time: Any = 0, low: float = 7000, high: float = 7999) -> str:
        """A line of CSV."""
        return f"{self.user()},{time},{self.place(low, high)},{self.place(low, high)},r\n"

    def find(self, message: str) -> set[str]:
        """The secrets that a message tells."""
        return {word for word in self._words if word in message}


@dataclass(frozen=True)
class Attempt:
    """A run that must fail."""

    source: Any
    k: int = 2
    columns: tc.LogColumns = COLUMNS
    options: dict[str, Any] = field(default_factory=dict)
    release: str = "release"
    policy: str = "policy.parquet"

    def run(self, folder: Path) -> None:
        log = tc.read_log(self.source, self.columns)
        result = tc.anonymize(log, self.k, **self.options)
        result.write(folder / self.release, folder / self.policy)


@dataclass(frozen=True)
class Case:
    """What is wrong, and what the message must say first."""

    name: str
    error: type[tc.TrajcloakError]
    says: str
    build: Callable[[Path, Secrets], Attempt]


CASES: list[Case] = []


def case(error: type[tc.TrajcloakError], says: str):
    """Add a case; its function writes the log and returns the attempt."""

    def add(build: Callable[[Path, Secrets], Attempt]):
        CASES.append(Case(build.__name__, error, says, build))
        return build

    return add


def write_csv(folder: Path, *lines: str, header: str = HEADER, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_text(header + "".join(lines))
    return path


def write_parquet(folder: Path, secrets: Secrets, name: str = "log.parquet", **columns) -> Path:
    n = len(next(iter(columns.values())))
    default = {
        "user_id": [secrets.user() for _ in range(n)],
        "time": [0] * n,
        "x": [secrets.place() for _ in range(n)],
        "y": [secrets.place() for _ in range(n)],
        "what": ["r"] * n,
    }
    pq.write_table(pa.table(default | columns), folder / name)
    return folder / name


def good_lines(secrets: Secrets, count: int = 3) -> list[str]:
    return [secrets.row() for _ in range(count)]


@case(tc.InputError, r"no log is given")
def nothing_given(folder, secrets):
    return Attempt([])


@case(tc.InputError, r"missing\.csv: no log found")
def no_file(folder, secrets):
    return Attempt(folder / "missing.csv")


@case(tc.InputError, r"nothing\*: no log found")
def glob_without_files(folder, secrets):
    return Attempt(str(folder / "nothing*"))


@case(tc.InputError, r"log\.xlsx: unknown kind of file")
def another_kind_of_file(folder, secrets):
    return Attempt(write_csv(folder, secrets.row(), name="log.xlsx"))


@case(tc.InputError, r"log\.csv: the file is empty")
def empty_csv(folder, secrets):
    return Attempt(write_csv(folder, header=""))


@case(tc.InputError, r"log\.parquet: the file is empty")
def empty_parquet(folder, secrets):
    return Attempt(write_csv(folder, header="", name="log.parquet"))


@case(tc.InputError, r"log\.csv: the log has no rows")
def only_a_header(folder, secrets):
    return Attempt(write_csv(folder))


@case(tc.InputError, r"log\.parquet: the log has no rows")
def no_rows(folder, secrets):
    empty = pa.array([], pa.int64())
    columns = {"time": empty, "x": empty, "y": empty, "what": pa.array([], pa.string())}
    return Attempt(write_parquet(folder, secrets, user_id=empty, **columns))


@case(tc.InputError, r"b\.parquet: cannot be read")
def damaged_parquet(folder, secrets):
    good = write_parquet(folder, secrets, "a.parquet", time=[0, 0])
    content = good.read_bytes()
    (folder / "b.parquet").write_bytes(content[: len(content) // 2])
    return Attempt(folder / "*.parquet")


@case(tc.InputError, r"log\.parquet: cannot be read")
def csv_named_parquet(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets), name="log.parquet"))


@case(tc.InputError, r"log\.csv: there is no column 'user_id'")
def csv_without_header(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets), header=""))


@case(tc.InputError, r"log\.csv: there is no column 'what'")
def missing_request_column(folder, secrets):
    line = f"{secrets.user()},0,{secrets.place()},{secrets.place()}\n"
    return Attempt(write_csv(folder, line, header="user_id,time,x,y\n"))


@case(tc.InputError, r"log\.parquet: there is no column 'time' among user_id, when, x, y, what")
def missing_time_column(folder, secrets):
    path = write_parquet(folder, secrets, time=[0, 0])
    names = ["user_id", "when", "x", "y", "what"]
    pq.write_table(pq.read_table(path).rename_columns(names), path)
    return Attempt(path)


@case(tc.OptionError, r"the log has both lon/lat and x/y")
def two_pairs_of_coordinates(folder, secrets):
    header = "user_id,time,x,y,what,lon,lat\n"
    return Attempt(write_csv(folder, secrets.row().strip() + ",1,2\n", header=header))


@case(tc.OptionError, r"column 'x' is to hold two of user, time, place and request")
def place_as_request(folder, secrets):
    path = write_csv(folder, *good_lines(secrets))
    return Attempt(path, columns=tc.LogColumns(requests=("what", "x")))


@case(tc.InputError, r"log\.csv: row 3 has 4 columns; expected 5")
def short_row(folder, secrets):
    lines = good_lines(secrets)
    lines[2] = f"{secrets.user()},0,{secrets.place()},{secrets.place()}\n"
    return Attempt(write_csv(folder, *lines))


@case(tc.InputError, r"log\.csv: row 1 has 2 columns; expected 5")
def only_short_rows(folder, secrets):
    return Attempt(write_csv(folder, f"{secrets.user()},{secrets.place()}\n" * 2))


@case(tc.InputError, r"b\.csv: row 5 has 6 columns; expected 5")
def long_row_in_the_second_file(folder, secrets):
    write_csv(folder, *good_lines(secrets), name="a.csv")
    lines = good_lines(secrets)
    lines[1] = secrets.row().strip() + f",{secrets.user()}\n"
    write_csv(folder, *lines, name="b.csv")
    return Attempt(folder)


@case(tc.InputError, r"row 2: column 'user_id' is empty")
def empty_id(folder, secrets):
    lines = [secrets.row(), f",0,{secrets.place()},{secrets.place()},r\n"]
    return Attempt(write_csv(folder, *lines))


@case(tc.InputError, r"row 1: column 'time' is empty")
def empty_time(folder, secrets):
    return Attempt(write_csv(folder, secrets.row(time=""), secrets.row()))


@case(tc.InputError, r"row 3: column 'y' is empty")
def null_coordinate(folder, secrets):
    y = [secrets.place(), secrets.place(), None]
    return Attempt(write_parquet(folder, secrets, y=y))


@case(tc.InputError, r"log\.csv: row 2: column 'x' cannot be read; expected a number")
def id_in_a_coordinate(folder, secrets):
    return Attempt(write_csv(folder, secrets.row(), f"u,0,{secrets.user()},1,r\n"))


@case(tc.InputError, r"log\.csv: row 2: column 'time' cannot be read; expected a whole number")
def coordinate_in_an_integer_time(folder, secrets):
    return Attempt(write_csv(folder, secrets.row(), secrets.row(time=secrets.place())))


@case(tc.InputError, r"log\.csv: row 2: column 'time' cannot be read; expected an ISO 8601")
def id_in_a_moment(folder, secrets):
    first = secrets.row(time="2024-01-01T00:00:00")
    return Attempt(write_csv(folder, first, secrets.row(time=secrets.user())))


@case(tc.InputError, r"log\.csv: row 2: column 'time' cannot be read; expected an ISO 8601")
def zones_here_and_not_there(folder, secrets):
    moments = ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00")
    return Attempt(write_csv(folder, *(secrets.row(time=moment) for moment in moments)))


@case(tc.InputError, r"log\.csv: row 2: column 'user_id' cannot be read; expected text in UTF-8")
def latin_1(folder, secrets):
    path = write_csv(folder, secrets.row())
    path.write_bytes(path.read_bytes() + f"{secrets.user()}é,0,1,1,r\n".encode("latin-1"))
    return Attempt(path)


@case(tc.InputError, r"row 2: column 'x' is not a finite number")
def not_a_number(folder, secrets):
    return Attempt(
        write_csv(folder, secrets.row(), f"{secrets.user()},0,nan,{secrets.place()},r\n")
    )


@case(tc.InputError, r"row 1: column 'y' is not a finite number")
def infinite(folder, secrets):
    return Attempt(write_parquet(folder, secrets, y=[float("-inf"), secrets.place()]))


@case(tc.InputError, r"row 2: column 'lon' is out of range; expected -180\.\.180 degrees")
def longitude_out_of_range(folder, secrets):
    lines = [secrets.row(low=12, high=14), secrets.row(low=181, high=300)]
    return Attempt(write_csv(folder, *lines, header=DEGREES))


@case(tc.InputError, r"row 2: column 'lat' is out of range; expected -90\.\.90 degrees")
def swapped_longitude_and_latitude(folder, secrets):
    lines = [secrets.row(low=12, high=14), f"u,0,{secrets.place(1, 2)},{secrets.place(91, 99)},r\n"]
    return Attempt(write_csv(folder, *lines, header=DEGREES))


@case(tc.InputError, r"the log spans more than 180 degrees of longitude")
def on_both_sides_of_the_globe(folder, secrets):
    lines = [f"u{lon},0,{lon},{secrets.place(1, 2)},r\n" for lon in (-120, 0, 120)]
    return Attempt(write_csv(folder, *lines, header=DEGREES))


@case(tc.InputError, r"column 'user_id' is of type double")
def ids_with_decimals(folder, secrets):
    return Attempt(write_parquet(folder, secrets, user_id=[secrets.place(), secrets.place()]))


@case(tc.InputError, r"row 2: column 'user_id' cannot be read as int64")
def ids_beyond_64_bits(folder, secrets):
    ids = pa.array([1, secrets.number()], pa.uint64())
    return Attempt(write_parquet(folder, secrets, user_id=ids))


@case(tc.InputError, r"column 'user_id' holds numbers in one file and text in another")
def ids_of_two_types(folder, secrets):
    first = write_parquet(folder, secrets, "a.parquet", user_id=[1, 2])
    return Attempt([first, write_parquet(folder, secrets, "b.parquet", time=[0, 0])])


@case(tc.InputError, r"column 'x' is of type string")
def coordinates_as_text(folder, secrets):
    return Attempt(write_parquet(folder, secrets, x=[str(secrets.place())]))


@case(tc.InputError, r"column 'time' is of type double")
def times_with_decimals(folder, secrets):
    return Attempt(write_parquet(folder, secrets, time=[secrets.place()]))


@case(tc.InputError, r"row 2: column 'time' cannot be read as timestamp")
def ids_among_times(folder, secrets):
    times = ["2024-01-01T00:00:00", secrets.user()]
    return Attempt(write_parquet(folder, secrets, time=times))


@case(tc.InputError, r"row 1: column 'time' cannot be read as timestamp")
def microseconds_taken_for_seconds(folder, secrets):
    times = pa.array([1_700_000_000_000_000], pa.timestamp("s"))
    return Attempt(write_parquet(folder, secrets, time=times))


@case(tc.InputError, r"rows 1 and 2: column 'time' spans more than 2\^62")
def times_from_end_to_end(folder, secrets):
    return Attempt(write_parquet(folder, secrets, time=[-(2**63), 2**63 - 1]))


@case(tc.InputError, r"column 'time' holds times of different kinds")
def times_of_two_kinds(folder, secrets):
    first = write_parquet(folder, secrets, "a.parquet", time=[0])
    moment = pa.array([0], pa.timestamp("s"))
    return Attempt([first, write_parquet(folder, secrets, "b.parquet", time=moment)])


@case(tc.InputError, r"request column 'what' holds lists or maps")
def nested_requests(folder, secrets):
    return Attempt(write_parquet(folder, secrets, what=[[secrets.user()]]))


@case(tc.InputError, r"request column 'what' is of type string in one file and int64 in another")
def requests_of_two_types(folder, secrets):
    first = write_parquet(folder, secrets, "a.parquet", what=[secrets.user()])
    return Attempt([first, write_parquet(folder, secrets, "b.parquet", what=[7])])


@case(tc.InputError, r"rows 2 and 3: the same user and time with different places")
def two_places_at_once(folder, secrets):
    user = secrets.user()
    lines = [f"{user},0,{secrets.place()},{secrets.place()},r\n" for _ in range(2)]
    return Attempt(write_csv(folder, secrets.row(), *lines))


@case(tc.InputError, r"rows 1 and 3: the same user and time with different places")
def two_places_at_once_off_the_grid(folder, secrets):
    user = secrets.user()
    lines = [f"{user},3,{secrets.place()},{secrets.place()},r\n" for _ in range(2)]
    path = write_csv(folder, lines[0], secrets.row(time=8), lines[1])
    return Attempt(path, options={"every": "10"})


@case(tc.InputError, r"row 151 is far from all others")
def null_island(folder, secrets):
    lines = [secrets.row(low=13.0, high=13.1) for _ in range(300)]
    lines[150] = f"{secrets.user()},0,0,0,r\n"
    return Attempt(write_csv(folder, *lines, header=DEGREES))


@case(tc.InputError, r"2 rows \(7, 200\) are far from all others")
def rows_in_another_unit(folder, secrets):
    lines = [secrets.row() for _ in range(300)]
    for number in (6, 199):
        lines[number] = secrets.row(low=7e6, high=7.9e6)
    return Attempt(write_csv(folder, *lines))


@case(tc.InputError, r"3 rows \(1, 2, 3\) are outside the region")
def outside_the_region(folder, secrets):
    path = write_csv(folder, *good_lines(secrets))
    return Attempt(path, options={"region": (0.0, 0.0, 100.0)})


@case(tc.OptionError, r"height is 24, which makes cells smaller than")
def cells_too_fine(folder, secrets):
    lines = [secrets.row(low=7e12, high=7e12 + 99) for _ in range(3)]
    return Attempt(write_csv(folder, *lines), options={"height": 24})


@case(tc.InputError, r"the log's .* reports fill only .*% of its finest time grid")
def no_grid_of_its_own(folder, secrets):
    lines = [f"{secrets.user()},{t},1,1,r\n{secrets.user()},{t + 1},1,1,r\n" for t in (0, 97)]
    user = secrets.user()
    far = f"{user},0,{secrets.place()},1,r\n{user},1000,{secrets.place()},1,r\n"
    return Attempt(write_csv(folder, *lines, far))


@case(tc.OptionError, r"every is '60s'; the log has integer instants")
def seconds_for_a_log_without_moments(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets)), options={"every": "60s"})


@case(tc.OptionError, r"max-gap is '5'; the log has timestamps")
def instants_for_a_log_with_moments(folder, secrets):
    lines = [secrets.row(time="2024-01-01T00:00:00") for _ in range(3)]
    return Attempt(write_csv(folder, *lines), options={"max_gap": "5"})


@case(tc.OptionError, r"the log has \d+ instants")
def too_many_instants(folder, secrets):
    path = write_csv(folder, secrets.row(time=0), secrets.row(time=10**12))
    return Attempt(path, options={"every": "1"})


@case(tc.OptionError, r"k is 1;")
def k_of_one(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets)), k=1)


@case(tc.NotEnoughUsersError, r"at most 3 of 3 users take part in a window")
def not_enough_users(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets)), k=4)


@case(tc.OptionError, r"window 0: everybody would be left out")
def everybody_suppressed(folder, secrets):
    path = write_csv(folder, *good_lines(secrets))
    return Attempt(path, options={"suppress_above": 1e-9})


@case(tc.OutputError, r"taken: exists already")
def release_exists(folder, secrets):
    (folder / "taken").mkdir()
    return Attempt(write_csv(folder, *good_lines(secrets)), release="taken")


@case(tc.OutputError, r"taken: exists already")
def policy_exists(folder, secrets):
    (folder / "taken").write_text("mine")
    return Attempt(write_csv(folder, *good_lines(secrets)), policy="taken")


@case(tc.OutputError, r"nowhere/release: there is no folder")
def no_folder_for_the_release(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets)), release="nowhere/release")


@case(tc.OptionError, r"release/policy: the policy file would stand inside the release")
def policy_in_the_release(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets)), policy="release/policy")


ALL_CASES = pytest.mark.parametrize("bad", CASES, ids=lambda bad: bad.name)


@ALL_CASES
def test_bad_input(tmp_path, bad):
    secrets = Secrets(1)
    attempt = bad.build(tmp_path, secrets)
    before = list_tree(tmp_path)
    with pytest.raises(tc.TrajcloakError) as caught:
        attempt.run(tmp_path)
    message = str(caught.value)
    assert type(caught.value) is bad.error
    assert re.match(rf"({re.escape(str(tmp_path))}/)?{bad.says}", message), message
    parts = message.split("; ")
    assert len(parts) >= 3, message
    assert "expected " in message, message
    assert not parts[-1].startswith("expected "), f"no remedy: {message}"
    assert message == message.strip()
    assert list_tree(tmp_path) == before, "something was written"
    assert not secrets.find(message)


def test_the_cases_fail_for_their_own_reason_only(tmp_path):
    """A good log of the same make passes."""
    secrets = Secrets(1)
    path = write_csv(tmp_path, *good_lines(secrets))
    Attempt(path).run(tmp_path)
    assert (tmp_path / "release").is_dir()
    assert secrets.find(path.read_text()), "the secrets are in the log"
    assert secrets.find("a message with " + secrets.user())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"lon": "a"},
            "only one of the columns 'lon' and 'lat' is named; expected both or neither",
        ),
        ({"y": "a"}, "only one of the columns 'x' and 'y' is named; expected both or neither"),
        ({"lon": "a", "lat": "b", "x": "c", "y": "d"}, "both lon/lat and x/y columns are named"),
        ({"requests": ("window",)}, "request column 'window' has the name of a column of the"),
        ({"requests": ("bundle_id",)}, "request column 'bundle_id' has the name of a column"),
        ({"requests": ("user_id",)}, "request column 'user_id' also holds the user, time or place"),
        ({"user": "who", "requests": ("who",)}, "request column 'who' also holds the user"),
        ({"lon": "a", "lat": "b", "requests": ("b",)}, "request column 'b' also holds the user"),
        ({"requests": ("a", "a")}, "a request column is named twice; expected each once"),
    ],
)
def test_columns_that_cannot_be_used(given, says):
    with pytest.raises(tc.OptionError) as caught:
        tc.LogColumns(**given)
    assert str(caught.value).startswith(says)
    assert str(caught.value).count("; ") >= 2
