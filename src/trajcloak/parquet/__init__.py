"""Parquet files from row groups that were encoded apart."""

from trajcloak.parquet.row_groups import (
    COMPRESSION,
    encode_row_group,
    join_row_groups,
    write_row_groups,
)

__all__ = ["COMPRESSION", "encode_row_group", "join_row_groups", "write_row_groups"]
