"""Nothing but the program, with what it does to silence warnings and loggers left undone: what is printed then."""

import logging
import warnings


def install():
    def nothing(*args, **kwargs):
        pass

    def enable(action, *args, **kwargs):
        if action != "ignore":
            before(action, *args, **kwargs)

    before = warnings.filterwarnings
    warnings.filterwarnings = enable
    warnings.simplefilter = nothing
    logging.Logger.setLevel = nothing
