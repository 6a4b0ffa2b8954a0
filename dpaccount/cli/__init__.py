"""The command line: one command a file, each a thin face over the public functions."""
