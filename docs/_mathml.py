r"""Turn the TeX that `pymdownx.arithmatex` marks into MathML: ``\(...\)`` and ``\[...\]`` need no script to be read."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """The mkdocs hook: called with every page's HTML."""
    content = _INLINE.sub(lambda found: convert(html.unescape(found[1]).strip()), content)
    return _BLOCK.sub(
        lambda found: f'<div class="arithmatex-block">{convert(html.unescape(found[1]).strip(), display="block")}</div>', content
    )
