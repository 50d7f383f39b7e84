"""What can be said of a library: its wrappers, its samplers, its versions; and of a function that is to be observed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Wrapper:
    """A class of modules that hand a call on to the module in them. They are looked through: the inner module has the
    names that it has without the wrapper.
    """

    name: str
    """Of the class, without its module, which differs between versions: `DistributedDataParallel`."""
    inner: str
    """The attribute that holds the inner module."""
    short: str = ""
    """What people call it in code: `DDP`."""
    compiles: bool = False
    """Whether what is inside runs compiled, where nobody sees it, so that a call of the wrapper stands for it."""


class CallType(str, Enum):
    """What an observed function does to a training: the type of its calls in a trace."""

    OBSERVED = "observed"
    """Nothing is known of it. What it is called with is recorded."""
    CLIP = "clip"
    """It changes gradients before a step."""
    UPDATE = "update"
    """It moves parameters outside of optimizers, as an average of weights does."""
    SAVE = "save"
    """It writes into a file what models hold. Its first named argument is the state, a module, or a container."""
    LOAD = "load"
    """It writes into the tensors of its first named argument what it reads from a file."""
    APART = "apart"
    """What it does is no part of a training, whatever it calls: nothing within it is observed, and it is not either."""
    WAIT = "wait"
    """A rank that has no more data waits in it for those that have, and answers their collectives. Nothing within it is
    observed, and what ranks do behind it stands side by side, whatever number of steps each has taken.
    """


@dataclass(frozen=True)
class Observation:
    """A function, method or class to observe. It is looked up where it is defined, once its module was imported."""

    target: str
    """`package.module:function`, `package.module:Class.method`, or `package.module:Class` for what makes instances.
    """
    arguments: tuple[str, ...] = ()
    """Names of the arguments that are recorded; all of them where there are none. Functions that do not tell their
    parameters, as some that are written in C, are taken to have these, in this order.
    """
    type: CallType = CallType.OBSERVED

    @property
    def module(self) -> str:
        return self.target.partition(":")[0]

    @property
    def path(self) -> str:
        """What leads from the module to it: `Class.method`."""
        return self.target.partition(":")[2]

    @property
    def api(self) -> str:
        """What rules and traces call it."""
        return f"{self.module}.{self.path}"


@dataclass(frozen=True)
class Framework:
    """What is particular to one library. Classes are known by name, and only where the library is loaded."""

    name: str
    """As it is imported: `accelerate`, `torch.distributed`. All of its classes lie below the first part."""
    versions: tuple[str, ...] = ()
    """Modules whose `__version__` a trace records, where they are loaded."""
    wrappers: tuple[Wrapper, ...] = ()
    parallel: tuple[str, ...] = ()
    """How the names of modules begin whose calls make ranks train together, as rules name them."""
    samplers: tuple[str, ...] = ()
    """Samplers, as `MODULE.CLASS`, that share out or leave out what comes from the one in them, in its order."""
    observations: tuple[Observation, ...] = ()
    """Functions of the library that are observed wherever it is loaded: those that save or load what models hold."""


@dataclass(frozen=True)
class CommandLine:
    """What programs that train with a library look like from outside, as their source says it."""

    libraries: tuple[str, ...]
    """The names by which it is imported."""
    trains: str
    """The method that trains: `fit`."""
    trainers: tuple[str, ...] = ("Trainer",)
    """How the names of the classes end that have it."""
    clis: tuple[str, ...] = ()
    """Classes that read the command line and train as soon as they are made."""
    command: str = ""
    """The first word of a program of `clis` that means training."""
    seed: str = ""
    """The option of such a program that seeds."""
    short: tuple[tuple[str, str], ...] = ()
    """Arguments of a trainer that make a run short and let it go through all that it does twice."""
    directory: str = ""
    """The argument of a trainer that says where it writes."""
    settings: tuple[str, ...] = ()
    """How the names of classes end whose fields become options of the program."""
    fields: tuple[tuple[str, object], ...] = ()
    """Those of their fields that matter for a short run, each with its default."""
