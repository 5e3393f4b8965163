"""Text stays text, whatever it holds."""

import base64
import json
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.conftest import HOSTILE
from trajcloak.report.html_elements import (
    element,
    facts,
    pack,
    render,
    section,
    show_text,
    to_script,
)


def test_children_and_attributes():
    made = element("p", "a", element("b", "c"), "d", None, "e", class_="x", aria_label="y", id=None)
    assert render([made]) == '<p class="x" aria-label="y">a<b>c</b>de</p>'


class Parsed(HTMLParser):
    """The tags and the texts of a piece of HTML."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self.titles = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.titles += [value for name, value in attrs if name == "title"]

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        self.tags.append("comment")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text):
    parsed = Parsed(render([element("p", text, title=text), facts([(text, text)])]))
    assert parsed.tags == ["p", "dl", "div", "dt", "dd"]
    assert parsed.titles == [show_text(text)]
    assert "".join(parsed.texts).replace("\n", "") == show_text(text) * 3


def test_a_section_is_named_by_its_heading():
    made = section("map", "Map", element("p", "x"))
    assert made.get("aria-labelledby") == made[0].get("id") == "map-title"
    assert render([made[0]]) == '<h2 id="map-title">Map</h2>'


def test_show_text_leaves_words_of_all_languages():
    for text in ("Zürich", "北京", "مرحبا", "👨\u200d👩", "naïve “quoted”"):
        assert show_text(text) == text
    assert show_text("a\x00b\ud800\tc\u2066") == "a\\u0000b\\ud800\\u0009c\\u2066"


@given(st.text(st.characters(codec="utf-8")) | st.sampled_from(HOSTILE))
def test_data_cannot_end_its_script(text):
    written = to_script({"kinds": [[text]]})
    assert not set("<>&\u2028\u2029") & set(written)
    assert written.isascii()
    assert json.loads(written) == {"kinds": [[text]]}


@pytest.mark.parametrize(("most", "width"), [(0, 1), (255, 1), (256, 2), (65535, 2), (65536, 4)])
def test_numbers_are_packed_as_narrow_as_they_fit(most, width):
    packed = pack(np.array([0, most]))
    assert packed["bytes"] == width
    numbers = np.frombuffer(base64.b64decode(packed["data"]), f"<u{width}")
    assert numbers.tolist() == [0, most]


def test_no_numbers():
    assert pack(np.zeros(0, np.int64)) == {"bytes": 1, "data": ""}
