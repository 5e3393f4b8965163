"""Places that cannot be right."""

import trajcloak as tc
from bad_input.case import DEGREES, Attempt, case, good_lines, write_csv, write_parquet


@case(tc.InputError, r"row 2: column 'x' is not a finite number")
def not_a_number(folder, secrets):
    return Attempt(
        write_csv(folder, secrets.row(), f"{secrets.user()},0,nan,{secrets.place()},r\n")
    )


@case(tc.InputError, r"row 1: column 'y' is not a finite number")
def infinite(folder, secrets):
    return Attempt(write_parquet(folder, secrets, y=[float("-inf"), secrets.place()]))


@case(tc.InputError, r"row 2: column 'lon' is out of range .*; expected -180\.\.180 degrees")
def longitude_out_of_range(folder, secrets):
    lines = [secrets.row(low=12, high=14), secrets.row(low=181, high=300)]
    return Attempt(write_csv(folder, *lines, header=DEGREES))


@case(tc.InputError, r"row 2: column 'lat' is out of range .*; expected -90\.\.90 degrees")
def swapped_longitude_and_latitude(folder, secrets):
    lines = [secrets.row(low=12, high=14), f"u,0,{secrets.place(1, 2)},{secrets.place(91, 99)},r\n"]
    return Attempt(write_csv(folder, *lines, header=DEGREES))


@case(tc.InputError, r"the log spans more than 180 degrees of longitude")
def on_both_sides_of_the_globe(folder, secrets):
    lines = [f"u{lon},0,{lon},{secrets.place(1, 2)},r\n" for lon in (-120, 0, 120)]
    return Attempt(write_csv(folder, *lines, header=DEGREES))


@case(tc.InputError, r"rows 2 and 3: the same user and time with different places")
def two_places_at_once(folder, secrets):
    user = secrets.user()
    lines = [f"{user},0,{secrets.place()},{secrets.place()},r\n" for _ in range(2)]
    return Attempt(write_csv(folder, secrets.row(), *lines))


@case(tc.InputError, r"rows 1 and 3: the same user and time with different places")
def two_places_at_once_off_the_grid(folder, secrets):
    user = secrets.user()
    lines = [f"{user},3,{secrets.place()},{secrets.place()},r\n" for _ in range(2)]
    path = write_csv(folder, lines[0], secrets.row(time=8), lines[1])
    return Attempt(path, options={"every": "10"})


@case(tc.InputError, r"row 151 is far from all others")
def null_island(folder, secrets):
    lines = [secrets.row(low=13.0, high=13.1) for _ in range(300)]
    lines[150] = f"{secrets.user()},0,0,0,r\n"
    return Attempt(write_csv(folder, *lines, header=DEGREES))


@case(tc.InputError, r"2 rows \(7, 200\) are far from all others")
def rows_in_another_unit(folder, secrets):
    lines = [secrets.row() for _ in range(300)]
    for number in (6, 199):
        lines[number] = secrets.row(low=7e6, high=7.9e6)
    return Attempt(write_csv(folder, *lines))


@case(tc.InputError, r"3 rows \(1, 2, 3\) are outside the region")
def outside_the_region(folder, secrets):
    path = write_csv(folder, *good_lines(secrets))
    return Attempt(path, options={"region": (0.0, 0.0, 100.0)})


@case(tc.OptionError, r"height is 24, which makes cells smaller than")
def cells_too_fine(folder, secrets):
    lines = [secrets.row(low=7e12, high=7e12 + 99) for _ in range(3)]
    return Attempt(write_csv(folder, *lines), options={"height": 24})
