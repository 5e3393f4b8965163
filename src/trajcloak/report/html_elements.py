"""Elements of the page, and the data for its script. All text goes through here, escaped."""

import base64
import json
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any
from xml.etree import ElementTree

import numpy.typing as npt

from trajcloak.errors import show_text

Element = ElementTree.Element
Child = Element | str | None
TableRows = Iterable[Iterable[Child]]

_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def element(tag: str, *children: Child, **attributes: str | float | None) -> Element:
    """Build an element.

    A trailing ``_`` of an attribute's name is dropped, any other is a hyphen; an
    attribute that is None is left out, and so is a child.

    Examples
    --------
    >>> render([element("p", "1 < 2", class_="note", aria_label="sum")])
    '<p class="note" aria-label="sum">1 &lt; 2</p>'
    """
    made = Element(
        tag,
        {
            name.rstrip("_").replace("_", "-"): show_text(str(value))
            for name, value in attributes.items()
            if value is not None
        },
    )
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif child is not None and len(made):
            made[-1].tail = (made[-1].tail or "") + show_text(child)
        elif child is not None:
            made.text = (made.text or "") + show_text(child)
    return made


def mark_options(text: str) -> list[Child]:
    """Cut a text so that no option of a command, such as ``--link-safe``, breaks over two lines.

    Examples
    --------
    >>> render([element("p", *mark_options("Pass --log."))])
    '<p>Pass <code class="option">--log</code>.</p>'
    """
    return [
        element("code", piece, class_="option") if i % 2 else piece
        for i, piece in enumerate(re.split(r"(--[a-z][a-z-]*)", text))
    ]


def table(
    head: Iterable[str], rows: TableRows, *, caption: str | None = None, class_: str | None = None
) -> Element:
    """Build a table whose first column names its rows."""
    names = list(head)
    body = [
        element(
            "tr",
            # The style of some classes shows these names where the screen is narrow.
            *(
                element("td", cell, data_name=name) if i else element("th", cell, scope="row")
                for i, (name, cell) in enumerate(zip(names, cells, strict=True))
            ),
        )
        for cells in rows
    ]
    made = element(
        "table",
        element("caption", caption) if caption else None,
        element("thead", element("tr", *(element("th", name, scope="col") for name in names))),
        element("tbody", *body),
    )
    return element("div", made, class_=f"table {class_ or ''}".strip())


def facts(pairs: Iterable[tuple[str, Child]], class_: str = "facts") -> Element:
    """Build a list of names and values."""
    rows = (element("div", element("dt", name), element("dd", value)) for name, value in pairs)
    return element("dl", *rows, class_=class_)


def details(summary: str, *children: Child) -> Element:
    """Build a part that the reader opens with a click."""
    return element("details", element("summary", summary), *children)


def section(name: str, title: str, *children: Child) -> Element:
    """Build a section with a heading that the page's contents link to."""
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def render(elements: Iterable[Element]) -> str:
    """Write elements as HTML."""
    return "\n".join(ElementTree.tostring(e, encoding="unicode", method="html") for e in elements)


def read_part(name: str) -> str:
    """Read a part of the page: template, style or script."""
    return (files("trajcloak.report") / "page" / name).read_text(encoding="utf-8")


def pack(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Pack numbers of at least 0 into as few bytes as the greatest needs, low bytes first.

    Examples
    --------
    >>> import numpy as np
    >>> pack(np.array([1, 2, 300]))
    {'bytes': 2, 'data': 'AQACACwB'}
    """
    assert not len(values) or int(values.min()) >= 0
    greatest = int(values.max(initial=0))
    width = next(width for width in (1, 2, 4) if greatest < 1 << 8 * width)
    data = base64.b64encode(values.astype(f"<u{width}").tobytes()).decode("ascii")
    return {"bytes": width, "data": data}


def to_script(content: Any) -> str:
    r"""Write JSON without any character that could end a script element, or a line of it.

    Examples
    --------
    >>> to_script("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPED)
