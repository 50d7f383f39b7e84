"""Laws: relations that say what any right training does, for packs. No golden is learned from them.

One file each, and a relation like any other: it proposes hypotheses from one run, finds the places of a run where they
can hold or fail, and says in English what a broken one means. What is more is `reason`: why it is a law. Its findings
speak of the run alone, since there is no golden run to compare it with.
"""

from pytest_traincheck.relations.laws.reason import Lawful, Reason

__all__ = ["Lawful", "Reason"]
