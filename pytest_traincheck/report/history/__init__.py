"""A history on the terminal, as a page and as JSON."""
