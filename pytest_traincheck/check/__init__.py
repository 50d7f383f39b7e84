"""Checking: golden invariants against a run, and the violations explained as incidents."""
