"""Fuzz one target in this process: ``python -m fuzz.one TARGET [options of libFuzzer]``."""

import sys
from importlib import import_module

import atheris

INSTRUMENTED = [
    "trajcloak.log", "trajcloak.movement", "trajcloak.kernels", "trajcloak.options",
    "trajcloak.parquet", "trajcloak.release.reading", "trajcloak.release.manifest_schema",
    "trajcloak.query", "trajcloak.auditor", "trajcloak.report",
]  # fmt: skip


def main() -> None:
    """Instrument the readers, then feed the target; does not return."""
    with atheris.instrument_imports(include=INSTRUMENTED):
        for name in INSTRUMENTED:
            import_module(name)
        from fuzz.readers import TARGETS
    name, *options = sys.argv[1:]
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
