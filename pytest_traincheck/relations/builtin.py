"""The relations that come with the package."""

from __future__ import annotations

from pytest_traincheck.relations.accumulate import Accumulate
from pytest_traincheck.relations.api_arg import APIArg
from pytest_traincheck.relations.api_output import APIOutput
from pytest_traincheck.relations.api_sequence import APISequence
from pytest_traincheck.relations.band import Band
from pytest_traincheck.relations.base import Relation
from pytest_traincheck.relations.bounded import Bounded
from pytest_traincheck.relations.carried import Carried
from pytest_traincheck.relations.collective_order import CollectiveOrder
from pytest_traincheck.relations.consistent import Consistent
from pytest_traincheck.relations.count import Count
from pytest_traincheck.relations.covered import Covered
from pytest_traincheck.relations.data_flow import DataFlow
from pytest_traincheck.relations.distinct import Distinct
from pytest_traincheck.relations.event_contain import EventContain
from pytest_traincheck.relations.hyperparameter import Hyperparameter
from pytest_traincheck.relations.initialised import Initialised
from pytest_traincheck.relations.loss_scale import LossScale
from pytest_traincheck.relations.loss_terms import LossTerms
from pytest_traincheck.relations.moves import Moves
from pytest_traincheck.relations.renewed import Renewed
from pytest_traincheck.relations.replay import Replay
from pytest_traincheck.relations.restored import Restored
from pytest_traincheck.relations.schedule import Schedule
from pytest_traincheck.relations.shuffled import Shuffled
from pytest_traincheck.relations.total import Total


def relations() -> list[Relation]:
    """One of each, in the order of reports."""
    return [
        Count(),
        Total(),
        APISequence(),
        APIArg(),
        Covered(),
        Hyperparameter(),
        Accumulate(),
        EventContain(),
        APIOutput(),
        Moves(),
        Schedule(),
        Consistent(),
        Band(),
        Distinct(),
        Renewed(),
        Shuffled(),
        CollectiveOrder(),
        DataFlow(),
        LossScale(),
        LossTerms(),
        Initialised(),
        Restored(),
        Carried(),
        Bounded(),
        Replay(),
    ]
