"""Imported by a repository, called in no run here."""
