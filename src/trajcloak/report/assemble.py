"""One self-contained page: template, style, script and data put together."""

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from string import Template
from typing import Any

from trajcloak.report.markup import Element, render
from trajcloak.report.packing import to_script

STYLES = ("colours.css", "layout.css", "map.css", "print.css")
SCRIPTS = ("read.js", "scene.js", "bundle.js", "main.js")
"""Parts of the style and of the script, in their order."""


def assemble(title: str, body: Iterable[Element], data: Any) -> str:
    """Put a page together.

    Nothing is loaded from anywhere, and the page's own policy forbids it: the browser
    runs only this script and this style, by their hashes.
    """
    style = "\n".join(_read(name) for name in STYLES)
    parts = "\n".join(_read(name) for name in SCRIPTS)
    script = f'(() => {{\n"use strict";\n{parts}\n}})();'
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        f"base-uri 'none'; form-action 'none'"
    )
    return Template(_read("page.html")).substitute(
        title=render([_text(title)]),
        policy=policy,
        style=style,
        body=render(body),
        data=to_script(data),
        script=script,
    )


def _read(name: str) -> str:
    return (files("trajcloak.report") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _text(title: str) -> Element:
    made = Element("title")
    made.text = title
    return made
