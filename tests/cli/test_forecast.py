"""How long a stage will take, said once and only if it is minutes."""

import pytest

from trajcloak.cli.printing import Forecast


def ask_all(steps):
    """Ask a forecast at (seconds, done, total); the answers that are not None."""
    times = iter(steps)
    forecast = Forecast(lambda: next(times)[0])
    told = [forecast.ask("clustering", done, total) for _, done, total in steps]
    return [minutes for minutes in told if minutes is not None]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(0, 0, 100), (6, 1, 100), (12, 2, 100)], [10]),
        # From the steps after the first, as soon as they tell.
        ([(0, 0, 1000), (0.5, 1, 1000), (1.5, 2, 1000)], [17]),
        # The first step took long, since it compiled.
        ([(0, 0, 100), (4, 1, 100), (5, 3, 100), (6, 5, 100), (7, 7, 100)], []),
        ([(0, 0, 100), (6, 50, 100), (12, 100, 100)], []),
        ([(0, 0, 0), (60, 5000, 0)], []),
        # A stage of many small windows begins again and again.
        ([(0, 0, 9), (1, 1, 9), (2, 0, 9), (3, 1, 9), (4, 0, 9), (6, 1, 9)], []),
        # It was begun by an earlier run.
        ([(0, 50, 100), (6, 51, 100)], [5]),
    ],
)
def test_minutes_that_are_left(steps, expected):
    assert ask_all(steps) == expected
