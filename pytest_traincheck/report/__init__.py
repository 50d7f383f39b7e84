"""Reports: pure functions of check results, one reporter per file."""
