"""Bad input: the right error, a message that helps, and nothing written."""

import re

import pytest

import trajcloak as tc
from bad_input import CASES, Attempt, Secrets, good_lines, write_csv
from small_logs import list_tree
from trajcloak.options import LogColumns

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
    assert re.match(rf"({re.escape(str(tmp_path))}/)?(log\.\w+: )?{bad.says}", message), message
    parts = message.split("; ")
    assert len(parts) >= 3, message
    assert "expected " in message, message
    assert not parts[-1].startswith("expected "), f"no remedy: {message}"
    assert message == message.strip()
    assert list_tree(tmp_path) == before, "something was written"
    assert not secrets.find(message)


def test_the_cases_fail_for_their_own_reason_only(tmp_path):
    """A good log that is written in the same way passes."""
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
        ({"user": "who", "requests": ("who",)}, "request column 'who' also holds the user"),
        ({"lon": "a", "lat": "b", "requests": ("b",)}, "request column 'b' also holds the user"),
        ({"requests": ("a", "a")}, "a request column is named twice; expected each once"),
    ],
)
def test_columns_that_cannot_be_used(given, says):
    with pytest.raises(tc.OptionError) as caught:
        LogColumns(**given)
    assert str(caught.value).startswith(says)
    assert str(caught.value).count("; ") >= 2
