"""Arrays of whole numbers as text that the page's script reads without parsing numbers."""

import base64
import json
from typing import Any

import numpy as np
import numpy.typing as npt

_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def pack(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Pack numbers of at least 0 into as few bytes as the greatest needs, low bytes first.

    Nothing is compressed: the same bytes whatever library is installed, and a page that
    opens in every browser.

    Examples
    --------
    >>> import numpy as np
    >>> pack(np.array([1, 2, 300]))
    {'bytes': 2, 'data': 'AQACACwB'}
    """
    values = np.ascontiguousarray(values)
    assert not len(values) or int(values.min()) >= 0
    greatest = int(values.max()) if values.size else 0
    width = next(width for width in (1, 2, 4) if greatest < 1 << 8 * width)
    data = base64.b64encode(values.astype(f"<u{width}").tobytes()).decode("ascii")
    return {"bytes": width, "data": data}


def to_script(content: Any) -> str:
    r"""Write JSON that can stand inside a script element.

    Every character that could end the element, or a line of JavaScript, is written as an
    escape of JSON.

    Examples
    --------
    >>> to_script("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPED)
