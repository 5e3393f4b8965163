"""Columns that are missing, or named twice."""

import pyarrow.parquet as pq

import trajcloak as tc
from bad_input.case import Attempt, case, good_lines, write_csv, write_parquet
from trajcloak.options import LogColumns


@case(tc.InputError, r"log\.csv: there are no columns .* in its first line, which looks like a row")
def csv_without_header(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets), header=""))


@case(tc.InputError, r"log\.csv: there is no column 'what'")
def missing_request_column(folder, secrets):
    line = f"{secrets.user()},0,{secrets.place()},{secrets.place()}\n"
    return Attempt(write_csv(folder, line, header="user_id,time,x,y\n"))


@case(tc.InputError, r"log\.parquet: there is no column 'time' among user_id, when, x, y, what")
def missing_time_column(folder, secrets):
    path = write_parquet(folder, secrets, time=[0, 0])
    names = ["user_id", "when", "x", "y", "what"]
    pq.write_table(pq.read_table(path).rename_columns(names), path)
    return Attempt(path)


@case(tc.OptionError, r"request column 'user_id' also holds the user, time or place")
def user_as_request(folder, secrets):
    path = write_csv(folder, *good_lines(secrets))
    return Attempt(path, columns=LogColumns(requests=("user_id",)))


@case(tc.OptionError, r"the log has both lon/lat and x/y")
def two_pairs_of_coordinates(folder, secrets):
    header = "user_id,time,x,y,what,lon,lat\n"
    return Attempt(write_csv(folder, secrets.row().strip() + ",1,2\n", header=header))


@case(tc.OptionError, r"request column 'x' also holds the user, time or place")
def place_as_request(folder, secrets):
    path = write_csv(folder, *good_lines(secrets))
    return Attempt(path, columns=LogColumns(requests=("what", "x")))
