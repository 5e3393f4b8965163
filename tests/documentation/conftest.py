import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from clusters import start_cluster, write_certificates
from documentation.commands import Command, run_command
from documentation.pages import list_needed
from generator.test_graphml import BOTH, SQUARE
from generator.test_graphml import write as write_town

README_COMMANDS = [
    "trajcloak generate -o log.parquet --users 20000 --length 30",
    "trajcloak anonymize log.parquet -o release --k 50 --request category --request detail "
    "--policy policy.parquet",
]


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A folder with what pages may start with; not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in README_COMMANDS:
            run_command(Command(line.split()))
    (folder / "logs").mkdir()
    shutil.copy(folder / "log.parquet", folder / "logs")
    write_town(folder, *SQUARE, *BOTH)
    (folder / "cells.csv").write_text("instant,x_min,y_min,x_max,y_max\n0,0,0,100,100\n")
    return folder


@pytest.fixture
def scheduler(tmp_path) -> Iterator[Callable[[], str]]:
    """Start a cluster, put its certificates into the folder, and tell its address."""
    with ExitStack() as running:

        def start() -> str:
            cluster = running.enter_context(start_cluster())
            write_certificates(cluster, tmp_path)
            return str(cluster.scheduler_address)

        yield start


@pytest.fixture
def start(made, tmp_path, monkeypatch):
    """Go to an empty folder, and put there what a page starts with."""

    def start(text: str) -> None:
        copy_made(made, list_needed(text), tmp_path)
        monkeypatch.chdir(tmp_path)

    return start


def copy_made(made: Path, names: Iterable[str], folder: Path) -> None:
    """Copy some of what pages may start with into a folder, which may be new."""
    folder.mkdir(exist_ok=True)
    for name in names:
        source = made / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / name)
