"""Numbers of fields in the Parquet format, as far as they are used here."""

MAGIC = b"PAR1"
TAIL = 8
"""Bytes after the footer: its length, and the magic again."""

NUM_ROWS, ROW_GROUPS = 3, 4
"""Of the footer."""

COLUMNS, GROUP_ROWS, GROUP_OFFSET, ORDINAL = 1, 3, 5, 7
"""Of a row group."""

CHUNK_METADATA = 3
OTHER_OFFSETS = {4, 5, 6, 7}
"""Of a column chunk; Arrow does not write the latter by default: places of page indexes."""

NUM_VALUES, CHUNK_BYTES, DATA_PAGE, DICTIONARY_PAGE = 5, 7, 9, 11
"""Of the metadata of a column chunk; pages by their offsets."""

UNPACKED_BYTES, PACKED_BYTES, DATA_HEADER, DATA_HEADER_V2 = 2, 3, 5, 8
"""Of a page header."""

ENCODING, ENCODING_V2 = 2, 4
"""Of the headers of data pages of both versions."""

DELTA_BYTE_ARRAY = 7
"""An encoding in which each value may repeat all of the one before."""
