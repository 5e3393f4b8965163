"""Files that are not logs."""

import pyarrow as pa

import trajcloak as tc
from bad_input.case import Attempt, case, good_lines, write_csv, write_parquet


@case(tc.InputError, r"no log is given")
def nothing_given(folder, secrets):
    return Attempt([])


@case(tc.InputError, r"missing\.csv: no log found")
def no_file(folder, secrets):
    return Attempt(folder / "missing.csv")


@case(tc.InputError, r"nothing\*: no log found")
def glob_without_files(folder, secrets):
    return Attempt(str(folder / "nothing*"))


@case(tc.InputError, r"log\.xlsx: unknown kind of file")
def another_kind_of_file(folder, secrets):
    return Attempt(write_csv(folder, secrets.row(), name="log.xlsx"))


@case(tc.InputError, r"log\.csv: the file is empty")
def empty_csv(folder, secrets):
    return Attempt(write_csv(folder, header=""))


@case(tc.InputError, r"log\.parquet: the file is empty")
def empty_parquet(folder, secrets):
    return Attempt(write_csv(folder, header="", name="log.parquet"))


@case(tc.InputError, r"log\.csv: the log has no rows")
def only_a_header(folder, secrets):
    return Attempt(write_csv(folder))


@case(tc.InputError, r"log\.parquet: the log has no rows")
def no_rows(folder, secrets):
    empty = pa.array([], pa.int64())
    columns = {"time": empty, "x": empty, "y": empty, "what": pa.array([], pa.string())}
    return Attempt(write_parquet(folder, secrets, user_id=empty, **columns))


@case(tc.InputError, r"b\.parquet: cannot be read")
def damaged_parquet(folder, secrets):
    good = write_parquet(folder, secrets, "a.parquet", time=[0, 0])
    content = good.read_bytes()
    (folder / "b.parquet").write_bytes(content[: len(content) // 2])
    return Attempt(folder / "*.parquet")


@case(tc.InputError, r"log\.parquet: cannot be read")
def csv_named_parquet(folder, secrets):
    return Attempt(write_csv(folder, *good_lines(secrets), name="log.parquet"))
