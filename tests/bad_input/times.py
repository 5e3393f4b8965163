"""Times that fit no grid of instants."""

import trajcloak as tc
from bad_input.case import Attempt, case, good_lines, write_csv


@case(tc.InputError, r"the log's .* reports fill only .*% of its finest time grid")
def no_grid_of_its_own(folder, secrets):
    lines = [f"{secrets.user()},{t},1,1,r\n{secrets.user()},{t + 1},1,1,r\n" for t in (0, 97)]
    user = secrets.user()
    far = f"{user},0,{secrets.place()},1,r\n{user},1000,{secrets.place()},1,r\n"
    return Attempt(write_csv(folder, *lines, far), options={"rows_alike": True})


@case(tc.OptionError, r"every is '60s'; the log has integer instants")
def seconds_for_a_log_without_moments(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets)), options={"every": "60s"})


@case(tc.OptionError, r"max-gap is '5'; the log has timestamps")
def instants_for_a_log_with_moments(folder, secrets):
    lines = [secrets.row(time="2024-01-01T00:00:00") for _ in range(3)]
    return Attempt(write_csv(folder, *lines), options={"max_gap": "5"})


@case(tc.InputError, r"rows 1 and 2: there are [\d,]+ instants from one to the other")
def too_many_instants(folder, secrets):
    path = write_csv(folder, secrets.row(time=0), secrets.row(time=10**12))
    return Attempt(path, options={"every": "1"})
