"""Random points written in a format come back as they were."""

from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from movement.samples import fcd, gpx, plt, trkpt, write
from small_logs import new_folder
from trajcloak.movement import convert_log, text_formats

whole = st.integers(-(2**63), 2**63 - 1)
number = st.floats(allow_nan=False, allow_infinity=False)
lon = st.floats(-180, 180)
lat = st.floats(-90, 90)
end = st.sampled_from(["\n", "\r\n"])
block = st.sampled_from([1 << 5, 1 << 8, 1 << 23])
moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def convert(name: str, content: str, size: int = 1 << 23, **options):
    """Convert a text, cut into blocks of ``size`` bytes, and list the rows of the log."""
    before, text_formats.BLOCK_BYTES = text_formats.BLOCK_BYTES, size
    try:
        with new_folder() as folder:
            source = write(folder / "in" / name, content.encode())
            log = convert_log(source, folder / "log.parquet", **options)
            table = pq.read_table(folder / "log.parquet")
    finally:
        text_formats.BLOCK_BYTES = before
    assert log.rows == table.num_rows
    assert log.users == len(set(table["user_id"].to_pylist()))
    assert sum(log.skipped.values()) == 0
    return [tuple(row.values()) for row in table.to_pylist()]


def nonempty(*values):
    return st.lists(st.tuples(*values), min_size=1, max_size=20)


action = st.sampled_from(["newpoint", "point", "disappearpoint"])


@given(nonempty(whole, whole, number, number, whole, number, action), end, block)
def test_brinkhoff(points, end, block):
    content = "".join(
        f"{action}\t{user}\t1\t{class_}\t{time}\t{x!r}\t{y!r}\t{speed!r}\t0\t0{end}"
        for user, time, x, y, class_, speed, action in points
    )
    rows = convert("run.txt", content, block, format="brinkhoff")
    assert rows == [point[:-1] for point in points]


@given(
    st.lists(
        st.tuples(
            moments.map(lambda t: t.replace(microsecond=0)), lon, lat, st.integers(0, 30_000)
        ),
        min_size=1,
        max_size=20,
        unique_by=lambda point: point[0],
    ),
    end,
    block,
)
def test_geolife(points, end, block):
    lines = [
        f"{lat!r},{lon!r},0,{feet},42000.1,{time:%Y-%m-%d},{time:%H:%M:%S}"
        for time, lon, lat, feet in points
    ]
    rows = convert("007/Trajectory/a.plt", plt(lines, end), block)
    assert rows == [("007", *point[:3], point[3] * 0.3048) for point in points]


@given(
    st.lists(
        st.tuples(st.integers(10**9, 10**10 - 1), lon, lat, st.booleans()),
        min_size=1,
        max_size=20,
        unique_by=lambda point: point[0],
    ),
    end,
    block,
)
def test_cabs(points, end, block):
    content = "".join(
        f"{lat!r} {lon!r} {int(occupied)} {time}{end}" for time, lon, lat, occupied in points
    )
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert convert("new_a.txt", content, block) == [
        ("a", epoch + timedelta(seconds=time), lon, lat, occupied)
        for time, lon, lat, occupied in points
    ]


@given(nonempty(st.integers(0, 10**9), number, number, number, st.booleans()))
def test_sumo(points):
    steps = (
        (
            f"{time // 1000}.{time % 1000:03}",
            f'<{"person" if walks else "vehicle"} id="u" x="{x!r}" y="{y!r}" speed="{speed!r}"/>',
        )
        for time, x, y, speed, walks in points
    )
    assert convert("fcd.xml", fcd(*steps)) == [
        ("person:u" if walks else "u", time, x, y, speed, None, None)
        for time, x, y, speed, walks in points
    ]


@given(
    st.lists(
        st.tuples(moments, lon, lat, number),
        min_size=1,
        max_size=20,
        unique_by=lambda point: point[0],
    )
)
def test_gpx(points):
    text = "".join(
        trkpt(repr(lat), repr(lon), time.isoformat(), f"<ele>{ele!r}</ele>")
        for time, lon, lat, ele in points
    )
    assert convert("a.gpx", gpx(text)) == [("a", *point) for point in points]
