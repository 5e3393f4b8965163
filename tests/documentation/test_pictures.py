"""The pictures of the documentation can be drawn, and are all there."""

import re

import pytest
from PIL import Image

from docs.tools.city import build_city
from docs.tools.pictures import PICTURES, draw_all
from documentation.pages import PAGES, PROJECT

FIGURES = PROJECT / "docs/figures"
MOST_BYTES = 200_000


@pytest.mark.slow
@pytest.mark.needs_jit
def test_pictures_are_drawn(tmp_path):
    draw_all(build_city(users=600, k=10, junctions=2_000), tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == set(PICTURES)
    for path in tmp_path.iterdir():
        with Image.open(path) as drawn, Image.open(FIGURES / path.name) as kept:
            assert drawn.size == kept.size
            assert len(drawn.getcolors(1 << 24)) > 5, "nothing is drawn"


def test_pictures_are_small_and_shown():
    shown = {
        name for page in PAGES for name in re.findall(r"figures/([\w-]+)\.png", page.read_text())
    }
    assert set(PICTURES) <= shown
    for path in FIGURES.glob("*.png"):
        assert path.stem in shown, path.name
        assert path.stat().st_size < MOST_BYTES, path.name
