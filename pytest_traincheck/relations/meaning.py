"""What rules and findings mean, in types: what others may decide by, so that nobody has to know a relation by its name
or to read a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.settings import Setting


class Place(Enum):
    """Where in the flow of a training step a rule stands, upstream first."""

    DATA = "data"
    """What is loaded and drawn."""
    INITIAL = "initial values"
    RESUMED = "resumed state"
    """State that an optimizer has from earlier steps."""
    KEPT = "kept values"
    """What trained parameters have from the step before."""
    HELD = "held parameters"
    """Which parameters optimizers hold, and which are trainable."""
    CHOICE = "choice"
    """A setting: a hyper-parameter, a batch size, the base of a schedule."""
    CLASS = "class"
    """Which class of optimizer is used; settings of another one mean nothing."""
    DRAWS = "draws"
    """How many random numbers are drawn."""
    FORWARD = "forward"
    LOSS = "loss"
    BACKWARD = "backward"
    ACCUMULATION = "accumulation"
    """Which backward passes are in a gradient."""
    PREPARATION = "preparation"
    """What is done to gradients before the step: clipping, scaling."""
    EXCHANGE = "exchange"
    """What ranks send each other."""
    STEP = "step"
    SCHEDULING = "scheduling"
    """Calls of learning-rate schedulers."""
    AVERAGING = "averaging"
    """Calls that average weights."""
    DIVERGED = "diverged"
    """Whether losses are finite."""
    ARRIVAL = "arrival"
    """Gradients that have arrived when a step begins."""
    USE = "use"
    """Gradients that a step uses before they are cleared."""
    UPDATE = "update"
    COPY = "copy"
    """Parameters that no optimizer holds."""
    STATISTICS = "statistics"
    """Buffers."""
    RATE = "rate"
    """Learning rates as they are."""
    COURSE = "course"
    """Learning rates, relative to what the schedule is relative to."""
    AGREEMENT = "agreement"
    """Whether ranks have the same."""
    NUMBER = "number"
    RUN = "run"
    """A run as a whole: how much it trains and evaluates."""
    OTHER = "other"
    """No place is known: it may follow from anything, and anything may follow from it."""


def place_of_call(api: str) -> Place:
    """Where in a training step a call of an API stands."""
    if vocabulary.trains_ranks(api):
        return Place.EXCHANGE
    if api.startswith("torch.nn.Module.forward"):
        return Place.FORWARD
    if vocabulary.is_loss(api):
        return Place.LOSS
    if api.startswith(vocabulary.F) or api == vocabulary.MASKING:
        return Place.FORWARD
    if api.startswith(("torch.autograd.", "torch.Tensor.backward")):
        return Place.BACKWARD
    if ".lr_scheduler." in api:
        return Place.SCHEDULING
    if ".swa_utils." in api:
        return Place.AVERAGING
    if ".clip_grad_" in api or "GradScaler" in api:
        return Place.PREPARATION
    return Place.STEP if api.endswith(".step") else Place.OTHER


class Change(Enum):
    """What may shift in a run, so that several rules are broken together of which none is the effect of another."""

    WINDOWS = "windows"
    """Steps come elsewhere; windows between steps, and all that is counted in them, with them."""
    LENGTH = "length"
    """How often things come in a run."""
    BATCHES = "batches"
    """How large batches are."""
    ORDER = "order"
    """Whether data come in another order in each epoch."""
    VALUES = "values"
    """What numbers batches are made of."""
    LOSS_INPUT = "loss input"
    """How loss functions are called, or what they are given."""
    DERIVATIVES = "derivatives"
    """How derivatives are taken that may be part of a loss."""
    MODE = "mode"
    """Whether a model is in train mode or in eval mode."""
    LOOP = "loop"
    """What the training loop does around each step."""


class Excuse(Enum):
    """What must be known for a broken rule to be none: that something is written in other words, or does nothing. All
    but the last is for replay to show.
    """

    NONE = "none"
    """Nothing excuses it."""
    OWN_RESULT = "own result"
    """What comes out of the very call or loss that it is about is golden's."""
    ALL_RESULTS = "all results"
    """A function is gone, and whatever was compared is golden's."""
    INITIAL_VALUES = "initial values"
    """The numbers that training begins with are golden's."""
    ALIKE_IN_MODES = "alike in modes"
    """The model holds nothing that does anything else in the other mode."""


class Evidence(Enum):
    """What shows that a rule about structure was broken without any effect: who holds, who is called, how often, in
    which order. Each was golden's in every step of the run, bit by bit.
    """

    NONE = "none"
    """The values of a run do not show it: the rule is about something else than structure, or about what training
    steps do not depend on, like evaluation, checkpoints and ranks."""
    TRAINED = "trained"
    """The parameters that are trained."""
    PACED = "paced"
    """Their learning rates, which changed."""
    RATED = "rated"
    """Their learning rates, each of which moved something in golden's run."""
    COPIED = "copied"
    """Parameters that no optimizer holds, such as averages, which changed."""
    COUNTED = "counted"
    """Buffers, which changed."""
    SEEN = "seen"
    """All parameters and buffers whenever they were looked at, also before, between and after the steps."""
    EVALUATED = "evaluated"
    """What models returned where no gradients were recorded."""
    USED = "used"
    """The same, and parameters that no optimizer holds, such as averages, which changed."""


