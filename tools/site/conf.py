# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How Sphinx makes the site of tools/docs_site."""

from __future__ import annotations

from importlib import import_module
from typing import Any

project = "gpufleet.bringup"
copyright = "gpufleet.bringup contributors"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
html_title = "gpufleet.bringup"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4
highlight_language = "text"


def setup(app: Any) -> None:
    """Show mermaid, which GitHub draws, as text."""
    app.add_lexer("mermaid", import_module("pygments.lexers").TextLexer)
