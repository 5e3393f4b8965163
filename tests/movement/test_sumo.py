import pyarrow as pa
import pytest

import trajcloak as tc
from movement.samples import fcd, write
from trajcloak.log import read_in_memory

VEHICLE = (
    '<vehicle id="v0" x="5.10" y="-1.65" angle="90.00" type="car" speed="13.89" pos="5.10" '
    'lane="e1_0" slope="0.00"/>'
)
PERSON = '<person id="v0" x="7" y="8.5" angle="0" speed="1.25" pos="3" edge="e1" slope="0"/>'
BARE = '<vehicle id="a &amp; b" x="1" y="2"/>'
CONTAINER = '<container id="c" x="7" y="8.5"/>'
GEOGRAPHIC = """<!-- generated on 2024-05-06 by Eclipse SUMO
<sumoConfiguration>
    <output>
        <fcd-output value="fcd.xml"/>
        <fcd-output.geo value="true"/>
    </output>
</sumoConfiguration>
-->
"""


def test_values(convert, tmp_path):
    steps = ("0.00", VEHICLE + PERSON), ("1.00", ""), ("1.50", CONTAINER + BARE), ("120", VEHICLE)
    done = convert(write(tmp_path / "fcd.xml", fcd(*steps)))
    vehicle = (5.1, -1.65, 13.89, "car", "e1_0")
    assert done.rows == [
        ("v0", 0, *vehicle),
        ("person:v0", 0, 7.0, 8.5, 1.25, None, None),
        ("a & b", 1500, 1.0, 2.0, None, None, None),
        ("v0", 120_000, *vehicle),
    ]
    assert done.log == tc.movement.ConvertedLog(
        format="sumo",
        files=1,
        rows=4,
        users=3,
        skipped={"container": 1},
        columns=("user_id", "time", "x", "y", "speed", "type", "lane"),
    )
    assert done.table.schema.field("time").type == pa.int64()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_encodings_and_compression(convert, tmp_path, encoding):
    text = fcd(("0", BARE.replace("a &amp; b", "ä"))).replace("UTF-8", encoding[:6].strip("-"))
    done = convert(write(tmp_path / "fcd.xml.gz", text.encode(encoding)))
    assert done.rows == [("ä", 0, 1.0, 2.0, None, None, None)]


@pytest.mark.parametrize(
    ("comment", "options"),
    [(GEOGRAPHIC, {}), ("", {"geographic": True})],
    ids=["comment", "option"],
)
def test_longitude_and_latitude(convert, refuse, tmp_path, comment, options):
    file = write(tmp_path / "fcd.xml", fcd(("0", BARE), comment=comment))
    done = convert(file, **options)
    assert done.log.columns[:4] == ("user_id", "time", "lon", "lat")
    assert done.rows[0][2:4] == (1.0, 2.0)


def test_longitude_out_of_range(refuse, tmp_path):
    far = BARE.replace('x="1"', 'x="4711"')
    message = refuse(write(tmp_path / "fcd.xml", fcd(("0", f"{BARE}\n{far}"))), geographic=True)
    assert "line 5: 'lon' is out of range; expected -180..180 degrees" in message
    assert "4711" not in message


@pytest.mark.parametrize(
    "comment", ["", GEOGRAPHIC.replace("true", "false"), "<!-- fcd-output.geo -->"]
)
def test_planar_if_nothing_says_otherwise(convert, tmp_path, comment):
    done = convert(write(tmp_path / "fcd.xml", fcd(("0", BARE), comment=comment)))
    assert done.log.columns[2:4] == ("x", "y")


def test_files_of_both_kinds(refuse, tmp_path):
    write(tmp_path / "1.xml", fcd(("0", BARE)))
    write(tmp_path / "2.xml", fcd(("0", BARE), comment=GEOGRAPHIC))
    assert refuse(tmp_path).startswith("2.xml: holds planar coordinates and an earlier file")


def test_parts_of_one_run_are_one_log(convert, tmp_path):
    write(tmp_path / "1.xml", fcd(("0", VEHICLE)))
    write(tmp_path / "2.xml", fcd(("1", VEHICLE + PERSON)))
    done = convert(str(tmp_path / "?.xml"))
    assert (done.log.files, done.log.rows, done.log.users) == (2, 3, 2)


@pytest.mark.parametrize(
    ("time", "point", "says"),
    [
        ("0", '<vehicle id="v" x="" y="2"/>', "line 4: 'x' cannot be read; expected a number"),
        ("0", '<vehicle id="v" x="1" y="4711,5"/>', "line 4: 'y' cannot be read; expected a"),
        ("0", '<vehicle id="v" x="1" y="inf"/>', "line 4: 'y' is not finite"),
        ("0", '<vehicle id="v" x="1" y="2" speed="nan"/>', "line 4: 'speed' is not finite"),
        ("0", '<vehicle id="v" x="1" y="2" speed="fast"/>', "line 4: 'speed' cannot be read"),
        ("0", '<vehicle id="secret" y="2"/>', "line 4: a <vehicle> lacks its id, x or y"),
        ("0", '<person x="1" y="2"/>', "line 4: a <person> lacks its id, x or y"),
        ("0", '<vehicle id="" x="1" y="2"/>', "line 4: a <vehicle> lacks its id, x or y"),
        ("00:00:01", VEHICLE, "line 3: a <timestep> has no time in seconds"),
        ("0.0005", VEHICLE, "line 3: a <timestep> has no time in seconds, to the millisecond"),
        ("nan", VEHICLE, "line 3: a <timestep> has no time in seconds"),
        ("1e99", VEHICLE, "line 3: a <timestep> has no time in seconds"),
        ("1e9999999999", VEHICLE, "line 3: a <timestep> has no time in seconds"),
    ],
)  # fmt: skip
def test_bad_points(refuse, tmp_path, time, point, says):
    file = write(tmp_path / "fcd.xml", fcd((time, point + "\n" + VEHICLE)))
    message = refuse(file)
    assert message.startswith(f"fcd.xml: {says}")
    assert "secret" not in message
    assert "4711" not in message


@pytest.mark.parametrize("inside", [VEHICLE, f"<other>{VEHICLE}</other>"])
def test_points_outside_of_a_time_step(refuse, tmp_path, inside):
    text = fcd(("0", VEHICLE)).replace("</fcd-export>", f"{inside}</fcd-export>")
    message = refuse(write(tmp_path / "fcd.xml", text))
    assert "line 6: a <vehicle> is not inside a <timestep>" in message


def test_a_time_step_without_a_time(refuse, tmp_path):
    text = fcd(("0", VEHICLE)).replace(' time="0"', "")
    assert "a <timestep> has no time" in refuse(write(tmp_path / "fcd.xml", text))


def test_geographic_with_another_format(refuse, tmp_path):
    file = write(tmp_path / "new_a.txt", "1 2 0 1500000087\n")
    message = refuse(file, tc.OptionError, geographic=True)
    assert message.startswith("geographic is asked for with format 'cabs'")


def test_the_grid_is_that_of_the_simulation(convert, tmp_path):
    steps = [(f"{time / 2:.2f}", VEHICLE) for time in range(4)]
    tc.convert_log(write(tmp_path / "fcd.xml", fcd(*steps)), tmp_path / "log.parquet")
    assert read_in_memory(tmp_path / "log.parquet").step == 500
