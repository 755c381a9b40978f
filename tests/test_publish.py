"""What an index of packages gets: absolute links, addresses of the project, and one version."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("publish", ROOT / "tools" / "publish.py")
assert spec is not None
assert spec.loader is not None
publish = importlib.util.module_from_spec(spec)
spec.loader.exec_module(publish)

PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
VERSION = tomllib.loads(PROJECT)["project"]["version"]
HOME = "https://git.example/me/gossamer"


def test_every_link_of_the_rendered_readme_leads_to_a_file_of_the_repository() -> None:
    text = publish.absolute((ROOT / "README.md").read_text(encoding="utf-8"), HOME, f"v{VERSION}")
    places = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:href|src)="([^"]+)"', text)
    assert len(places) > 30
    for place in places:
        assert place.startswith("https://"), place
        if place.startswith(HOME):
            kind, _, path = place.removeprefix(f"{HOME}/").partition(f"/v{VERSION}/")
            assert kind == ("raw" if path.endswith((".png", ".svg")) else "blob")
            assert (ROOT / path.partition("#")[0]).is_file(), path


def test_the_project_gets_its_addresses_and_a_tag_must_be_its_version() -> None:
    urls = tomllib.loads(publish.with_urls(PROJECT, HOME, f"v{VERSION}"))["project"]["urls"]
    assert urls["Changelog"] == f"{HOME}/blob/v{VERSION}/CHANGELOG.md"
    with pytest.raises(ValueError, match="is not the version"):
        publish.with_urls(PROJECT, HOME, "v9.9.9")


def test_the_version_stands_in_one_place() -> None:
    places = ("CITATION.cff", "src/gossamer/__init__.py", "mkdocs.yml")
    assert not [
        place
        for place in places
        if re.search(r"^(version:|__version__ *=)", (ROOT / place).read_text("utf-8"), re.MULTILINE)
    ]


def test_the_extra_all_has_every_extra_of_users() -> None:
    extras = tomllib.loads(PROJECT)["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.partition("[")[2].rstrip("]").split(","))
    assert named == {*extras} - {"all", "dev", "docs", "mutation", "notebook"}
