"""Links and pictures in README.md lead to something; those of docs/ are checked by the build."""

import re

from documentation.pages import PROJECT

README = (PROJECT / "README.md").read_text()


def test_links():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    assert not [link for link in links if "://" not in link and not (PROJECT / link).exists()]
