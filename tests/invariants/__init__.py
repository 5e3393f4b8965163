"""The nine invariants of docs/guarantee.md, a file each.

Each has a checker, which a property test calls on the library as it is, and which
another test sees fail on versions of the library that are broken on purpose.
"""
