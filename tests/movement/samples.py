"""Tiny files of each format, as the tests write them."""

import gzip
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

HEADER = ["Geolife trajectory", "WGS 84", "Altitude is in Feet", "Reserved 3", "0,2,255,T,0", "0"]
GPX_1_1 = "http://www.topografix.com/GPX/1/1"


def write(path: Path, content: str | bytes) -> Path:
    """Write a file, compressed if its name says so, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def moment(text: str) -> datetime:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def plt(lines: Iterable[str], end: str = "\n") -> str:
    """The text of a GeoLife file."""
    return "".join(line + end for line in [*HEADER, *lines])


def fcd(*steps: tuple[str, str], comment: str = "") -> str:
    """The text of a file of SUMO: pairs of a time and the elements at that time."""
    inside = "\n".join(f'<timestep time="{time}">\n{points}\n</timestep>' for time, points in steps)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{comment}<fcd-export>\n{inside}\n</fcd-export>'


def gpx(points: str, root: str = f'gpx version="1.1" xmlns="{GPX_1_1}"') -> str:
    """The text of a GPX file with one track of one segment."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}>\n<trk><name>walk</name><trkseg>\n'
        f"{points}\n</trkseg></trk>\n</{root.split()[0]}>\n"
    )


def trkpt(lat: object, lon: object, time: str | None, inside: str = "") -> str:
    """A point of a track."""
    told = "" if time is None else f"<time>{time}</time>"
    return f'<trkpt lat="{lat}" lon="{lon}">{inside}{told}</trkpt>'
