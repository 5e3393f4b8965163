"""Which files are read, and as which format."""

import pytest

import trajcloak as tc
from movement.samples import write
from trajcloak.movement.converted_log import FORMATS, choose_format, list_movement_files
from trajcloak.options import MOVEMENT_FORMATS


def test_the_names_are_those_of_the_options():
    assert tuple(FORMATS) == MOVEMENT_FORMATS


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("fcd.xml", "sumo"),
        ("fcd.xml.gz", "sumo"),
        ("20141227.plt", "geolife"),
        ("A.PLT", "geolife"),
        ("new_abc.txt", "cabs"),
        ("new_abc.txt.gz", "cabs"),
        ("walk.gpx", "gpx"),
        ("WALK.GPX.GZ", "gpx"),
    ],
)
def test_a_file_whose_name_tells(tmp_path, name, format_):
    file = write(tmp_path / "deep" / name, "x")
    assert choose_format(file, None) == format_
    assert choose_format(tmp_path, None) == format_
    assert choose_format(str(tmp_path / "*" / "*"), None) == format_
    assert choose_format([file], None) == format_


@pytest.mark.parametrize("name", ["run.txt", "run.dat", "points.csv", "new_abc", "gpx"])
def test_a_file_whose_name_does_not_tell(tmp_path, name):
    file = write(tmp_path / name, "x")
    with pytest.raises(tc.OptionError) as raised:
        choose_format(file, None)
    assert str(raised.value) == (
        f"{file}: the names of the files do not tell their format; expected to be told one of "
        f"brinkhoff, sumo, geolife, cabs, gpx; pass format="
    )


def test_a_folder_of_several_formats(tmp_path):
    write(tmp_path / "a.gpx", "x")
    write(tmp_path / "b.xml", "x")
    with pytest.raises(tc.OptionError, match=r"fit several formats \(sumo, gpx\); expected"):
        choose_format(tmp_path, None)
    assert choose_format(tmp_path, "gpx") == "gpx"
    assert list_movement_files(tmp_path, "gpx") == [tmp_path / "a.gpx"]


def test_files_that_tell_nothing_do_not_disturb(tmp_path):
    for name in ("a.gpx", "README.txt", ".b.xml", ".git/c.xml"):
        write(tmp_path / name, "x")
    assert choose_format(tmp_path, None) == "gpx"


def test_an_unknown_format(tmp_path):
    with pytest.raises(tc.OptionError, match="format 'nmea' is not known; expected one of brink"):
        choose_format(tmp_path, "nmea")


def test_a_folder_is_searched_in_order_of_names(tmp_path):
    for name in ("b.gpx", "a/z.gpx", "c.txt", ".d.gpx", "a/y.gpx.gz"):
        write(tmp_path / name, "x")
    names = [str(file.relative_to(tmp_path)) for file in list_movement_files(tmp_path, "gpx")]
    assert names == ["a/y.gpx.gz", "a/z.gpx", "b.gpx"]


def test_a_glob_takes_files_of_any_name_and_searches_folders(tmp_path):
    for name in ("x1", "x2/a.gpx", "x2/b.txt", "y.gpx"):
        write(tmp_path / name, "x")
    names = [
        str(file.relative_to(tmp_path)) for file in list_movement_files(str(tmp_path / "x*"), "gpx")
    ]
    assert names == ["x1", "x2/a.gpx"]
    deep = list_movement_files(str(tmp_path / "**" / "*.gpx"), "gpx")
    assert [file.name for file in deep] == ["a.gpx", "y.gpx"]


def test_a_list_keeps_its_order(tmp_path):
    files = [write(tmp_path / name, "x") for name in ("b.gpx", "a.gpx")]
    assert list_movement_files(files, "gpx") == files


@pytest.mark.parametrize("source", ["nowhere", "nowhere.gpx", "*.gpx"])
def test_nothing_there(refuse, tmp_path, source):
    assert "nothing found; expected a file, a folder or a glob; check the path" in refuse(
        tmp_path / source
    )


def test_nothing_of_the_format(refuse, tmp_path):
    write(tmp_path / "a.gpx", "x")
    message = refuse(tmp_path, format="brinkhoff")
    assert (
        "no files of the format 'brinkhoff' found; expected names such as *.txt or *.d" in message
    )


def test_a_message_names_few_of_many_files(refuse, tmp_path):
    files = [write(tmp_path / f"{number}.txt", "x") for number in range(9)]
    message = refuse(files, tc.OptionError)
    assert "0.txt, 1.txt, 2.txt, ...: the names" in message
