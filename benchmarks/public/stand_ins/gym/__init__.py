"""`gym` by its new name: what scripts written for the old one use of it is the same in gymnasium."""

from gymnasium import Env, make, spaces, wrappers

__all__ = ["Env", "make", "spaces", "wrappers"]
