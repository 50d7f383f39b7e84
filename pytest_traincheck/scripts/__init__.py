"""Training scripts of a repository, found by reading their source. Nothing of them is imported or run."""
