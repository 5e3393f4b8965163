"""Small inputs for each target, all made here, from which the fuzzer sets out."""

import io
import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.readers import OPTION_BYTES, make_geo, make_point

PLAIN = bytes(OPTION_BYTES)
ONE_REQUEST = b"\0\x01\0\0"
ALL = b"\x1f\x07\x21\0"

RECORDS = [
    {"user_id": f"u{u}", "time": f"2024-05-01T08:0{i}:00", "lon": 13.4 + u / 100, "lat": 52.5,
     "what": "bar" if i else None, "more": {"a": i, "b": {"c": True}}}
    for u in range(3) for i in range(2)
]  # fmt: skip


def _to_csv(delimiter: str) -> bytes:
    names = ("user_id", "time", "lon", "lat", "what")
    rows = [names, *([str(record[name] or "") for name in names] for record in RECORDS)]
    return "\r\n".join(delimiter.join(row) for row in rows).encode()


def _to_lines() -> bytes:
    return "\n".join(map(json.dumps, RECORDS)).encode()


def _to_parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(RECORDS), out)
    return out.getvalue()


def _to_arrow(is_stream: bool) -> bytes:
    table = pa.Table.from_pylist(RECORDS)
    out = io.BytesIO()
    with (pa.ipc.new_stream if is_stream else pa.ipc.new_file)(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def _to_cells(types: bytes, is_geographic: bool) -> bytes:
    """Encode a table as :func:`fuzz.readers.build_table` reads it."""
    cells = b"".join(
        struct.pack("<qqdd8s8s", u, i, 1.0 + u, 2.0 + i, b"bar", b"x")
        for u in range(3) for i in range(2)
    )  # fmt: skip
    return (b"\xff" if is_geographic else b"\0") + types + cells


FCD = b"""<?xml version="1.0"?><fcd-export>
<timestep time="0.00"><vehicle id="a" x="1.5" y="2.5" speed="3" type="car" lane="e_0"/></timestep>
<timestep time="1.00"><person id="a" x="1.5" y="2.5" speed="3"/><container id="c"/></timestep>
</fcd-export>"""
GPX = b"""<?xml version="1.0"?><gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">
<wpt lat="1" lon="2"/><trk><trkseg><trkpt lat="52.5" lon="13.4"><ele>34.5</ele>
<time>2024-05-01T08:00:00.123+02:00</time></trkpt><trkpt lat="52.5" lon="13.4"/></trkseg></trk>
</gpx>"""
PLT = b"""Geolife trajectory
WGS 84
Altitude is in Feet
Reserved 3
0,2,255,My Track,0,0,2,8421376
0
39.9,116.3,0,492,39744.1,2008-10-23,02:53:04
39.9,116.4,0,-777,39744.1,2008-10-23,02:53:10
"""
CAB = b"37.75 -122.39 0 1213084687\n37.75 -122.38 1 1213084659\n"
BRINKHOFF = b"newpoint\t0\t1\t0\t0\t1.5\t2.5\t3.5\t4\t5\npoint\t0\t2\t0\t1\t2.5\t2.5\t3.5\t4\t5\n"

_POINTS = b"\2" + make_point(13.4, 52.5) * 3
_METRES = {"type": "ProjectedCRS", "name": "grid", "id": {"authority": "EPSG", "code": 27700}}

SEEDS: dict[str, list[bytes]] = {
    "csv": [
        bytes([name]) + options + _to_csv(delimiter)
        for name, delimiter in enumerate(",\t,;|")
        for options in (PLAIN, ONE_REQUEST, ALL)
    ],
    "json": [
        bytes([name]) + options + _to_lines()
        for name in range(4)
        for options in (PLAIN, ONE_REQUEST, ALL)
    ],
    "parquet": [b"\1" + options + _to_parquet() for options in (PLAIN, ALL)],
    "arrow": [b"\2" + PLAIN + _to_arrow(is_stream) for is_stream in (True, False)],
    "table": [
        bytes([kind << 5]) + ONE_REQUEST[1:] + _to_cells(types, is_geographic)
        for kind in (0, 3, 6)
        for types in (b"\0\0\2\2\1\1", b"\1\3\2\2\x19\x1b", b"\0\4\2\2\x0f\x0a")
        for is_geographic in (False, True)
    ],
    "points": [PLAIN + _POINTS + geo for geo in (b"", make_geo(), make_geo(_METRES))],
    "convert": [
        bytes([choice + 5 * packed]) + content
        for choice, content in enumerate((FCD, GPX, PLT, CAB, BRINKHOFF))
        for packed in (False, True)
    ],
    "release": [
        bytes([damage, file]) + more
        for damage in range(6)
        for file in range(3)
        for more in (b"", b"\x05\0\x01\0\x07\0\x03\0")
        if more or damage < 5
    ]
    + [b"\0\0\x05\0\x15\0"],  # A manifest with the coordinate system EPSG:3857.
}
