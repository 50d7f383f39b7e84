"""A first pipeline: found, proposed, tried, configured, learned, and one mistake in it caught."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_traincheck.atomic import replace_file
from pytest_traincheck.config import Config
from pytest_traincheck.golden.locks import cannot_write
from pytest_traincheck.input_error import InputError
from pytest_traincheck.jobs import Jobs
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.scripts import proposal as proposals
from pytest_traincheck.scripts.model import Script
from pytest_traincheck.scripts.proposal import Proposal
from pytest_traincheck.scripts.search import Tree, describe, find
from pytest_traincheck.selftest.result import SelftestResult
from pytest_traincheck.workflow import starting
from pytest_traincheck.workflow.engine import default_engine
from pytest_traincheck.workflow.init_config import spec_of, table_of, with_pipeline
from pytest_traincheck.workflow.init_words import (
    Said,
    asked,
    found_text,
    golden_said,
    hints,
    mistake_said,
    overwritten,
    tried_said,
)
from pytest_traincheck.workflow.refresh import Refresh, refresh
from pytest_traincheck.workflow.refresh_intent import Acceptance
from pytest_traincheck.workflow.selftest import SelftestRequest, selftest
from pytest_traincheck.workflow.starting import Place
from pytest_traincheck.workflow.trial import Trial, attempt
from pytest_traincheck.workflow.trial_tree import Where


class InitError(InputError, ValueError):
    """Nothing can be proposed: why, and what to do now."""


@dataclass(frozen=True)
class InitRequest:
    """What is asked for. Without `script` and `words` the likeliest program is taken.

    `words` are arguments of the script, and a command where there is none.
    """

    script: str = ""
    words: tuple[str, ...] = ()
    name: str = ""
    seed_arg: str | None = None
    steps: int | None = None
    link: tuple[str, ...] = ()
    dry_run: bool = False
    golden: bool = True
    jobs: Jobs = 1

    @property
    def command(self) -> str:
        """The command that is taken as it is; empty where there is none."""
        return "" if self.script else " ".join(map(proposals.typed_word, self.words))


@dataclass(frozen=True)
class Command:
    """What to type next, and when."""

    words: str
    when: str


@dataclass(frozen=True)
class Initialised:
    """What became of it. `trial` is None for a dry run, and `written` is empty where nothing was written."""

    proposal: Proposal
    found: tuple[Script, ...]
    table: str
    said: tuple[Said, ...] = ()
    trial: Trial | None = None
    written: tuple[Path, ...] = ()
    learned: Refresh | None = None
    mistake: SelftestResult | None = None
    commands: tuple[Command, ...] = ()
    spoiled: bool = False
    """Whether it was given up, since learning would have written over files of the user's."""

    @property
    def failed(self) -> bool:
        """Whether a run failed, so that there is no golden."""
        tried = self.trial is not None and self.trial.error is not None
        return tried or self.spoiled or (self.learned is not None and not self.learned.decision.may_write)


@dataclass
class _Story:
    """What has been said so far, said as it happens."""

    tell: Callable[[Said], None]
    said: list[Said] = field(default_factory=list)

    def add(self, *new: Said) -> None:
        for one in new:
            self.said.append(one)
            self.tell(one)


def initialise(start: Path, request: InitRequest, tell: Callable[[Said], None], progress: Progress) -> Initialised:
    """Make a first pipeline, or a further one, for a program in the directory `start`.

    Nothing is written before the pipeline was tried and, unless `golden` is false, learned. Raises `InitError` where
    there is nothing to propose, `ConfigError` for a configuration that cannot be used or added to, and `GoldenError`
    for a store that cannot be written.
    """
    story = _Story(tell)
    place = starting.look_around(start)
    found = find(place.root, place.files)
    proposal = _proposal(place, found, request)
    python = starting.interpreter(place)
    proposal = replace(proposal, link=tuple(dict.fromkeys((*request.link, *starting.links(place, proposal)))))
    story.add(found_text(proposal, found, len([path for path in place.files if path.endswith(".py")])))
    if proposal.asked:
        raise InitError(asked(proposal))
    spec = spec_of(proposal)
    if request.dry_run:
        with_pipeline(place, spec, python)
        story.add(Said.fine("proposed", table_of(spec, place.source)), *hints(place, proposal, None))
        return Initialised(proposal, tuple(found), table_of(spec, place.source), tuple(story.said))
    committed = place.is_committed(proposal.script.sources if proposal.script is not None else ())
    progress.expect(1)
    tried = attempt(place, proposal, python, Where.WORKTREE if committed else Where.COPY, progress)
    proposal, trial = tried.proposal, tried.trial
    spec = spec_of(proposal, trial)
    done = Initialised(proposal, tuple(found), table_of(spec, place.source), trial=trial)
    story.add(*tried_said(tried), *hints(place, proposal, trial))
    if trial.error is not None:
        return replace(done, said=tuple(story.said))
    text, config = with_pipeline(place, spec, python)
    ref = "HEAD" if tried.where is Where.WORKTREE else None
    if (
        ref is None
        and request.golden
        and (over := [path for path in trial.created if os.path.lexists(place.root / path)])
    ):
        story.add(overwritten(over))
        return replace(done, said=tuple(story.said), spoiled=True)
    return _kept(place, config, text, done, request, story, ref, progress)


