"""docs/architecture.md names rooms that exist."""

import re

from documentation.pages import PROJECT

SOURCE = PROJECT / "src" / "trajcloak"
ROOMS = (PROJECT / "docs" / "architecture.md").read_text().split("| room |")[1].split("\n\n")[0]


def test_every_module_that_is_named_exists():
    installed = [row for row in ROOMS.splitlines()[2:] if "(not installed)" not in row]
    named = {name for row in installed for name in re.findall(r"`([a-z_]+)`", row)}
    modules = {path.stem for path in SOURCE.rglob("*") if path.is_dir() or path.suffix == ".py"}
    assert len(named) > 50
    assert named <= modules


def test_every_room_is_named():
    rooms = {
        path.name if path.suffix else f"{path.name}/"
        for path in SOURCE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    first_cells = "".join(row.split("|")[1] for row in ROOMS.splitlines()[2:])
    assert rooms - {"__init__.py"} <= set(re.findall(r"`([^`]+)`", first_cells))