class Basic(Enum):
    """What every training has; a golden without a rule about it says so."""

    NONE = "none"
    RATES = "rates"
    """Which learning rates an optimizer has."""
    STEPS = "steps"
    """How many optimizer steps a run takes."""
    GRADIENTS = "gradients"
    """Which parameters of an optimizer get gradients."""


@dataclass(frozen=True)
class Words:
    """How code speaks of what a rule is about, beside the name of its subject."""

    names: tuple[str, ...] = ()
    """Functions that do what the subject is about, where that is no function itself; with or without underscores and
    capitals."""
    parts: tuple[str, ...] = ()
    """What names have between their underscores: `ema` for `update_ema`, `ema_model` and `ModelEMA`."""
    apis: tuple[str, ...] = ()
    """Further APIs that it is about."""
    words: tuple[str, ...] = ()
    """Names of arguments, options and variables, as they are written."""
    variables: tuple[str, ...] = ()
    """Qualified names of parameters that it is about."""
    finds_variables: bool = False
    """So are those of its findings."""


@dataclass(frozen=True)
class Meaning:
    """What a broken rule is to others: where it stands, what it explains and what explains it."""

    place: Place = Place.OTHER
    order: int = 0
    """Among rules of one layer in one step: lower is upstream."""
    brings: frozenset[Change] = frozenset()
    """What shifts when it is broken."""
    comes_with: frozenset[Change] = frozenset()
    """Shifts that break it, too."""
    earliest: int = 0
    """First step in which it can be broken."""
    by_data: bool = False
    """What the program says shows in the first step; what differs in a later one may be up to the data."""
    is_mode: bool = False
    """It is about the mode in which a model is called."""
    model: str = ""
    """The model whose calls it counts."""
    evaluates: bool = False
    """The calls that it counts are those in evaluation."""
    conditional: bool = False
    """It compares results of what was given the same: up to where it is broken everything was golden's."""
    general: bool = False
    """Every correct training does it, where it does such a thing at all: it may be checked on another program."""
    set_up: bool = False
    """It is about forward passes in set-up, which are not looked at otherwise."""
    per_run: bool = False
    """Its examples are runs, not steps: where in a run it was broken is not known."""
    at_beginning: bool = False
    """It says what a training begins with, where it does not go on with an earlier one."""
    at_resumes: bool = False
    """It says something where a training is gone on with, even in steps that golden's runs never came to."""
    recurs: bool = False
    """It also says that what comes every so many steps goes on, in steps that golden's runs never came to."""
    by_length: bool = False
    """It says at which of a run's steps something comes, or what it is then: a longer run may have that elsewhere."""
    in_sequence: bool = False
    """It compares a step with the one before."""
    only_explains: bool = False
    """Broken by itself it is nothing wrong: it names what other rules, which show an effect, follow from."""
    in_other_words: bool = False
    """What it says is called may be written in other words, which nobody observes: that it is nowhere to be seen is
    nothing wrong by itself, and the cause of what shows an effect.
    """
    between_steps: bool = False
    """It is about what comes after a step and before the next: numbers that the step is said to leave follow from it.
    """
    excuse: Excuse = Excuse.NONE
    shown_by: Evidence = Evidence.NONE
    """What would show an effect, if breaking it had one."""
    acts: str = ""
    """The API that must have changed something in golden's run, so that its absence would show; empty: none."""
    basic: Basic = Basic.NONE
    """What it is about that every training has."""
    basic_of: str = ""
    """The optimizer, or its call, that `basic` is about; empty: all."""
    words: Words = Words()
    setting: Setting | None = None
    """The value that it is about, where somebody chose it."""


class Deviation(Enum):
    """What sort of deviation from golden a finding is."""

    DIFFERENT = "different"
    """Something else than golden has: another value, state or content."""
    MISPLACED = "misplaced"
    """What golden does is done, but at another place or in another order."""
    NEVER = "never"
    """Golden calls it, and the candidate's whole run never does."""
    LEFT_OUT = "left out"
    """What comes in every training step is missing in one of them."""
    LACKING = "lacking"
    """What golden does within a call, or to a variable, is not done."""
    FEWER = "fewer"
    """Less often, or over less, than in golden."""
    TOO_OFTEN = "too often"
    """More often than in golden."""
    EXTRA = "extra"
    """Something is done as well that golden does not do."""
    NOT_FINITE = "not finite"
    """NaN or infinite where golden has a number."""
    CUT_SHORT = "cut short"
    """The run ends before golden's does."""

    @property
    def is_absence(self) -> bool:
        """Whether something is not there, so that the line of a finding is only where that was noticed."""
        return self in (Deviation.NEVER, Deviation.LEFT_OUT, Deviation.LACKING)
