"""`gym` by its new name: what scripts written for the old one use of it is the same in gymnasium.

Environments are seeded, since a script that does not do it has another run each time.
"""

import gymnasium
from gymnasium import Env, spaces, wrappers

__all__ = ["Env", "make", "spaces", "wrappers"]


def make(*arguments, **settings):
    """An environment that begins the same in every run."""
    environment = gymnasium.make(*arguments, **settings)
    environment.reset(seed=0)
    return environment
