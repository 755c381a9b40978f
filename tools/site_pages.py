"""A hook of MkDocs: files outside docs/ have pages on the site too, so that links work in the repository and on the site.

README.md is the home page. The changelog and two more files have pages of their own, and the command line has a generated
one. Any other file or folder that a page links to is shown below code/; pictures and JSON files are copied there. A link
to a missing file stays as it is, and fails the strict build.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import cli_reference

ROOT = Path(__file__).parent.parent
OWN = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}
LINK = re.compile(r"(?<=\]\()[^)\s#:]+(?=[#)])")  # the path in [words](path#anchor), not an address elsewhere
SHORT = re.compile(r"(?<!</span>)<code>(?=[^<]{1,30}</code>)")
LANGUAGES = {".py": "python", ".toml": "toml"}
BOOSTS = {
    "api/": 0.2,
    "changelog": 0.2,
    "contributing": 0.2,
    "decisions/": 0.2,
    "notebooks/": 0.3,
    "scripts": 0.3,
    "errors": 3,
}
"""How much the words of a page count in a search, by how its path begins. Last comes what is for maintainers."""
COMMAND_LINE = "cli.md"
COPIED = (".json", ".png", ".svg")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages for README.md and its like, and for all that is linked to, however far away."""
    for path, page in OWN.items():
        files.append(File.generated(config, page, content=shown(path)))
    waiting = [file.src_uri for file in files if file.is_documentation_page()]
    while waiting:
        page = waiting.pop()
        for link in LINK.findall(shown(path_of(page))) if is_prose(path_of(page)) else ():
            target = page_for(link, page)
            if not target.startswith("code/") or files.get_file_from_path(target) is not None:
                continue
            if target.endswith(COPIED):
                files.append(File.generated(config, target, abs_src_path=str(ROOT / path_of(target))))
            else:
                files.append(File.generated(config, target, content=shown(path_of(target))))
                waiting.append(target)
    files.append(File.generated(config, COMMAND_LINE, content=cli_reference.page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 (MkDocs asks so)
    """Let links lead to pages of the site. Code is not searched, and has the room of the table of contents."""
    here = page.file.src_uri
    if here == COMMAND_LINE:
        return markdown
    if here.startswith("code/"):
        page.meta |= {"search": {"exclude": True}, "hide": ["toc"]}
    elif boosts := [boost for start, boost in BOOSTS.items() if here.startswith(start)]:
        page.meta["search"] = {"boost": boosts[0]}
    if not is_prose(path_of(here)):
        return markdown
    return LINK.sub(lambda link: posixpath.relpath(page_for(link[0], here), posixpath.dirname(here)), markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 (MkDocs asks so)
    """Mark short code in a sentence, so that a flag is not torn at its hyphens; the style sheet does the rest."""
    return SHORT.sub('<code class="whole">', html)


def page_for(link: str, page: str) -> str:
    """The page or file of the site to which a link on a page leads. Both are below docs/, or as if they were."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(path_of(page)), link))
    if path in OWN:
        return OWN[path]
    if not (ROOT / path).exists() or (path.startswith("docs/") and not (ROOT / path).is_dir()):
        return posixpath.relpath(path, "docs")
    return f"code/{path}" if path.endswith(COPIED) else f"code/{path}.md"


def path_of(page: str) -> str:
    """Where in the repository the text of a page comes from."""
    if page.startswith("code/"):
        return page.removeprefix("code/").removesuffix(".md")
    return {own: path for path, own in OWN.items()}.get(page, f"docs/{page}")


def is_prose(path: str) -> bool:
    """Whether its links are links: Markdown, and lists of a folder's files."""
    return path.endswith(".md") or (ROOT / path).is_dir()


def shown(path: str) -> str:
    """A file as Markdown: itself, or as code; of a folder, its files."""
    file = ROOT / path
    if file.is_dir():
        names = sorted(each.name for each in file.iterdir() if not each.name.startswith(("_", ".")) or each.suffix)
        return f"# {path}\n\n" + "".join(f"- [{name}]({file.name}/{name})\n" for name in names)
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return text
    return f"# {path}\n\n``````{LANGUAGES.get(file.suffix, 'text')}\n{text}\n``````\n"
