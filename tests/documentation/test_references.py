"""The references list every command and every public name, as they are."""

import re

import trajcloak
from docs.tools.commands import PAGE, build_page
from documentation.pages import PROJECT
from trajcloak.cli import COMMANDS

API = PROJECT / "docs/reference/api.md"


def test_commands_are_up_to_date():
    assert build_page() == PAGE.read_text(), "make reference"


def test_commands_are_all_there():
    text = PAGE.read_text()
    signs = [
        sign for name in COMMANDS for sign in (f"\n## trajcloak {name}\n", f"(#trajcloak-{name})")
    ]
    assert [sign for sign in signs if sign not in text] == []


def test_public_names_are_all_there():
    listed = re.findall(r"^::: trajcloak\.(\w+)$", API.read_text(), re.MULTILINE)
    assert sorted([*listed, "__version__"]) == sorted(trajcloak.__all__)
    assert "`trajcloak.__version__`" in API.read_text()
