"""The budget of the source: its lines of code, how full they are, and its silenced rules. `make check` runs it.

python tools/budget.py            a table; exit status 1 where the source is over its budget

A line of code holds a token of code. Blank lines, comments and docstrings are free, so that nobody saves on them.
A line that is joined with another saves a line and makes the source no smaller. So the characters of a line may not rise: the
mean over all lines of code, without indentation and comments.
A silenced rule is a comment that switches off the linter, the formatter, the type checker or the coverage on a line. Their
numbers only fall: the check also fails when there are fewer than stated here, and asks you to lower the number.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "gossamer"
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
KINDS = {
    "noqa": r"#\s*(ruff:\s*|flake8:\s*)?noqa\b",
    "fmt: skip": r"#\s*(fmt:\s*(skip|off)|isort:\s*skip)\b",
    "type: ignore": r"#\s*(type|mypy|pyright|basedpyright):\s*ignore\b",
    "pragma: no cover": r"#\s*pragma:\s*no\b",
}
"""Each kind of silenced rule, with the comments that count."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What the source may have.

    Args:
        lines: the most lines of code.
        characters: the most characters of a line of code, in the mean.
        silenced: the silenced rules of each kind, exactly.
    """

    lines: int
    characters: float
    silenced: dict[str, int]


BUDGET = Budget(
    lines=37_290,
    characters=45.6,
    silenced={"noqa": 59, "fmt: skip": 47, "type: ignore": 26, "pragma: no cover": 0},
)
"""The one place of these numbers. Lower them with the source.

To raise one, add a page to docs/decisions/ in the same change. It says what the new lines do for users, and which lines were
looked at to save as many.
"""


@dataclass(frozen=True)
class Counted:
    """What a source has.

    Args:
        lines: of code, of each child of the root.
        characters: of all lines of code, without indentation and comments.
        silenced: the number of each kind, and its places.
    """

    lines: Counter[str]
    characters: int
    silenced: dict[str, list[str]]

    @property
    def mean(self) -> float:
        """Characters of a line of code, to one digit."""
        return round(self.characters / max(self.lines.total(), 1), 1)


def code_lines(text: str) -> list[str]:
    """The lines that hold a token of code, without indentation and comments. A text that stands alone is a docstring."""
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    lines = ["", *text.split("\n")]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
        elif token.type == tokenize.COMMENT:
            lines[token.start[0]] = lines[token.start[0]][: token.start[1]]
    return [lines[number].strip() for number in sorted(code - told)]


def silenced(text: str) -> Iterator[tuple[str, int]]:
    """Each silenced rule: its kind and its line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from ((kind, token.start[0]) for kind, form in KINDS.items() if re.search(form, token.string))


def count(root: Path = ROOT) -> Counted:
    """Count the source below a folder."""
    found = Counted(Counter(), 0, {kind: [] for kind in KINDS})
    characters = 0
    for path in sorted(root.rglob("*.py")):
        place, text = path.relative_to(root), path.read_text(encoding="utf-8")
        lines = code_lines(text)
        found.lines[place.parts[0]] += len(lines)
        characters += sum(map(len, lines))
        for kind, number in silenced(text):
            found.silenced[kind].append(f"{place}, line {number}")
    return Counted(found.lines, characters, found.silenced)


def problems(found: Counted, budget: Budget) -> Iterator[str]:
    """What is wrong, a sentence or two each."""
    over = found.lines.total() - budget.lines
    if over > 0:
        yield (
            f"{over:,} lines of code too many. Find lines that the new ones make unnecessary. "
            "To raise the number, add a page to docs/decisions/."
        )
    if found.mean > budget.characters:
        yield f"A line of code has {found.mean} characters, and may have {budget.characters}. Do not join lines to save them."
    for kind, most in budget.silenced.items():
        now = len(found.silenced[kind])
        if now > most:
            yield f"{now} comments `{kind}`, and {most} are allowed. Mend the cause instead. `git diff` shows the new one."
        elif now < most:
            yield f"Only {now} comments `{kind}` are left, so lower the number {most} in tools/budget.py."


def main(root: Path = ROOT, budget: Budget = BUDGET) -> int:
    """Print the table; 1 where the source is over its budget."""
    found = count(root)
    for name, lines in found.lines.most_common():
        print(f"{lines:8,}  {name}")
    print(f"{found.lines.total():8,}  lines of code, of {budget.lines:,}")
    print(f"{found.mean:8}  characters a line, of {budget.characters}")
    for kind, places in found.silenced.items():
        print(f"{len(places):8}  {kind}")
    wrong = list(problems(found, budget))
    print("\n".join(wrong), end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
