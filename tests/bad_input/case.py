"""Cases of bad input, and helpers to build them."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import trajcloak as tc
from runs import anonymize
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns

HEADER = "user_id,time,x,y,what\n"
DEGREES = "user_id,time,lon,lat,what\n"
COLUMNS = LogColumns(requests=("what",))


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
        """The secrets that a message reveals."""
        return {word for word in self._words if word in message}


@dataclass(frozen=True)
class Attempt:
    """A run that must fail."""

    source: Any
    k: int = 2
    columns: LogColumns = COLUMNS
    options: dict[str, Any] = field(default_factory=dict)
    release: str = "release"
    policy: str = "policy.parquet"

    def run(self, folder: Path) -> None:
        log = read_in_memory(self.source, self.columns)
        result = anonymize(log, self.k, **self.options)
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
