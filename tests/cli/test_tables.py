"""Tables lose no value, whatever the width of the terminal."""

import io

import pytest
from rich.console import Console

from trajcloak.cli.printing import ValueTable, facts_table

NUMBERS = ("requests", "breaches", "median error")
ROWS = [
    ("policy-unaware", "23,998,000", "0", "0.5%"),
    ("trajectory-aware", "23,998,001", "1,512", "<= 16.74"),
]
WIDTHS = [32, 40, 60, 80, 200]


def show(table: object, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(table)
    printed = console.file.getvalue()
    assert max(map(len, printed.splitlines())) <= width
    return printed


def build(*groups: str) -> ValueTable:
    table = ValueTable("What", "attacker", NUMBERS, caption="Said below.")
    for name in groups or [None]:
        if name is not None:
            table.add_group(name)
        for row in ROWS:
            table.add_row(*row)
    return table


@pytest.mark.parametrize("groups", [(), ("rule: k-inside", "rule: hilbert-clustering")])
@pytest.mark.parametrize("width", WIDTHS)
def test_no_value_is_cut(width, groups):
    shown = show(build(*groups), width)
    assert "…" not in shown
    for cell in [cell for row in ROWS for cell in row]:
        assert shown.count(cell) >= max(1, len(groups))
    for word in " ".join(["What", "attacker", *NUMBERS, "Said below.", *groups]).split():
        assert word in shown


def test_the_first_layout_that_fits_is_taken():
    with_lines, without_lines, lists = (show(build(), width) for width in (80, 50, 30))
    assert "┃ attacker" in with_lines
    assert "┃" not in without_lines
    assert "policy-unaware   23,998,000" in without_lines
    assert "attacker      policy-unaware" in lists


def test_labels_are_folded_only_where_they_must():
    table = ValueTable("What", "value", ("requests",) * 3)
    table.add_row("a label of thirty-two characters", "1", "2", "3")
    assert "a label of thirty-two characters" in show(table, 60)
    folded = show(table, 56)
    assert "a label of thirty-two characters" not in folded
    assert "a label of thirty-two" in folded
    assert "\ncharacters" in folded
    assert "requests" in folded.splitlines()[1]


def test_long_labels_go_on_in_the_next_line():
    table = ValueTable("What", "value", ("requests",))
    table.add_row("ab" * 40, "1,234")
    shown = show(table, 40)
    assert "1,234" in shown
    assert shown.count("ab") == 40


@pytest.mark.parametrize("width", WIDTHS)
def test_facts_are_whole(width):
    shown = show(facts_table("Log: x", [("path", "p" * 90), ("[i]", "[b]")]), width)
    assert shown.count("p") == 91
    assert "[b]" in shown
