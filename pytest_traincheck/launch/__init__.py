"""Runs the user's commands with the probe inside, on either side, and cleans up after them."""
