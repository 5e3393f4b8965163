import pytest

from trajcloak.errors import InputError
from trajcloak.generator.networks import load_network


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match=r"moon: no such file or folder; expected a \.node or"):
        load_network(tmp_path / "moon", 0)


def test_unknown_kind(tmp_path):
    path = tmp_path / "roads.shp"
    path.write_text("")
    with pytest.raises(InputError, match=r"roads\.shp: not a known kind of network; expected a"):
        load_network(path, 0)
