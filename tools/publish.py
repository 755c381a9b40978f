"""Prepare a checkout for an index of packages, which renders README.md and knows no repository.

    python tools/publish.py https://github.com/OWNER/NAME v0.1.0

Relative links and pictures of README.md become absolute, at this tag. pyproject.toml gets the addresses of the project. Both
files are changed in place, so run it in a checkout that nobody works in. `.github/workflows/publish.yml` does.
"""

import re
import sys
from pathlib import Path

LINK = re.compile(r"(!?)\[((?:[^][]|\[[^]]*\])*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")
"""A link, or a picture, to a place in the repository."""


def absolute(text: str, repository: str, tag: str) -> str:
    """Return a page whose links lead out of it.

    >>> absolute("[Data](docs/data.md#x) ![Ten](a.png)", "https://git.example/me/it", "v1")
    '[Data](https://git.example/me/it/blob/v1/docs/data.md#x) ![Ten](https://git.example/me/it/raw/v1/a.png)'
    """

    def link(found: re.Match[str]) -> str:
        picture, said, place = found.groups()
        return f"{picture}[{said}]({repository}/{'raw' if picture else 'blob'}/{tag}/{place})"

    return LINK.sub(link, text)


def with_urls(project: str, repository: str, tag: str) -> str:
    """Return pyproject.toml with the addresses of the project. Raises ValueError: the tag is not its version."""
    version = re.search(r'^version = "(.+)"$', project, re.MULTILINE)
    if version is None or tag != f"v{version[1]}":
        raise ValueError(f"the tag {tag} is not the version in pyproject.toml")
    places = {
        "Repository": "", "Documentation": f"/tree/{tag}/docs", "Changelog": f"/blob/{tag}/CHANGELOG.md",
        "Issues": "/issues", "Security": f"/blob/{tag}/SECURITY.md",
    }  # fmt: skip
    urls = "".join(f'{name} = "{repository}{place}"\n' for name, place in places.items())
    return project.replace(
        "[project.optional-dependencies]\n", f"[project.urls]\n{urls}\n[project.optional-dependencies]\n"
    )


if __name__ == "__main__":
    address, version_tag = sys.argv[1].rstrip("/"), sys.argv[2]
    readme, toml = Path("README.md"), Path("pyproject.toml")
    toml.write_text(with_urls(toml.read_text(encoding="utf-8"), address, version_tag), encoding="utf-8")
    readme.write_text(absolute(readme.read_text(encoding="utf-8"), address, version_tag), encoding="utf-8")