def _kept(
    place: Place,
    config: Config,
    text: str,
    done: Initialised,
    request: InitRequest,
    story: _Story,
    ref: str | None,
    progress: Progress,
) -> Initialised:
    """The golden learned and the configuration written, in that order: who finds one of the two finds both."""
    spec = config.pipelines[done.proposal.name]
    written: tuple[Path, ...] = (place.source,)
    if request.golden:
        engine = default_engine(request.jobs)
        learned = refresh(config, [spec], ref, acceptance=Acceptance((), False), progress=progress, engine=engine)
        done = replace(done, learned=learned)
        if not learned.decision.may_write:
            story.add(golden_said(learned.pipelines[0]))
            return replace(done, said=tuple(story.said))
        written = (place.source, *learned.pipelines[0].files)
    try:
        replace_file(place.source, text.encode("utf-8"))
    except OSError as error:
        for path in written[1:]:
            with suppress(OSError):
                path.unlink()
        raise cannot_write(place.source.parent, error) from error
    story.add(Said.fine("wrote", f"{place.source}:\n{done.table}"))
    if done.learned is not None:
        story.add(golden_said(done.learned.pipelines[0]))
        asked_for = SelftestRequest(most=1, jobs=1, ref=ref)
        mistake = selftest(config, spec, asked_for, progress)
        story.add(mistake_said(mistake))
        done = replace(done, mistake=mistake)
    commands = _commands(place, spec.name, config, learned=request.golden)
    return replace(done, said=tuple(story.said), written=written, commands=commands)


def _commands(place: Place, name: str, config: Config, *, learned: bool) -> tuple[Command, ...]:
    store = config.store.relative_to(config.root).as_posix()
    keep = f'git add {place.source.name} {store} && git commit -m "Learn the golden of {name}"'
    return (
        *([] if learned else [Command(f"traincheck refresh {name}", "learn its golden")]),
        Command(keep, "keep both in git, where the golden is reviewed"),
        Command(f"pytest --traincheck {store}", "in CI, before each merge; without the path your own tests run, too"),
        Command(f'traincheck refresh {name} --accept ID --reason "..."', "when an incident is meant"),
    )


def _proposal(place: Place, found: Sequence[Script], request: InitRequest) -> Proposal:
    """The pipeline for what was asked for. Raises `InitError`."""
    script = None
    if request.command:
        script = proposals.script_in(request.command, {item.path: item for item in found})
    elif request.script:
        script = _named(place, request.script)
    else:
        script = _likeliest(place, found)
    if script is not None and not request.command and (owner := starting.covered(place, script)):
        raise InitError(
            f"{place.source}: the pipeline `{owner}` runs {script.path} already. Learn its golden with "
            f"`traincheck refresh {owner}`, or name another script: traincheck init SCRIPT"
        )
    taken = place.taken
    if request.name and request.name in taken:
        raise InitError(
            f"{place.source}: there is a pipeline or a golden called `{request.name}`. Give another --name."
        )
    name = request.name or proposals.name_for(script, request.command, taken)
    if request.command:
        proposal = proposals.given(request.command, script, name)
    else:
        assert script is not None
        proposal = proposals.propose(script, name, request.words)
    seed = request.seed_arg if request.seed_arg is not None else proposal.seed_arg
    return replace(proposal, seed_arg=seed, steps=request.steps)


def _named(place: Place, text: str) -> Script:
    path = Path(text)
    absolute = path if path.is_absolute() else Path.cwd() / path
    try:
        relative = absolute.resolve().relative_to(place.root.resolve()).as_posix()
    except ValueError:
        relative = ""
    if not relative or not absolute.is_file():
        raise InitError(f"{text} is no file below {place.root}. Give the path of a script, or a command behind `--`.")
    python = frozenset(item for item in (*place.files, relative) if item.endswith(".py"))
    script = describe(Tree(place.root, python), relative)
    if script is None:
        raise InitError(
            f"{text}: no training was found in it or in what it imports. Give the command that trains: "
            f"traincheck init -- python {text}"
        )
    return script


def _likeliest(place: Place, found: Sequence[Script]) -> Script:
    if not found:
        count = sum(path.endswith(".py") for path in place.files)
        raise InitError(
            f"no program that trains was found in {place.root}, of whose Python files {count} were read. "
            "Give the command that trains: traincheck init -- python train.py"
        )
    free = [script for script in found if not starting.covered(place, script)]
    if not free:
        raise InitError(
            f"{place.source}: every program that was found to train has a pipeline already. "
            "`traincheck list` shows them; give a command for a further one: traincheck init -- python train.py"
        )
    return free[0]
