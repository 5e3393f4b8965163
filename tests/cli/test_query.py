"""``trajcloak query``: what it prints, and what it refuses."""

import json
import re

import pytest

import trajcloak as tc
from trajcloak.query import ASSUMPTIONS, UNLINKED

EVERYWHERE = "-1e6,-1e6,1e6,1e6"


def ask(run, made, *args):
    done = run("query", made / "release", *args, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def bounds_of(answer):
    return answer["lower"], answer["estimate"], answer["upper"]


def test_users_in_a_region(run, made):
    told = ask(run, made, "--region", EVERYWHERE)
    assert [answer["instant"] for answer in told["users"]] == [0, 1, 2, 3]
    assert {bounds_of(answer) for answer in told["users"]} == {(60, 60.0, 60)}
    assert told["users"][1]["t_start"] == "2024-05-06T08:01:00.000000"
    assert told["steps"][2]["region"] == [-1e6, -1e6, 1e6, 1e6]
    assert told["assumes"] == list(ASSUMPTIONS)
    assert (told["published_users"], told["withheld"]["users"], told["suppressed"]) == (60, 0, 0)
    assert "requests" not in told


@pytest.mark.parametrize(
    ("args", "instants"),
    [
        (["--at", 2], [2]),
        (["--at", "2024-05-06T08:02:30"], [2]),
        (["--from", 1, "--to", 2], [1, 2]),
        (["--from", "2024-05-06T08:02"], [2, 3]),
    ],
)
def test_times(run, made, args, instants):
    told = ask(run, made, "--region", EVERYWHERE, *args)
    assert [answer["instant"] for answer in told["users"]] == instants


def test_moves(run, made):
    told = ask(run, made, "--region", EVERYWHERE, "--at", 0, "--region", EVERYWHERE, "--at", 3)
    assert [bounds_of(answer) for answer in told["users"]] == [(60, 60.0, 60)]
    assert [step["instant"] for step in told["steps"]] == [0, 3]


@pytest.fixture
def windows(run, tmp_path):
    """A release of two windows, between which a third is withheld: it has one user."""
    rows = [f"u{u},{t},{u},{t}" for t in (0, 1, 4, 5) for u in range(4)] + ["u0,2,0,2", "u0,3,0,3"]
    (tmp_path / "log.csv").write_text("\n".join(["user_id,time,x,y", *rows]) + "\n")
    settings = "--k", 2, "--length", 2, "--every", 1, "--max-gap", 1
    assert run("anonymize", "log.csv", "-o", "release", *settings).code == 0
    return tmp_path


def test_moves_between_windows_are_said_to_be_crude(run, windows):
    here = "--region", EVERYWHERE, "--at"
    assert ask(run, windows, *here, 0, *here, 1)["assumes"] == list(ASSUMPTIONS)
    assert ask(run, windows, *here, 0, *here, 4)["assumes"] == [*ASSUMPTIONS, UNLINKED]
    done = run("query", windows / "release", *here, 0, *here, 4)
    assert UNLINKED in " ".join(done.out.split())
    done = run("query", windows / "release", *here, 0, *here, 1)
    assert UNLINKED not in " ".join(done.out.split())
    release, region = tc.open_release(windows / "release"), (-9, -9, 9, 9)
    assert release.moves([(region, 0), (region, 1)]).num_rows == 1
    with pytest.warns(tc.TrajcloakWarning, match="different windows, which are not linked"):
        release.moves([(region, 0), (region, 4)])


def test_all_that_is_withheld_is_shown(run, windows):
    done = run("query", windows / "release", "--region", EVERYWHERE)
    told = " ".join(done.out.split())
    assert "Published: 4 users; withheld: 0 users, 1 window, 0 sets of requests." in told


def test_a_route(run, made):
    told = ask(
        run, made, "--route", "0,0 30000,0", "--width", 80000, "--from", 1, "--to", 3,
        "--by", "category",
    )  # fmt: skip
    assert [step["instant"] for step in told["steps"]] == [1, 2, 3]
    assert [step["region"][::2] for step in told["steps"]] == [
        [-40000, 50000], [-30000, 60000], [-20000, 70000],
    ]  # fmt: skip
    (answer,) = told["users"]
    assert 0 <= answer["lower"] <= answer["estimate"] <= answer["upper"] <= 60
    assert told["by"] == "category"


def test_requests_by_value(run, made):
    told = ask(run, made, "--region", EVERYWHERE, "--by", "category")
    manifest = json.loads((made / "release/manifest.json").read_text())
    counted = [answer["requests"] for answer in told["requests"]]
    assert sum(answer["lower"] for answer in counted) == manifest["requests"]
    assert all(answer["lower"] == answer["upper"] for answer in counted)
    estimates = [answer["estimate"] for answer in counted]
    assert estimates == sorted(estimates, reverse=True)
    for answer in told["requests"]:
        assert 1 <= answer["users"]["lower"] <= answer["users"]["upper"] <= 60


def test_the_tables(run, made):
    done = run("query", made / "release", "--region", EVERYWHERE, "--at", 1, "--by", "category")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"│ 1 2024-05-06 08:01 │ +60 │ +60\.0 │ +60 │", done.out)
    assert "Requests by category" in done.out
    text = " ".join(done.out.split())
    for line in ASSUMPTIONS:
        assert line in text
    assert "Published: 60 users; withheld: 0 users, 0 windows, 0 sets of requests." in text


