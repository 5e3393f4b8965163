"""Rows that cannot be read."""

import trajcloak as tc
from bad_input.case import Attempt, case, good_lines, write_csv, write_parquet


@case(tc.InputError, r"log\.csv: row 3: 4 cells; expected 5")
def short_row(folder, secrets):
    lines = good_lines(secrets)
    lines[2] = f"{secrets.user()},0,{secrets.place()},{secrets.place()}\n"
    return Attempt(write_csv(folder, *lines))


@case(tc.InputError, r"log\.csv: 2 rows \(1, 2\): 2 cells; expected 5")
def only_short_rows(folder, secrets):
    return Attempt(write_csv(folder, f"{secrets.user()},{secrets.place()}\n" * 2))


@case(tc.InputError, r"b\.csv: row 2: 6 cells; expected 5")
def long_row_in_the_second_file(folder, secrets):
    write_csv(folder, *good_lines(secrets), name="a.csv")
    lines = good_lines(secrets)
    lines[1] = secrets.row().strip() + f",{secrets.user()}\n"
    write_csv(folder, *lines, name="b.csv")
    return Attempt(folder)


@case(tc.InputError, r"row 2: column 'user_id' is empty")
def empty_id(folder, secrets):
    lines = [secrets.row(), f",0,{secrets.place()},{secrets.place()},r\n"]
    return Attempt(write_csv(folder, *lines))


@case(tc.InputError, r"row 1: column 'time' is empty")
def empty_time(folder, secrets):
    return Attempt(write_csv(folder, secrets.row(time=""), secrets.row()))


@case(tc.InputError, r"row 3: column 'y' is empty")
def null_coordinate(folder, secrets):
    y = [secrets.place(), secrets.place(), None]
    return Attempt(write_parquet(folder, secrets, y=y))


@case(
    tc.InputError,
    r"log\.csv: row 2: column 'x' cannot be read \(it looks [^)]+\); expected a number",
)
def id_in_a_coordinate(folder, secrets):
    return Attempt(write_csv(folder, secrets.row(), f"u,0,{secrets.user()},1,r\n"))


@case(
    tc.InputError,
    r"log\.csv: row 2: column 'time' cannot be read \(it looks [^)]+\); expected a whole number",
)
def coordinate_in_an_integer_time(folder, secrets):
    return Attempt(write_csv(folder, secrets.row(), secrets.row(time=secrets.place())))


@case(
    tc.InputError,
    r"log\.csv: row 2: column 'time' cannot be read \(it looks [^)]+\); expected an ISO 8601",
)
def id_in_a_moment(folder, secrets):
    first = secrets.row(time="2024-01-01T00:00:00")
    return Attempt(write_csv(folder, first, secrets.row(time=secrets.user())))


@case(
    tc.InputError,
    r"log\.csv: row 2: column 'time' cannot be read \(it looks [^)]+\); expected an ISO 8601",
)
def zones_here_and_not_there(folder, secrets):
    moments = ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00")
    return Attempt(write_csv(folder, *(secrets.row(time=moment) for moment in moments)))


@case(
    tc.InputError,
    r"log\.csv: row 2: column 'user_id' cannot be read \(it looks [^)]+\); expected text in UTF-8",
)
def latin_1(folder, secrets):
    path = write_csv(folder, secrets.row())
    path.write_bytes(path.read_bytes() + f"{secrets.user()}é,0,1,1,r\n".encode("latin-1"))
    return Attempt(path)
