"""What became of planted mistakes: the artefact of `traincheck selftest`, and what it is measured by."""