def test_rare_values_are_left_out_of_the_table(run, made, monkeypatch):
    monkeypatch.setattr("trajcloak.cli.query.SHOWN_VALUES", 1)
    done = run("query", made / "release", "--region", EVERYWHERE, "--by", "detail")
    assert "rarer values are left out; --json has all." in done.out


def test_degrees(run, tmp_path):
    rows = [f"u{u},{t},{13 + u / 100},52,a" for u in range(4) for t in range(2)]
    (tmp_path / "log.csv").write_text("\n".join(["user_id,time,lon,lat,what", *rows]) + "\n")
    assert run("anonymize", "log.csv", "-o", "release", "--k", 2).code == 0
    told = ask(run, tmp_path, "--lonlat", "--region", "12.9,51.9,13.1,52.1", "--at", 0)
    assert bounds_of(told["users"][0]) == (4, 4.0, 4)
    told = ask(run, tmp_path, "--lonlat", "--route", "13,52 13.03,52", "--width", 9000)
    assert bounds_of(told["users"][0]) == (4, 4.0, 4)


@pytest.fixture
def berlin(run, tmp_path):
    """A release in metres, with times in UTC."""
    rows = [
        f"u{u},2024-05-01T08:0{t}:00Z,{13.4 + u / 1000},52.5,a" for u in range(4) for t in range(2)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["user_id,time,lon,lat,what", *rows]) + "\n")
    assert run("anonymize", "log.csv", "-o", "release", "--k", 2).code == 0
    return tmp_path / "release"


def test_degrees_of_a_release_in_metres_are_noticed(run, berlin):
    region = "13.3,52.4,13.5,52.6"
    done = run("query", berlin, "--region", region, "--at", 0)
    assert done.code == 0
    assert (
        "Note: the region looks like longitude and latitude in degrees, and is taken in" in done.err
    )
    assert "pass --lonlat" in done.err
    for args in (["--region", region, "--lonlat"], ["--region", "-500,-500,500,500"]):
        assert run("query", berlin, *args, "--at", 0).err == ""


def test_times_of_a_zone(run, berlin):
    asked = ["--region", EVERYWHERE, "--tz", "Europe/Berlin", "--at", "2024-05-01T10:01:30"]
    told = json.loads(run("query", berlin, *asked, "--json").out)
    assert told["users"][0]["instant"] == 1
    assert told["users"][0]["t_start"] == "2024-05-01T10:01:00.000000+02:00"
    assert "1 2024-05-01 10:01+02:00" in run("query", berlin, *asked).out
    done = run("query", berlin, "--region", EVERYWHERE, "--tz", "Mars")
    assert "tz is 'Mars'; expected the name of a time zone" in done.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--region", EVERYWHERE, "--tz", "UTC"], "times of the release have no zone"),
        ([], "Either --region or --route is needed"),
        (["--region", "1,2,3"], "region is '1,2,3'; expected numbers, X_MIN,Y_MIN,X_MAX,Y_MAX"),
        (["--region", "3,2,1,4"], "which is no rectangle"),
        (["--region", EVERYWHERE, "--at", "4"], "time '4' is not published; expected an instant"),
        (["--region", EVERYWHERE, "--at", "soon"], "time is 'soon'; expected the number of an"),
        (["--region", EVERYWHERE, "--from", "2030-01-01"], "time '2030-01-01' is not published"),
        (["--region", EVERYWHERE, "--from", "2", "--to", "1"], "is empty"),
        (
            ["--region", EVERYWHERE, "--at", "1", "--from", "1"],
            "--at does not go with --from and --to",
        ),
        (
            ["--region", EVERYWHERE, "--region", EVERYWHERE],
            "--region is given 2 times, --at 0 times",
        ),
        (
            ["--region", EVERYWHERE, "--at", "1", "--at", "2"],
            "--region is given 1 times, --at 2 times",
        ),
        (["--route", "0,0 1,1"], "--route and --width go together"),
        (["--region", EVERYWHERE, "--width", "3"], "--route and --width go together"),
        (
            ["--route", "0,0 1,1", "--width", "1", "--at", "1"],
            "--region is given 0 times, --at 1 times",
        ),
        (["--route", "0,0", "--width", "1"], "the route has 1 points"),
        (["--route", "0,0 1,1", "--width", "0"], "width is 0; expected a number above 0"),
        (["--region", EVERYWHERE, "--by", "who"], "have no attribute 'who'; expected one of"),
        (["--region", "1,1,2,2", "--lonlat"], "the release is in planar coordinates"),
    ],
)
def test_bad_questions(run, made, args, message):
    done = run("query", made / "release", *args)
    assert (done.code, done.out) == (2, "")
    assert "Error: " in done.err
    assert message in " ".join(done.err.split())


def test_a_file_is_no_release(run, made):
    log = made / "log.parquet"
    for args in (
        ["query", log, "--region", EVERYWHERE],
        ["utility", made / "release", log, "--policy", made / "policy.parquet"],
    ):
        done = run(*args)
        assert done.code == 2
        assert f"Error: {log}: is a file; expected the folder of a release; check" in done.err


def test_no_release(run):
    done = run("query", "nothing", "--region", EVERYWHERE)
    assert done.code == 2
    assert "nothing: there is no such folder; expected that of a release" in done.err
