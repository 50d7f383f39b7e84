"""Machine code that calls a built-in function between two hooks, and the C source that it is made from."""
