"""Slow twins of the package: obviously right, and importing nothing from it."""
