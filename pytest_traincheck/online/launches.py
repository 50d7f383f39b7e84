"""Which processes train together, and which launch goes on with what an earlier one has left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_traincheck.online.ending import Ending, Resume, Saved
from pytest_traincheck.online.launch_group import LaunchGroup
from pytest_traincheck.online.rank import Rank
from pytest_traincheck.online.resumed import likest
from pytest_traincheck.online.seen import Seen
from pytest_traincheck.trace.begun_with import ENOUGH, goes_on, loaded_until, restores_optimizer


@dataclass
class Launches:
    """The launches of one run directory, in the order in which they began."""

    path: Path
    new_group: Callable[[Sequence[Rank], Ending | None], LaunchGroup]
    told: Ending | None = None
    """What the first launch goes on with, as somebody says."""
    earlier: Callable[[], Iterable[Ending]] = tuple
    """What trainings of other directories have left that the first launch may go on with."""
    same_spec: bool = True
    from_nothing: bool = False
    """Whether golden's runs begin without anything that an optimizer could have from earlier steps."""
    groups: list[LaunchGroup] = field(default_factory=list)
    resumes: list[Resume] = field(default_factory=list)

    def take(self, seen: Collection[Seen], *, ended: bool) -> None:
        """Put training processes that are new into the launch that they belong to; `ended`: nothing more is to come."""
        waiting = sorted(
            (each for each in seen if each.trains and each.rank is None), key=lambda item: (item.number, item.started)
        )
        while waiting:
            first = self._first(waiting)
            # Of what a training has left everything must be known.
            behind = any(each.more for each in seen if each.rank is not None)
            if not first and (behind or not self._ready(waiting, ended=ended)):
                return
            if first:
                for each in first:
                    self._join(each)
                    waiting.remove(each)
                continue
            launch = list({each.number: each for each in reversed(waiting)}.values())
            self._launch(sorted(launch, key=lambda each: each.number))
            waiting = [each for each in waiting if each.rank is None]

    def waits(self, seen: Iterable[Seen]) -> bool:
        """Whether a training process is in no launch yet."""
        return any(each.trains and each.rank is None for each in seen)

    def _first(self, waiting: Sequence[Seen]) -> list[Seen]:
        """Those that are in a launch by their rank alone: there is nothing that they could go on with."""
        if not self.groups:
            return [] if self._may_resume() or self.from_nothing else list(waiting[:1])
        open_to = [each for each in waiting if self._place(each) is not None]
        return open_to[:1]

    def _may_resume(self) -> bool:
        return self.told is not None or any(True for _ in self.earlier())

    def _place(self, seen: Seen) -> LaunchGroup | None:
        """The launch that lacks this rank and is not complete."""
        lacking = (group for group in self.groups if all(rank.number != seen.number for rank in group.ranks))
        return next((group for group in lacking if not group.complete), None)

    def _join(self, seen: Seen) -> None:
        group = self._place(seen)
        if group is not None and group.resume is not None:
            resume = group.resume
            group.join(self._going_on(seen, resume.ending, resume.steps))
        elif group is not None and group.midway:
            group.join(self._midway(seen))
        elif group is not None:
            group.join(seen.begin())
        else:
            self.groups.append(self.new_group([seen.begin()], None))

    def _ready(self, waiting: Sequence[Seen], *, ended: bool) -> bool:
        """Whether every rank of a new launch has begun its first step, by which it is known what it goes on with."""
        world = max(each.world_size for each in waiting)
        begun = {each.number for each in waiting if each.source.done or ended or each.begun}
        return ended or len(begun) >= world

    def _launch(self, ranks: Sequence[Seen]) -> None:
        resume = self._resume(ranks)
        if resume is None and not self.groups and self.from_nothing and self._goes_on(ranks):
            group = self.new_group([self._midway(each) for each in ranks], None)
            group.begin_midway()
            self.groups.append(group)
            return
        if resume is None:
            self.groups.append(self.new_group([each.begin() for each in ranks], None))
            return
        group = self.new_group([self._going_on(each, resume.ending, resume.steps) for each in ranks], resume.ending)
        group.go_on(resume)
        self.groups.append(group)
        self.resumes.append(resume)

    def _goes_on(self, ranks: Sequence[Seen]) -> bool:
        """Whether they go on with a training of which nobody knows anything."""
        return all(goes_on(each.source.tables, each.rows()) for each in ranks)

    def _midway(self, seen: Seen) -> Rank:
        loaded = loaded_until(seen.source.tables, seen.rows())
        return seen.begin(lambda source: Rank(source, loaded_until=loaded))

    def _going_on(self, seen: Seen, ending: Ending, steps: int) -> Rank:
        left = ending.of(seen.number)
        saved = min(left.saved, key=lambda each: abs(each.steps - steps))
        return seen.begin(lambda source: Rank.going_on(left, saved, source))

    def _may_be_meant(self, seen: Seen) -> bool:
        """Whether a process may go on with a training of another directory. Weights alone may as well be what a
        training of another command begins with.
        """
        return self.same_spec or restores_optimizer(seen.source.tables, seen.rows())

    def _resume(self, ranks: Sequence[Seen]) -> Resume | None:
        """What these go on with: of all that was left what is most alike, and what somebody says in any case."""
        known = [
            ending for group in reversed(self.groups) if (ending := group.ending(self.path, same_spec=self.same_spec))
        ]
        elsewhere: list[Ending] = []
        if not self.groups and self.told is None:
            elsewhere = list(self.earlier())
        if not self.groups:
            known += [self.told] if self.told is not None else elsewhere
        first = ranks[0]
        best: tuple[float, Ending, Saved] | None = None
        for ending in known:
            if any(ending is each for each in elsewhere) and not self._may_be_meant(first):
                continue
            saved, alike = likest(ending.of(first.number), first.source.tables, first.rows())
            if saved is not None and saved.steps and (best is None or alike > best[0]):
                best = alike, ending, saved
        if best is not None and (best[0] >= ENOUGH or best[1] is self.told):
            return Resume(best[1], best[2].steps, best[0])
        if self.told is not None and not self.groups and self.told.steps:
            return Resume(self.told, self.told.steps, 0.0)
        return None
