"""The texts of reports and releases are templates: `report.html`, `verdict.txt`, and the .txt files of `run/release`."""

import functools
import html
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, UndefinedError, select_autoescape

from gossamer.errors import RunFolderError
from gossamer.privacy.guarantee import in_full, rounded_up
from gossamer.run.report import promise, wording


@functools.cache
def template(name: str, package: str = __package__) -> Template:
    """The template of that name, with the filters that all of them share. Of HTML, what is filled in is escaped."""
    environment = Environment(
        loader=PackageLoader(package, "."), autoescape=select_autoescape(), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {
        "up": promise.up,
        "all_digits": promise.all_digits,
        "rounded_up": lambda bound, digits=3: rounded_up(float(bound), digits),
        "in_full": in_full,
        "number": "{:,}".format,
        "percent": wording.percent,
        "quoted": lambda value: json.dumps(value, ensure_ascii=False).replace("<", r"\u003c"),
        "plain": functools.partial(html.escape, quote=False),
        "release_in_words": wording.release_in_words,
        "setting_in_words": wording.setting_in_words,
    }
    return environment.get_template(name)


@contextmanager
def as_written(path: Path, content: str, remedy: str) -> Iterator[None]:
    """Raise a RunFolderError where a file turns out to hold something else than Gossamer wrote."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, UndefinedError) as error:
        raise RunFolderError(f"{path} does not hold {content} ({type(error).__name__}: {error}); {remedy}") from error
