"""Formats of report that `--write NAME=FILE` knows: one file each, with a class that has a `name` and `render`."""
