"""What can be wrong with a trace."""


class TraceError(ValueError):
    """A trace is missing, unreadable, or not a reliable record of the run. The message says which and what to do."""
