"""Columns of types that cannot be used."""

import pyarrow as pa

import trajcloak as tc
from bad_input.case import Attempt, case, write_parquet


@case(tc.InputError, r"column 'user_id' is of type double")
def ids_with_decimals(folder, secrets):
    return Attempt(write_parquet(folder, secrets, user_id=[secrets.place(), secrets.place()]))


@case(tc.InputError, r"row 2: column 'user_id' cannot be read as int64")
def ids_beyond_64_bits(folder, secrets):
    ids = pa.array([1, secrets.number()], pa.uint64())
    return Attempt(write_parquet(folder, secrets, user_id=ids))


@case(tc.InputError, r"column 'user_id' holds numbers in one file and text in another")
def ids_of_two_types(folder, secrets):
    first = write_parquet(folder, secrets, "a.parquet", user_id=[1, 2])
    return Attempt([first, write_parquet(folder, secrets, "b.parquet", time=[0, 0])])


@case(tc.InputError, r"column 'x' is of type string")
def coordinates_as_text(folder, secrets):
    return Attempt(write_parquet(folder, secrets, x=[str(secrets.place())]))


@case(tc.InputError, r"column 'time' is of type double")
def times_with_decimals(folder, secrets):
    return Attempt(write_parquet(folder, secrets, time=[secrets.place()]))


@case(
    tc.InputError,
    r"row 2: column 'time' cannot be read as timestamp.* ISO 8601 without a zone",
)
def ids_among_times(folder, secrets):
    times = ["2024-01-01T00:00:00", secrets.user()]
    return Attempt(write_parquet(folder, secrets, time=times))


@case(tc.InputError, r"row 1: column 'time' cannot be read as timestamp")
def microseconds_taken_for_seconds(folder, secrets):
    times = pa.array([1_700_000_000_000_000], pa.timestamp("s"))
    return Attempt(write_parquet(folder, secrets, time=times))


@case(tc.InputError, r"rows 1 and 2: column 'time' spans more than 2\^62")
def times_from_end_to_end(folder, secrets):
    return Attempt(write_parquet(folder, secrets, time=[-(2**63), 2**63 - 1]))


@case(tc.InputError, r"column 'time' holds times of different kinds")
def times_of_two_kinds(folder, secrets):
    first = write_parquet(folder, secrets, "a.parquet", time=[0])
    moment = pa.array([0], pa.timestamp("s"))
    return Attempt([first, write_parquet(folder, secrets, "b.parquet", time=moment)])


@case(tc.InputError, r"request column 'what' holds lists or maps")
def nested_requests(folder, secrets):
    return Attempt(write_parquet(folder, secrets, what=[[secrets.user()]]))


@case(tc.InputError, r"request column 'what' is of type string in one file and int64 in another")
def requests_of_two_types(folder, secrets):
    first = write_parquet(folder, secrets, "a.parquet", what=[secrets.user()])
    return Attempt([first, write_parquet(folder, secrets, "b.parquet", what=[7])])
