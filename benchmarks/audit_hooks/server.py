"""Runs scripts one after another in children of a process that has imported torch: most of a short run is that.

Reads a line of JSON for each run from its standard input (`script`, or `module` as for `python -m`, `arguments`,
`folder`, `environment`, `output`, `timeout`) and answers with `status` and `seconds` in one; the status is 124 for
what ran past its limit. What is named on its command line is imported as well.
"""

import importlib
import json
import os
import runpy
import signal
import sys
import time
import types
from pathlib import Path

import torch
import torch.utils.data


def train(asked):
    """The child: the script as `python SCRIPT` runs it, with the tool that the environment names."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    out = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, out)):
        os.dup2(file, number)
    os.chdir(asked["folder"])
    os.environ.update(asked["environment"])
    sys.argv = [asked.get("script", ""), *asked["arguments"]]
    if "module" in asked:
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
        return
    if peer := os.environ.get("AUDIT_PEER"):
        importlib.import_module(f"use_{peer}").install()
    sys.path[0] = asked["folder"]
    main = types.ModuleType("__main__")
    main.__file__ = str(Path(asked["script"]).absolute())
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    code = compile(Path(asked["script"]).read_bytes(), main.__file__, "exec")
    exec(code, main.__dict__)


def wait(pid, deadline):
    """The child's status as a shell has it."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if time.perf_counter() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return 124
        time.sleep(0.02)


def serve():
    """Returns in a child, which then trains; in the server at the end of its input."""
    for line in sys.stdin:
        asked = json.loads(line)
        begin = time.perf_counter()
        pid = os.fork()
        if not pid:
            return asked
        status = wait(pid, begin + asked["timeout"])
        print(json.dumps({"status": status, "seconds": time.perf_counter() - begin}), flush=True)
    return None


if __name__ == "__main__":
    assert torch.utils.data
    for name in sys.argv[1:]:
        importlib.import_module(name)
    todo = serve()
    if todo is not None:
        train(todo)
