"""The page of a refresh."""
