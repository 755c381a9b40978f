"""The seventh step: declare, make a release, sign it and verify it."""

import io
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from gossamer.data.card import toml
from gossamer.errors import RequestError
from gossamer.files import write_atomically
from gossamer.kinds import kind_of
from gossamer.privacy.certificate import certificate
from gossamer.privacy.certificate.declarations import CHOICES, QUESTIONS, declare
from gossamer.run.page.opened import Content, DataSet, Form, FormError, Opened
from gossamer.run.release import release as releasing
from gossamer.run.release import signing
from gossamer.run.release import verify as checking
from gossamer.run.storage import run_folder
from gossamer.run.storage.run_folder import today
from gossamer.run.storage.state_folder import signing_key

_PREVIEW = 6
"""Lines of the samples that are shown."""


def show(data_set: DataSet, query: Form) -> Content:
    """The declarations, and the last release."""
    finished, releases = data_set.finished(), data_set.releases()
    name = query.get("release", releases[-1].name if releases else "")
    folder = data_set.child(name) if name else None
    readme, kind, stated = "", None, None
    if folder is not None:
        text = (folder / checking.README).read_text(encoding="utf-8").partition("\n---\n")[2]
        readme = MarkdownIt("js-default").render(re.sub("^#", "###", text, flags=re.MULTILINE))
        stated = certificate.Certificate.load(folder)
        kind = kind_of(stated.card)
    return {
        "finished": finished,
        "run": query.get("run", finished[-1] if finished else ""),
        "answers": _answers(data_set),
        "choices": CHOICES,
        "release": name,
        "folder": folder,
        "signed": folder is not None and (folder / run_folder.SIGNATURE).is_file(),
        "key": signing_key(),
        "verdict": verdict_of(data_set, name) if "check" in query and name else None,
        "readme": Markup(readme),
        "tables": {} if kind is None or folder is None else kind.first_rows(folder, _PREVIEW),
        "files": [] if folder is None else sorted(path.name for path in folder.iterdir()),
        "kind": kind,
        "score": stated and stated.figures.get("score", {}).get("statement", ""),
    }


def make(_opened: Opened, data_set: DataSet, form: Form) -> str:
    """Make a release of a run."""
    run, out = data_set.child(form.get("run", "")), data_set.new("release")
    answers = {name: form[name].strip() for name in QUESTIONS if form.get(name, "").strip()}
    declare(answers, where="The form")
    if (until := answers.get("expires", "")) and until < today():
        raise FormError("This release would have expired.", {"expires": "This day is past. Choose a later day."})
    count = form.get("samples", "0").replace(",", "")
    if not count.isdecimal() or len(count) > 9:
        raise RequestError("The number of samples must be a whole number, such as 1000. With 0 there are none.")
    text = "".join(f"{name} = {toml(answer)}\n" for name, answer in answers.items())
    write_atomically(data_set.declared, text, private=True)
    words = [str(run), "-o", str(out), "--declared", str(data_set.declared)]
    data_set.jobs.start("release", *words, *(["--samples", count] if int(count) else []), about=out.name)
    return f"release?run={run.name}"


def sign(opened: Opened, data_set: DataSet, form: Form) -> str:
    """Sign a release. The first signature of a user makes the key."""
    folder, key = data_set.child(form.get("release", "")), signing_key()
    with opened.locked():
        if not key.exists():
            signing.new_key(key)
    releasing.sign(folder, key=key)
    return f"release?release={folder.name}&check=1"


def verdict_of(data_set: DataSet, name: str) -> Any:
    """What `verify` says of a release, with the public key if it is signed."""
    folder, public = data_set.child(name), signing_key().with_name(f"{signing_key().name}.pub")
    signed = (folder / run_folder.SIGNATURE).is_file() and public.is_file()
    return checking.verify(folder, key=str(public) if signed else None)


def zipped(folder: Path) -> bytes:
    """A release as a .zip, with the files that it lists in a folder of its name. Links are left out.

    Raises:
        RequestError: if the folder lists no files of a release.
    """
    file = io.BytesIO()
    try:
        listed = [*checking.read_sums(folder), run_folder.SUMS, run_folder.SIGNATURE]
    except (OSError, ValueError):
        raise RequestError(f"{folder.name} is no release, so it is not handed out. Make another one.") from None
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in map(folder.joinpath, listed):
            if path.is_file() and not path.is_symlink():
                archive.write(path, f"{folder.name}/{path.name}")
    return file.getvalue()


def _answers(data_set: DataSet) -> dict[str, str]:
    """What was declared last."""
    try:
        declared = tomllib.loads(data_set.declared.read_text(encoding="utf-8"))
        return {name: str(answer) for name, answer in declared.items()}
    except (OSError, ValueError):
        return {}
