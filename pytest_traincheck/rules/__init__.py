"""Rules: what a relation claims of a pipeline, and where it holds."""
