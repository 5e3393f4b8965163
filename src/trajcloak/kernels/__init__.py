"""Compiled loops that several stages share.

All kernels of the project are compiled with ``nogil``, so that plain Python
threads run them side by side, and cached on disk. None uses numba's own
threading layer: which thread ran a slice never changes what it computes.
"""
