"""The golden store: the invariants of a pipeline as a file that is reviewed like code."""
