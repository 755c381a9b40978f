"""What a notebook shows of an object: small tables in HTML, every text escaped."""

import html
from collections.abc import Iterable, Sequence


def card(title: str, rows: Iterable[tuple[str, object]], note: str = "") -> str:
    """Return a bold title over a table of two columns, with a note below."""
    body = "".join(f"<tr><th style='text-align:left'>{_text(name)}</th>{_cell(value)}</tr>" for name, value in rows)
    return f"<div><strong>{_text(title)}</strong><table>{body}</table>{_paragraph(note)}</div>"


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """Return a bold title over a table with a head, with a note below."""
    top = "".join(f"<th style='text-align:left'>{_text(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<div><strong>{_text(title)}</strong><table><tr>{top}</tr>{body}</table>{_paragraph(note)}</div>"


def _cell(value: object) -> str:
    return f"<td style='text-align:left'>{_text(value)}</td>"


def _paragraph(note: str) -> str:
    return f"<p>{_text(note)}</p>" if note else ""


def _text(value: object) -> str:
    return html.escape(str(value))
