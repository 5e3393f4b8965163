"""What Parquet files say about themselves, read before their contents are."""
