"""What a notebook shows: small tables and bars in HTML, every text escaped.

IPython is no dependency. A kernel has loaded it, and everywhere else this module leaves it alone.
"""

import html
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_TEAL, _GREY = "#00897b", "rgba(128, 128, 128, 0.3)"
"""Colours that a light page and a dark page show."""
_LEFT = "text-align:left;vertical-align:top"


def displayer() -> Callable[..., Any] | None:
    """Return IPython's `display` if this process is the kernel of a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # noqa: PLC0415 (only a kernel has it)

    found: Callable[..., Any] = display
    return found


def bar(label: str, share: float, words: Sequence[str]) -> dict[str, str]:
    """Return a progress bar, as HTML and as text for a notebook without HTML.

    Args:
        label: what is going on.
        share: how much of it is done, 0 to 1.
        words: short texts after the label, such as the time left; empty texts are left out.
    """
    words = [text for text in words if text]
    percent = f"{100 * min(max(share, 0.0), 1.0):.0f}%"
    fill = f"<span style='display:block;width:{percent};height:100%;background:{_TEAL}'></span>"
    track = "flex:0 1 14em;min-width:6em;height:0.6em;border-radius:0.3em;overflow:hidden"
    tail = "".join(f"<span>{_text(text)}</span>" for text in words)
    row = "display:flex;flex-wrap:wrap;align-items:center;gap:0.2em 1em;padding:0.1em 0.4em;font-variant-numeric:tabular-nums"
    body = f"<span style='{track};background:{_GREY}'>{fill}</span><span>{_text(label)}</span>{tail}"
    return {"text/html": f"<div style='{row}'>{body}</div>", "text/plain": f"{label}: {', '.join(words)}"}


def card(title: str, rows: Iterable[tuple[str, object]], note: str = "") -> str:
    """Return a bold title over a table of two columns, with a note below. Long words, such as keys, are broken."""
    body = "".join(
        f"<tr><th style='{_LEFT};white-space:nowrap'>{_text(name)}</th>{_cell(value)}</tr>" for name, value in rows
    )
    return f"<div><strong>{_text(title)}</strong><table>{body}</table>{_paragraph(note)}</div>"


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """Return a bold title over a table with a head, with a note below."""
    top = "".join(f"<th style='{_LEFT}'>{_text(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<div><strong>{_text(title)}</strong><table><tr>{top}</tr>{body}</table>{_paragraph(note)}</div>"


def _cell(value: object) -> str:
    return f"<td style='{_LEFT};overflow-wrap:anywhere'>{_text(value)}</td>"


def _paragraph(note: str) -> str:
    return f"<p>{_text(note)}</p>" if note else ""


def _text(value: object) -> str:
    return html.escape(str(value))
