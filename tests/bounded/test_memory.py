import pytest

import trajcloak as tc
from trajcloak.bounded.memory import estimate_window, format_memory, parse_memory


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4GiB", 4 << 30),
        ("4 gib", 4 << 30),
        ("900MB", 900 * 10**6),
        ("2g", 2 * 10**9),
        ("1Ti", 1 << 40),
        (10**9, 10**9),
        ("1000000000", 10**9),
    ],
)
def test_sizes(text, expected):
    assert parse_memory(text) == expected


@pytest.mark.parametrize("text", ["", "much", "4.5GiB", "-1", "4XiB", "GiB", "4GiB!"])
def test_what_is_no_size(text):
    with pytest.raises(tc.OptionError, match="expected a size such as 4GiB"):
        parse_memory(text)


def test_too_little():
    with pytest.raises(tc.OptionError, match="expected at least 640 MiB"):
        parse_memory("639MiB")


def test_sizes_are_written_for_people():
    assert format_memory(640 << 20) == "640 MiB"
    assert format_memory(4.5 * 2**30) == "4.5 GiB"


def test_estimates_grow_with_the_window():
    asked = tc.Options(k=10)
    sizes = [estimate_window(asked, 1000, length, 2, gaps=True) for length in (1, 10, 100)]
    assert sizes == sorted(sizes)
    assert estimate_window(asked, 2000, 10, 2, gaps=True) == 2 * sizes[1]
