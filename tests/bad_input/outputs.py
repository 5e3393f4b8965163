"""Too few users, and outputs that cannot be written."""

import trajcloak as tc
from bad_input.case import Attempt, case, good_lines, write_csv


@case(tc.OptionError, r"k is 1;")
def k_of_one(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets)), k=1)


@case(tc.NotEnoughUsersError, r"the log has 3 users; expected at least 4")
def not_enough_users(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets)), k=4)


@case(tc.OptionError, r"window 0: everybody would be left out")
def everybody_suppressed(folder, secrets):
    path = write_csv(folder, *good_lines(secrets))
    return Attempt(path, options={"suppress_above": 1e-9})


@case(tc.OutputError, r"taken: exists already")
def release_exists(folder, secrets):
    (folder / "taken").mkdir()
    return Attempt(write_csv(folder, *good_lines(secrets)), release="taken")


@case(tc.OutputError, r"taken: exists already")
def policy_exists(folder, secrets):
    (folder / "taken").write_text("mine")
    return Attempt(write_csv(folder, *good_lines(secrets)), policy="taken")


@case(tc.OutputError, r"nowhere/release: there is no folder")
def no_folder_for_the_release(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets)), release="nowhere/release")


@case(tc.OptionError, r"release/policy: the policy file would stand inside the release")
def policy_in_the_release(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets)), policy="release/policy")
