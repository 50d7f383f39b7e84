"""Checking a training while it goes on: its trace is read as it grows and judged stretch by stretch."""
