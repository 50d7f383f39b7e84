"""A link to our page in that of pytest-html."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_traincheck.pytest_plugin.items import TraincheckItem


# pluggy keeps plugins in sets, so they are compared by identity.
@dataclass(frozen=True, eq=False)
class LinkToPage:
    """The hook that puts the link beside each item of ours; `page` is what `--traincheck-html` writes."""

    config: pytest.Config
    page: Path

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if isinstance(item, TraincheckItem) and call.when == "call":
            from pytest_html import extras

            link = extras.url(self._relative(), name="traincheck")
            # What pytest-html reads.
            report.extras = [*getattr(report, "extras", []), link]  # type: ignore[attr-defined]
        return report

    def _relative(self) -> str:
        """The page as it is reached from that of pytest-html: both are moved together."""
        theirs = self.config.invocation_params.dir / str(self.config.getoption("htmlpath"))
        return Path(os.path.relpath(self.page, theirs.parent)).as_posix()
