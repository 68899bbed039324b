# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A page as a tree: what a reader sees of it, and what a browser would fetch for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "input", "rect", "path", "line", "circle", "col"}
INLINE = {"a", "abbr", "b", "code", "span", "strong"}


@dataclass
class Element:
    """One element with its children, texts among them."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text within, with single spaces."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> list[str]:
        found: list[str] = []
        for child in self.children:
            found += [child] if isinstance(child, str) else child._texts()
        return found if self.tag in INLINE else [" ", *found, " "]

    def all(self, tag: str = "", *, cls: str = "") -> list[Element]:
        """Every element within of that tag and class."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                fits = (not tag or child.tag == tag) and (not cls or cls in child.attributes.get("class", "").split())
                found += [child] if fits else []
                found += child.all(tag, cls=cls)
        return found

    def one(self, tag: str = "", *, cls: str = "", id_: str = "") -> Element:
        """The only such element."""
        found = [e for e in self.all(tag, cls=cls) if not id_ or e.attributes.get("id") == id_]
        assert len(found) == 1, (tag, cls, id_, len(found))
        return found[0]

    def section(self, name: str) -> Element:
        """The section that this heading labels."""
        return next(e for e in self.all("section") if e.attributes.get("aria-labelledby") == name)


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(page: str) -> Element:
    """The page as a tree; elements must be closed in their order."""
    tree = _Tree()
    tree.feed(page)
    tree.close()
    assert tree.open == [tree.root], [element.tag for element in tree.open]
    return tree.root
