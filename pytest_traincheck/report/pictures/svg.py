"""Elements of SVG as escaped markup. Colours are classes of the page's style sheet, so that both schemes and print
follow.
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

CHARACTER = 6.4
"""Width of a character of the small text in pixels, on average; no browser is there to measure it."""
TEXT_LIMIT = 400
"""Characters of a text in a picture."""


def element(name: str, *content: Markup | str, **attributes: object) -> Markup:
    """One element; `class_` is `class`, and other underscores are dashes. Content and values are escaped."""
    parts = [
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _value(value))
        for key, value in attributes.items()
        if value is not None
    ]
    head = Markup("<{}{}").format(name, Markup().join(parts))
    if not content:
        return head + Markup("/>")
    return head + Markup(">") + Markup().join(map(escape, content)) + Markup("</{}>").format(name)


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """Coordinates to a tenth of a pixel, so that the same picture has the same bytes."""
    return f"{value:.1f}".removesuffix(".0")


def group(items: Iterable[Markup], **attributes: object) -> Markup:
    """Several elements as one."""
    return element("g", Markup().join(items), **attributes)


def text(content: str, x: float, y: float, class_: str = "", anchor: str = "start") -> Markup:
    """A line of text whose baseline is at `y`."""
    return element(
        "text", content[:TEXT_LIMIT], x=x, y=y, class_=class_ or None, text_anchor=None if anchor == "start" else anchor
    )


def rect(x: float, y: float, width: float, height: float, class_: str, title: str = "", radius: float = 2.0) -> Markup:
    """A box, with what a pointer that rests on it is told."""
    inner = (element("title", title[:TEXT_LIMIT]),) if title else ()
    return element("rect", *inner, x=x, y=y, width=max(width, 0.5), height=height, rx=radius, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(data: str, class_: str) -> Markup:
    """A path of given commands."""
    return element("path", d=data, class_=class_)


_LEGIBLE = 0.8
"""How far a drawing may shrink before its text is too small; then it is scrolled."""


def drawing(width: float, height: float, title: str, description: str, *content: Markup) -> Markup:
    """A whole drawing with its name and description for those who do not see it. It is `width` pixels wide, and less
    where the page is narrow, as far as its text can be read.
    """
    style = f"max-width:{width:.0f}px;min-width:{min(width, max(280.0, width * _LEGIBLE)):.0f}px"
    return element(
        "svg",
        element("title", title[:TEXT_LIMIT]),
        element("desc", description),
        *content,
        viewBox=f"0 0 {number(float(width))} {number(float(height))}",
        role="img",
        style=style,
    )


def icon(width: float, height: float, *content: Markup, class_: str = "icon") -> Markup:
    """A small drawing beside words that say the same, which nobody needs to be told twice."""
    return element(
        "svg",
        *content,
        viewBox=f"0 0 {number(float(width))} {number(float(height))}",
        width=float(width),
        height=float(height),
        aria_hidden="true",
        class_=class_,
    )


def fitted(content: str, width: float) -> str:
    """What of a text fits into a width, its end rather than its beginning: names differ at the end."""
    room = int(width / CHARACTER)
    if len(content) <= room:
        return content
    return "…" + content[len(content) - room + 1 :] if room > 3 else ""


def patterns() -> Markup:
    """Hatching and dots, which tell areas apart without their colours: once for a page."""
    return element(
        "svg",
        element(
            "defs",
            _pattern(
                "hatch", "p-hatch-ground", element("path", d="M-2 2L2 -2M0 8L8 0M6 10L10 6", class_="p-hatch-line")
            ),
            _pattern(
                "dots",
                "p-dots-ground",
                element("circle", cx=2, cy=2, r=1.3, class_="p-dots-dot"),
                element("circle", cx=6, cy=6, r=1.3, class_="p-dots-dot"),
            ),
        ),
        width=0,
        height=0,
        aria_hidden="true",
        class_="patterns",
    )


def _pattern(name: str, ground: str, *content: Markup) -> Markup:
    back = element("rect", width=8, height=8, class_=ground)
    return element("pattern", back, *content, id=name, width=8, height=8, patternUnits="userSpaceOnUse")
