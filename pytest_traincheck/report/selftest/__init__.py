"""Reports of `traincheck selftest`: terminal, JSON, JUnit, HTML. Pure functions of its results."""
