"""A stand-in for the old torchtext of our own: names that a repository imports, and nothing more."""
