"""A headless Chromium at the other end of two pipes: what a page looks like, asks for, complains of, and says aloud.

It speaks the DevTools protocol over `--remote-debugging-pipe` (messages are JSON, each ended by a zero byte), so that
nothing but the standard library and a browser of the system is needed.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT = 60.0
"""Seconds that an answer may take."""
_OPTIONS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--force-color-profile=srgb"),
    *("--font-render-hinting=none", "--host-resolver-rules=MAP * ~NOTFOUND"),
)


def executable() -> str | None:
    """The browser of this system; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Visit:
    """A page that was opened: a picture of it, and what it did meanwhile.

    `nodes` is the accessibility tree, `overflow` how many pixels the page is wider than the window.
    """

    picture: bytes
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    nodes: list[Mapping[str, Any]] = field(default_factory=list)
    overflow: int = 0
    height: int = 0

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of everything that is not ignored, in order."""
        return [
            (str(node["role"]["value"]), str(node.get("name", {}).get("value", "")))
            for node in self.nodes
            if not node.get("ignored") and "role" in node
        ]


class Browser:
    """A running browser; see `browser`."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._number = 0
        self._buffer = b""
        self.events: list[Mapping[str, Any]] = []

    def visit(
        self, path: Path, *, width: int = 1200, dark: bool = False, most: int = 20_000, clip: str = "", top: int = 0
    ) -> Visit:
        """Open a file in a new page and look at it, as far down as `most` pixels, from its top, or from `top`
        pixels above what the selector `clip` finds.
        """
        target = self("Target.createTarget", url="about:blank")["targetId"]
        session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self(f"{domain}.enable", session)
        self("Emulation.setDeviceMetricsOverride", session, width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", session, features=[scheme])
        self.events.clear()
        self("Page.navigate", session, url=path.resolve().as_uri())
        self._wait("Page.loadEventFired", session)
        height = int(self._evaluate("document.documentElement.scrollHeight", session))
        overflow = int(self._evaluate("document.documentElement.scrollWidth - innerWidth", session))
        area = {"x": 0.0, "y": 0.0, "width": float(width), "height": float(min(height, most))}
        if clip:
            place = self._evaluate(f"document.querySelector({clip!r}).getBoundingClientRect().top + scrollY", session)
            begin = max(0.0, place - top)
            area |= {"y": begin, "height": min(height - begin, float(most))}
        shot = self(
            "Page.captureScreenshot",
            session,
            format="png",
            optimizeForSpeed=True,
            captureBeyondViewport=True,
            clip={**area, "scale": 1},
        )
        nodes = self("Accessibility.getFullAXTree", session)["nodes"]
        found = Visit(base64.b64decode(shot["data"]), nodes=nodes, overflow=overflow, height=height)
        for event in self.events:
            _note(found, event)
        self("Target.closeTarget", targetId=target)
        return found

    def _evaluate(self, expression: str, session: str) -> Any:
        return self("Runtime.evaluate", session, expression=expression, returnByValue=True)["result"]["value"]

    def __call__(self, method: str, session: str = "", /, **parameters: Any) -> Any:
        """Call a method of the protocol. Raises `RuntimeError` where the browser refuses."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def _wait(self, name: str, session: str) -> None:
        while not any(event.get("method") == name and event.get("sessionId") == session for event in self.events):
            self.events.append(self._next())

    def _next(self) -> Mapping[str, Any]:
        ends = time.monotonic() + TIMEOUT
        while b"\0" not in self._buffer:
            if not select.select([self._reading], [], [], max(0.0, ends - time.monotonic()))[0]:
                raise RuntimeError(f"the browser gave no answer in {TIMEOUT:.0f} seconds")
            data = os.read(self._reading, 1 << 20)
            if not data:
                raise RuntimeError("the browser ended before it answered")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: Mapping[str, Any] = json.loads(message)
        return found


def _note(found: Visit, event: Mapping[str, Any]) -> None:
    parameters = event.get("params", {})
    match event.get("method"):
        case "Network.requestWillBeSent":
            found.requests.append(parameters["request"]["url"])
        case "Runtime.consoleAPICalled":
            found.complaints.append(f"console.{parameters['type']}")
        case "Runtime.exceptionThrown":
            found.complaints.append(parameters["exceptionDetails"]["text"])
        case "Log.entryAdded":
            found.complaints.append(parameters["entry"]["text"])


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser for the time of a block. Raises `RuntimeError` where there is none."""
    program = executable()
    if program is None:
        raise RuntimeError(f"there is no browser: none of {', '.join(NAMES)} is on the PATH")
    to_browser, from_us = os.pipe()
    to_us, from_browser = os.pipe()
    # The protocol wants descriptors 3 and 4; ours are moved out of their way first.
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]

    def place() -> None:
        os.dup2(theirs[0], 3)
        os.dup2(theirs[1], 4)

    with tempfile.TemporaryDirectory(prefix="traincheck-browser-", ignore_cleanup_errors=True) as home:
        process = subprocess.Popen(
            [program, *_OPTIONS, f"--user-data-dir={home}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=place,
            pass_fds=(3, 4),
        )
        for end in (to_browser, from_browser, *theirs):
            os.close(end)
        try:
            yield Browser(to_us, from_us)
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(from_us)
            os.close(to_us)
