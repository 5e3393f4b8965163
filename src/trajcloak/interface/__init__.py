"""What callers in Python use: values and tables of their own go in, tables come out."""
