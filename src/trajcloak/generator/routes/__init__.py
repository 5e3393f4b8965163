"""Fastest routes in road networks: exact, and microseconds each."""

from trajcloak.generator.routes.query import (
    NO_ROUTE,
    Routes,
    Scratch,
    build_routes,
    build_scratch,
    write_route,
)

__all__ = ["NO_ROUTE", "Routes", "Scratch", "build_routes", "build_scratch", "write_route"]
