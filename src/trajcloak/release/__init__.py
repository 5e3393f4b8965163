"""The file format of a release, and all that writes and reads it."""
