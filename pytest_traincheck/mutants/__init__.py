"""Known mistakes that are planted into a training process at run time, to see whether a golden notices them.

This package runs inside the user's process, as the probe does and by the same way in. It needs the standard library and
torch, nothing else; `catalogue` needs not even torch. Its wrappers lie outside the probe's, so that the probe sees what
it would see if the user had written the mistake.
"""
