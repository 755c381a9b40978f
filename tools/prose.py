"""Check that README, docs, docstrings, messages and comments are in plain words. `make check` runs it.

python tools/prose.py             all texts of the project; exit status 1 where a file breaks a rule
python tools/prose.py FILE...     these alone, with the worst sentences

Two rules hold for each file. At most 8 % of its sentences have more than 25 words. It has no word of `avoid.tsv`, which gives
the word to use instead. Of Markdown, code, outputs and the targets of links are left out. Of Python, docstrings, comments and
strings of five words or more count. Lab notes and API pages are exempt.
"""

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "docs", "src")
EXEMPT = ("docs/api/",)
LONG, SHARE = 25, 0.08
OUTPUT = '<div class="output"'  # of a notebook; tools/notebook_page.py writes it


def avoided() -> list[tuple[re.Pattern[str], str]]:
    """Return each avoided pattern with the word to use instead."""
    lines = (ROOT / "tools" / "avoid.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and line[0] != "#"]
    return [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in rows]


def from_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each paragraph, list item and cell of a table."""
    fenced, start = False, 1
    block: list[str] = []
    for number, raw in enumerate([*text.splitlines(), ""], 1):
        line = raw
        if line.lstrip().startswith(("```", "~~~")):
            fenced, line = not fenced, ""
        if fenced or line.lstrip().startswith(("<!--", "![", "|--", "| --", OUTPUT)):
            line = ""
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield number, cell
            line = ""
        if block and (not line.strip() or re.match(r"\s*(#|[-*+] |\d+\. |> )", line)):
            yield start, " ".join(block)
            block = []
        if line.strip():
            start = start if block else number
            block.append(re.sub(r"^\s*(#+|[-*+]|\d+\.|>)\s+", "", line).strip())


def from_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each part of a docstring, each long string and each comment."""
    nodes = list(ast.walk(ast.parse(text)))
    bodies = [getattr(node, "body", None) for node in nodes]
    docs = [
        child.value
        for body in bodies
        if isinstance(body, list)
        for child in body
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant) and isinstance(child.value.value, str)
    ]
    for doc in docs:
        for offset, part in enumerate(re.split(r"\n\s*\n|\n(?=\s+[\w*]+: )|\n(?=\s*(?:[-*]|\d+\.) )", str(doc.value))):
            if ">>>" not in part:
                yield doc.lineno + offset, " ".join(part.split())
    known = {id(doc) for doc in docs}
    for node in nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in known:
            continue
        if len(node.value.split()) >= 5:
            yield node.lineno, " ".join(node.value.split())
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and len(token.string.split()) >= 4:
            yield token.start[0], token.string.lstrip("# ")


def sentences(text: str) -> Iterator[tuple[str, int]]:
    """Yield each sentence of a text with its number of words."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "X", text))
    for sentence in re.split(r"(?<=[.!?])[\"')\]]?\s+(?=[A-Z\"'(])", text):
        words = re.findall(r"[A-Za-z0-9][\w'.,%+/-]*", sentence)
        if len(words) >= 3:
            yield sentence.strip(), len(words)


def check(path: Path, rules: list[tuple[re.Pattern[str], str]]) -> tuple[list[int], list[str], bool]:
    """Return the lengths of a file's sentences, a line for each fault, and whether it breaks a rule."""
    text = path.read_text(encoding="utf-8")
    lengths, long, words = [], [], []
    for line, block in from_python(text) if path.suffix == ".py" else from_markdown(text):
        for sentence, count in sentences(block):
            lengths.append(count)
            if count > LONG:
                long.append(f"{path}:{line}: {count} words: {sentence[:300]}")
            words += [
                f"{path}:{line}: {hit[0]!r}, use: {instead}: {sentence[:300]}"
                for rule, instead in rules
                if (hit := rule.search(sentence))
            ]
    return lengths, [*words, *long], bool(words) or len(long) > SHARE * len(lengths)


def main(names: list[str]) -> int:
    """Check the files, or all texts of the project."""
    given = [Path(name) for name in names or [str(ROOT / text) for text in TEXTS]]
    paths = [file for path in given for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    rules = avoided()
    broken, everything = False, []
    for path in paths:
        inside = path.resolve().relative_to(ROOT).as_posix() if path.resolve().is_relative_to(ROOT) else str(path)
        if path.suffix not in {".md", ".py"} or (not names and inside.startswith(EXEMPT)):
            continue
        lengths, faults, bad = check(path, rules)
        everything += lengths
        broken |= bad
        if bad or names:
            print("\n".join([*faults, f"{inside}: {len(faults)} faults in {len(lengths)} sentences"]))
    share = sum(count > LONG for count in everything) / max(len(everything), 1)
    median = statistics.median(everything or [0])
    print(f"prose: {len(everything)} sentences, median {median:.0f} words, {share:.1%} over {LONG}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
