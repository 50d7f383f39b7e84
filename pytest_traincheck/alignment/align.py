"""The candidate's run as the golden would have it: models, their parts and optimizers under the golden's names."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_traincheck.alignment.arguments import describe_arguments, find_renamed_arguments
from pytest_traincheck.alignment.attributes import find_renamed
from pytest_traincheck.alignment.classes import find_renamed_optimizers, find_renamed_schedulers, with_classes
from pytest_traincheck.alignment.contents import find_by_content, placed_parameters
from pytest_traincheck.alignment.description import (
    align_models,
    align_optimizers,
    describe_optimizers,
    held_models,
    held_parameters,
    models_as_made,
)
from pytest_traincheck.alignment.parts import find_parts
from pytest_traincheck.alignment.placement import Models, Move, Placement, Relocation
from pytest_traincheck.alignment.process import placed
from pytest_traincheck.alignment.succession import (
    Known,
    with_models_of_all_ranks,
    with_models_succeeding,
    with_optimizers_succeeding,
)
from pytest_traincheck.alignment.wrapping import find_wrapped
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.trace import Run


@dataclass(frozen=True)
class Aligned:
    """A run under the golden's names, and what has another one in it: (candidate name, golden name)."""

    run: Run
    renamed: tuple[tuple[str, str], ...] = ()


def align(golden: Golden, run: Run) -> Aligned:
    """Follows what a refactor may do to the names of models: rename classes and attributes, put models into another
    one, or take them out of it. So too the user's own classes of optimizers and schedulers.
    """
    run = with_models_of_all_ranks(run)
    placement = place(golden, run)
    if placement.moves:
        renamed = placed(run, placement, golden.models)
    else:
        renamed = run.renamed(placement.steps[0].roots if placement.steps else {}, {})
    lead = next((label for label, facts in golden.optimizers.items() if facts.get("lead")), "")
    known = [Known(golden.models, golden.optimizers)] * len(run.processes)
    renamed = with_models_succeeding(renamed, known)
    # What an optimizer is called follows from the models that it holds and from its class.
    classes = find_renamed_optimizers(golden.optimizers, describe_optimizers(renamed))
    renamed = with_classes(renamed, classes)
    renamed = with_optimizers_succeeding(renamed, known)
    optimizers = align_optimizers(golden.optimizers, describe_optimizers(renamed))
    arguments = find_renamed_arguments(golden.arguments, describe_arguments(renamed))
    renamed = renamed.renamed({}, optimizers, lead, arguments)
    schedulers = find_renamed_schedulers(golden.optimizers, describe_optimizers(renamed))
    renamed = with_classes(renamed, schedulers)
    return Aligned(
        renamed.beside(golden.models),
        (*placement.renamed(models_as_made(run), golden.models), *classes.items(), *schedulers.items()),
    )


def place(golden: Golden, run: Run) -> Placement:
    """Where the models of a run lie in the golden's, in three steps: what was moved while it ran, whole models and
    parts of models, attributes.
    """
    made = models_as_made(run)
    held = held_parameters(run)
    trained = held_models(golden.optimizers)
    placement = Placement()
    if wrapped := find_wrapped(golden.models, made, run):
        placement = placement.then(Relocation(wrapped))
        candidate_trained = frozenset(root for root, _ in _placed(held, placement))
    else:
        candidate_trained = held_models(describe_optimizers(run))
    candidate = placement.models(made)
    step = _models_and_parts(golden.models, candidate, (trained, candidate_trained), _placed(held, placement))
    by_name = placement.then(_freed(golden.models, candidate, step, placement, made))
    by_name = by_name.then(Relocation(find_renamed(golden.models, by_name.models(made))))
    if placement.steps or placed_parameters(golden.models, by_name.models(made)) == sum(map(len, made.values())):
        return by_name
    by_content = Placement().then(find_by_content(golden, run, made, held, trained))
    return max(by_name, by_content, key=lambda each: placed_parameters(golden.models, each.models(made)))


def _placed(names: frozenset[tuple[str, str]], placement: Placement) -> frozenset[tuple[str, str]]:
    return frozenset(placement.place(root, name) for root, name in names)


def _models_and_parts(
    golden: Models,
    candidate: Models,
    trained: tuple[frozenset[str], frozenset[str]],
    held: frozenset[tuple[str, str]],
) -> Relocation:
    roots = align_models(golden, candidate, trained)
    moves = find_parts(golden, candidate, roots, trained[0], held)
    if not moves:
        return Relocation((), roots)
    # What the parts leave over is compared once more, without them.
    left = Relocation(moves)
    stays = {
        root: {name: shape for name, shape in parameters.items() if left.place(root, name) == (root, name)}
        for root, parameters in candidate.items()
    }
    open_golden = _without(golden, moves)
    kept = {root: parameters for root, parameters in stays.items() if parameters}
    roots = align_models(open_golden, kept, trained)
    return Relocation(moves, roots)


def _freed(golden: Models, candidate: Models, step: Relocation, before: Placement, made: Models) -> Relocation:
    """The same step, in which what is left of a root that parts were moved from keeps no name that golden has for
    something else.
    """
    if not (step.moves or before.moves):
        return step
    roots = dict(step.roots)
    taken = {move.golden_root for move in step.moves if not move.golden_path}
    for root in made:
        name, path = before.place(root, "")
        if (name, path) != (root, "") or any(move.root == root and not move.path for move in step.moves):
            continue  # The whole of it is a part of something.
        empty = all(
            step.place(root, parameter) != (roots.get(root, root), parameter) for parameter in candidate.get(root, ())
        )
        known = roots.get(root, root)
        if known in taken or (empty and known in golden):
            roots[root] = f"{root} (new)"
    return Relocation(step.moves, roots)


def _without(golden: Models, moves: tuple[Move, ...]) -> Models:
    """The golden's models without those that parts of the candidate stand for, and without what others stand for."""
    back = Relocation(tuple(Move(move.golden_root, move.golden_path, "", "") for move in moves))
    left = {
        root: {name: shape for name, shape in parameters.items() if back.place(root, name)[0]}
        for root, parameters in golden.items()
    }
    return {root: parameters for root, parameters in left.items() if parameters}
