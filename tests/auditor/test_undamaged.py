"""A release that nothing is wrong with passes every check."""

import pytest

from reference.release_by_hand import geographic, planar


@pytest.mark.parametrize("make", [planar, geographic])
@pytest.mark.parametrize("cloak", ["mbr", "quad"])
@pytest.mark.parametrize("missing", ["withhold", "hold"])
def test_undamaged(find_failed, make, cloak, missing):
    assert find_failed(make(cloak=cloak, missing=missing, height=7)) == set()
