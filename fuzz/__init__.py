"""A coverage-guided fuzzer for everything that reads files of others."""
