"""Training invariants for PyTorch: learned on golden code, checked on a candidate, reported through pytest."""

__version__ = "0.1.0"
