"""What is particular to one library: one file each, plain data, found by looking into this folder.

Both sides read it: the probe inside the training process, and what checks its traces. So nothing here imports anything
but the standard library, and no library that is described here is ever imported.
"""
