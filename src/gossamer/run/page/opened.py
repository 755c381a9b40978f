"""The data sets that the user has opened, and the one folder of each in which the page writes.

The list is a small file beside the budget log. It holds paths and how the records are read. All else is in the files that the
commands write: card, run folders, releases and budget log.

A folder beside the records may have come with them. So each data set has a random id, in the list and in its folder. The page
takes nothing from a folder that does not hold the id.
"""

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.datastructures import QueryParams

from gossamer.errors import RequestError, RunFolderError
from gossamer.files import hold, write_atomically
from gossamer.lazy import Lazy
from gossamer.run.page.jobs import Jobs

if TYPE_CHECKING:
    from gossamer.run.storage.run_folder import RunFolder

Form: TypeAlias = QueryParams
"""What the user has written into a form, or the query of an address."""
Content: TypeAlias = Mapping[str, Any]
"""What a template shows, by name."""
EMBEDDED = ("digits", "glyphs")
tables: Any = Lazy("gossamer.data.sources.tables")
linked: Any = Lazy("gossamer.data.tables.linked.read")
MOST_LISTED = 200
"""Folders, and files, that a list shows."""
LIST = "page.json"
_LOCK = "page.lock"
_ID = "page-id"
"""The file of the id, in the folder of a data set."""
READING = ("units", "dictionary", "header", "public", "labels", "pixels")
"""The fields of a `DataSet` that say how its records are read."""
_NAME = re.compile(r"(run|release)-\d{1,4}")


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set that the user has opened.

    Args:
        id: a random word, in the addresses of its pages and in its folder.
        data: path of the records, or the name of embedded ones.
        folder: where the page writes: draft, card, parts, runs, releases.
        units: whose each record is, as --units takes it; empty: each record protects itself.
        dictionary: path of a data dictionary, for a table; empty: none.
        header: "yes" or "no": whether the first line of a table has names, whatever it looks like; empty: the user did not say.
        public: path of public records of the same kind; empty: none.
        labels: "none" where all pictures are of one class; else empty.
        pixels: black and white of pixels deeper than 8 bits, such as "0 4095"; with "window" before them, of files without a
            display window; empty: pixels have 8 bits.
        hidden: "yes" where the user has taken it off the list. Its folder stays, and it comes back when it is opened again.
    """

    id: str
    data: str
    folder: Path
    units: str = ""
    dictionary: str = ""
    header: str = ""
    public: str = ""
    labels: str = ""
    pixels: str = ""
    hidden: str = ""

    @property
    def name(self) -> str:
        """What the page calls it."""
        return self.data if self.data in EMBEDDED else Path(self.data).name

    @property
    def card(self) -> Path:
        """The declared facts."""
        return self.folder / "card.toml"

    @property
    def draft(self) -> Path:
        """What was measured. Private: nothing in it is declared."""
        return self.folder / "draft.toml"

    @property
    def declared(self) -> Path:
        """What the owner declares with a release."""
        return self.folder / "declared.toml"

    @property
    def jobs(self) -> Jobs:
        """Its jobs."""
        return Jobs(self.folder / "jobs")

    @cached_property
    def is_divided(self) -> bool:
        """Whether the records came with a part for tests."""
        if self.data in EMBEDDED:
            return True
        path = Path(self.data)
        names = [entry.name.lower() for entry in path.iterdir()] if path.is_dir() else []
        return any(name.startswith("train") for name in names) and any(
            name.startswith(("test", "t10k")) for name in names
        )

    @property
    def parts(self) -> Path | None:
        """Where the page has divided the records into train and test; None: it has not."""
        return next((path for path in self.new_parts if path.exists()), None)

    @property
    def new_parts(self) -> tuple[Path, Path]:
        """Where `split` writes folders and tables, and where it writes arrays."""
        return self.folder / "parts", self.folder / "parts.npz"

    @property
    def used(self) -> str:
        """The records that a run uses."""
        return str(self.parts or self.data)

    @property
    def problem(self) -> str:
        """Why its folder is none that the page of this user has made for it, and what to do; empty: it is."""
        where = self.folder
        if where.is_symlink():
            return f"{where} is a link. Remove the link, or name another folder for the results."
        if not where.is_dir():
            return f"{where} is gone. Open the records again: then the page makes a new folder."
        if where.stat().st_uid != os.geteuid():
            return f"{where} belongs to another user. Name another folder for the results."
        try:
            is_own = (where / _ID).read_text(encoding="utf-8") == self.id
        except (OSError, ValueError):
            is_own = False
        return "" if is_own else (
            f"{where} was not made by your page for these records, so what it holds may be a stranger's. Move it away, or name "
            "another folder for the results. If its runs are yours, the commands still take them."
        )  # fmt: skip

    def make_folder(self) -> None:
        """Make its folder, private and with its id, where there is none or an empty one.

        Raises:
            RunFolderError: if it cannot be made, or something else is there.
        """
        where = self.folder
        try:
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not where.is_symlink() and where.stat().st_uid == os.geteuid() and not any(where.iterdir()):
                where.chmod(0o700)
                write_atomically(where / _ID, self.id, private=True)
        except OSError as error:
            raise RunFolderError(
                f"{where} cannot be made ({error.strerror}). Name another folder for the results."
            ) from None
        if self.problem:
            raise RunFolderError(self.problem)

    def finished(self) -> list[str]:
        """The names of its finished runs, the oldest first."""
        return [path.name for path in self._numbered("run") if _run(path).finished]

    def unfinished(self) -> list[str]:
        """The names of its runs that have begun and not ended, the oldest first."""
        runs = map(_run, self._numbered("run"))
        return [run.path.name for run in runs if run.begun and not run.finished]

    def run(self, name: str) -> "RunFolder":
        """Return a run of this data set. Raises RequestError: see `child`."""
        return _run(self.child(name))

    def releases(self) -> list[Path]:
        """Its releases, the oldest first."""
        return self._numbered("release")

    def new(self, kind: str) -> Path:
        """A path for a new run or release."""
        taken = [int(path.name.rpartition("-")[2]) for path in self._numbered(kind)]
        return self.folder / f"{kind}-{max(taken, default=0) + 1}"

    def child(self, name: str) -> Path:
        """Return the folder of a run or a release of this data set.

        Raises:
            RequestError: if there is none of this name, or it leads elsewhere.
        """
        path = self.folder / name
        if not _NAME.fullmatch(name) or not path.is_dir() or path.resolve().parent != self.folder.resolve():
            raise RequestError("There is no such run or release in the folder of these records.")
        return path

    def _numbered(self, kind: str) -> list[Path]:
        found = [path for path in self.folder.glob(f"{kind}-*") if _NAME.fullmatch(path.name) and path.is_dir()]
        return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))


class Opened:
    """The list of data sets that the user has opened.

    Args:
        folder: of the list: the user's state folder, where the budget log is too.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LIST

    @property
    def entrance(self) -> Path:
        """A private file that leads the user's browser to the page. Each process has its own."""
        self._make_private()
        return self._path.with_name(f"page-{os.getpid()}.html")

    def all(self) -> list[DataSet]:
        """Return all of them. A list that cannot be read counts as empty."""
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))
            return [DataSet(**{**entry, "folder": Path(entry["folder"])}) for entry in entries]
        except (OSError, ValueError, TypeError, KeyError):
            return []

    def get(self, word: str) -> DataSet:
        """Return a data set by its id. Raises RequestError: there is none, or its folder is not its own any more."""
        found = next((known for known in self.all() if known.id == word), None)
        if found is None:
            raise RequestError("No data set of this address is open. Open one from the first page.")
        if found.problem:
            raise RunFolderError(found.problem)
        return found

    def open(self, data: str, folder: str = "") -> DataSet:
        """Add a data set, or return it if it is there already.

        Args:
            data: path of the records, or the name of embedded ones.
            folder: where the page may write; empty: NAME-gossamer beside the records.

        Raises:
            DataError: if a database cannot be read, or holds several tables of the same columns.
            RequestError: if there are no records, or the folder holds something else.
            RunFolderError: if the folder cannot be made.
        """
        data = unquoted(data)
        if data not in EMBEDDED:
            path, inside = tables.file_of(str(Path(data).expanduser()))
            if not data or not path.exists():
                raise RequestError(
                    f"There is nothing at {data!r}. Give the path of a folder or a file on this machine."
                )
            if not may_be_records(path):
                raise RequestError(
                    f"{path.name} is no table and no array of pictures by its ending. For pictures, choose their folder."
                )
            databases = (*tables.SQLITE, *tables.DUCKDB, *tables.EXCEL)
            if path.name.lower().endswith(databases) and not linked.are_linked(f"{path}{inside}"):
                tables.open_table(f"{path}{inside}", split="train", where=path.name)  # it says which tables there are
            data = f"{path.resolve()}{inside}"
        work = _folder_for(data, unquoted(folder))
        if data not in EMBEDDED and Path(data) in (work, *work.parents):
            raise RequestError(f"{work} lies in the records. Name a folder beside them.")
        with self.locked():
            every = self.all()
            entry = next((known for known in every if (known.data, known.folder) == (data, work)), None)
            others = [known for known in every if known is not entry]
            entry = replace(entry or DataSet(id=secrets.token_hex(8), data=data, folder=work), hidden="")
            entry.make_folder()
            self._write([*others, entry])
        return entry

    def change(self, word: str, changed: Mapping[str, str]) -> None:
        """Change the data set with an id: how its records are read, or whether it is on the list. changed: fields and texts."""
        fields: dict[str, Any] = {name: changed[name] for name in (*READING, "hidden") if name in changed}
        with self.locked():
            self._write([replace(known, **fields) if known.id == word else known for known in self.all()])

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one tab, or one page, at a time change the list or make the key of signatures."""
        self._make_private()
        with hold(self._path.with_name(_LOCK), wait=True):
            yield

    def _make_private(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.parent.chmod(0o700)

    def _write(self, entries: list[DataSet]) -> None:
        content: list[dict[str, Any]] = [{**asdict(entry), "folder": str(entry.folder)} for entry in entries]
        write_atomically(self._path, json.dumps(content, indent=2) + "\n", private=True)


class FormError(RequestError):
    """A form that was refused. problems: what is wrong, by the name of the field; "" is the whole form."""

    def __init__(self, message: str, problems: Mapping[str, str]) -> None:
        super().__init__("\n".join(filter(None, [message, problems.get("", "")])))
        self.problems = problems


def unquoted(path: str) -> str:
    """A path as a user writes or pastes it, without space and quotes around it."""
    path = path.strip()
    return path[1:-1] if len(path) > 1 and path[0] in "'\"" and path[-1] == path[0] else path


def may_be_records(path: Path) -> bool:
    """Whether the page offers a path: a folder, or a file with the ending of a table or of arrays. Nothing of it is read."""
    return path.is_dir() or path.name.lower().endswith((*tables.SUFFIXES, ".npz", ".tar"))


def inside(folder: str) -> Content:
    """What a folder has to choose from: its path, its parent, and the names and paths of folders and of files.

    The page may walk wherever its user may. The same user can type any path, so a fence would stop nobody. It shows names
    alone, follows no request without the cookie, and hides what begins with a dot.

    Raises:
        RequestError: if the folder cannot be listed.
    """
    where = Path(unquoted(folder)).expanduser().resolve()
    try:
        own = {path.parent for path in where.glob(f"*/{_ID}")}  # what the page has made of other records
        found = [
            path for path in sorted(where.iterdir()) if path.name[0] != "." and may_be_records(path) and path not in own
        ]
    except OSError as error:
        raise RequestError(f"{where} cannot be listed ({error.strerror}). Choose another folder.") from None
    folders, files = ([path for path in found if path.is_dir() == wanted][:MOST_LISTED] for wanted in (True, False))
    return {"where": where, "folders": folders, "files": files, "more": len(found) - len(folders) - len(files)}


def _run(path: Path) -> "RunFolder":
    from gossamer.run.storage.run_folder import RunFolder

    return RunFolder(path)


def _folder_for(data: str, folder: str) -> Path:
    if folder:
        return Path(folder).expanduser().resolve()
    place, inside = (Path.cwd() / data, "") if data in EMBEDDED else tables.file_of(data)
    words = [place.name.split(".")[0], *re.findall(r"\w+", inside.removeprefix("?table="))]
    return place.parent / f"{'-'.join(words)}-gossamer"
