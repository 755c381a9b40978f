"""What each extra adds to an installation, in MB: the files of its packages that the core does not need.

    python tools/extras.py

It measures the environment that it runs in. An extra with a package that is not installed is listed without a size.
"""

import re
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def needed(requirements: Iterable[str]) -> set[str]:
    """The names of packages, and of all that they need. Raises PackageNotFoundError: one is not installed."""
    found: set[str] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        found.add(name)
        inner = metadata.distribution(name).requires or []
        waiting += [(Requirement(text), extra) for text in inner for extra in (*requirement.extras, "")]
    return found


def megabytes(names: Iterable[str]) -> float:
    """The size of the files of installed packages."""
    files = (file for name in names for file in metadata.files(name) or () if file.suffix != ".pyc")
    return sum(path.stat().st_size for path in (Path(str(file.locate())) for file in files) if path.is_file()) / 1e6


def main() -> None:
    """Print a line for the core, and one for each extra."""
    core = needed(PROJECT["dependencies"])
    torch = megabytes({"torch"})
    print(f"core: {megabytes(core):.0f} MB, of which torch {torch:.0f}")
    for name, requirements in PROJECT["optional-dependencies"].items():
        if name in ("all", "dev", "docs", "mutation"):
            continue
        try:
            more = needed(requirements) - core
        except metadata.PackageNotFoundError as error:
            print(f"{name}: {error}")
            continue
        print(f"{name}: {megabytes(more):.1f} MB, {len(more)} packages: {', '.join(sorted(more))}")


if __name__ == "__main__":
    main()
