"""The data card: the public facts about a data set, declared by its owner and never measured.

A run may use these facts freely, because they are known without looking at the records. That is an assumption, so the
certificate lists them. A card is a short TOML file, which `draft` proposes and the data owner declares.

The file is long because what every card shares and the card of pictures must agree.
"""

import datetime
import json
import math
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar, Union, get_args, get_origin

from gossamer.data import problems
from gossamer.data.labels import positions, wrong_with
from gossamer.data.pixels.to_uint8 import Resize
from gossamer.data.records import Records
from gossamer.data.source import Reading
from gossamer.data.units import Missing
from gossamer.errors import CardError, did_you_mean
from gossamer.files import at_home, write_private
from gossamer.lazy import torch

Kind: TypeAlias = Literal["pictures", "table", "linked"]
"""What a card describes, and what a method takes."""
UNIFORM: Literal["uniform"] = "uniform"
STORED: Literal["stored"] = "stored"
MOST_CLASSES = 10_000
"""The nets have a part for each class."""

CardType = TypeVar("CardType", bound="Card")


def meaning(text: str, *, low: int = 1, high: int | None = None, of: Collection[str] = ()) -> dict[str, Any]:
    """The metadata of a field without a default.

    Args:
        text: what is declared, as comments and messages say it.
        low: the least value of a whole number.
        high: its largest value; None: any.
        of: the kinds of columns that have this entry; empty: all.
    """
    return {"meaning": text, "low": low, "high": high, "of": of}


def fact(default: Any, text: str, **limits: Any) -> Any:
    """A field with a default. limits: see `meaning`."""
    return field(default=default, metadata=meaning(text, **limits))


def meanings(kind: type) -> dict[str, str]:
    """What each fact of a card, or each entry of a column, means."""
    return {entry.name: entry.metadata["meaning"] for entry in fields(kind) if entry.metadata}


def document(kind: type) -> None:
    """Add what each fact means to the docstring of a card or a column."""
    lines = [f"        {name}: {text}." for name, text in meanings(kind).items()]
    kind.__doc__ = "\n".join([f"{kind.__doc__}\n\n    Args:", *lines])


def check_facts(card: Any, wrong: Callable[[str, str], CardError]) -> None:
    """Make tuples of lists. Refuse what has not the type of its field, is beyond its limits, or is of another kind of column.

    Args:
        card: a card or a column, in its making.
        wrong: the error for a fact, from its name and a phrase that says what is wrong.
    """
    for entry in fields(card):
        value = getattr(card, entry.name)
        if isinstance(value, list):
            object.__setattr__(card, entry.name, value := tuple(value))
        of = entry.metadata.get("of")
        if of and card.kind not in of and value != entry.default:
            raise wrong(entry.name, f"is no entry of a column of kind {card.kind}: leave it out")
        if entry.metadata and (must := _must(entry.type, value, entry.metadata)):
            near = did_you_mean(str(value), get_args(entry.type)) if get_origin(entry.type) is Literal else ""
            raise wrong(entry.name, f"must be {must}: {entry.metadata['meaning']}{near and f'.{near}'}")


def _must(kind: Any, value: object, limits: Mapping[str, Any]) -> str:
    """What a value of this type must be; empty: it is, or the card has a check of its own."""
    if isinstance(
        kind, str
    ):  # in `load.py` of a release annotations are not evaluated, and `verify` has checked the card
        return ""
    if get_origin(kind) in (Union, UnionType):
        kinds = {*get_args(kind)} - {NoneType}
        return "" if len(kinds) > 1 or value is None else _must(kinds.pop(), value, limits)
    if get_origin(kind) is Literal:
        return "" if value in get_args(kind) else f"one of {', '.join(map(toml, get_args(kind)))}"
    if get_origin(kind) is tuple:
        return "" if isinstance(value, tuple) else "a list in brackets"
    if kind is bool:
        return "" if isinstance(value, bool) else "true or false"
    if kind is str:
        return "" if is_line(value) else "a line of text in quotes"
    low, high = limits["low"], limits["high"]
    if isinstance(value, int) and is_whole(value) and value >= low and (high is None or value <= high):
        return ""
    return f"a whole number {f'of at least {low}' if high is None else f'from {low} to {high:,}'}"


def changed(card: Any) -> list[Field[Any]]:
    """The fields of a card or a column that are not the default."""
    return [entry for entry in fields(card) if getattr(card, entry.name) != entry.default]


def check_keys(kind: type, facts: Iterable[str], what: str, *, known: Collection[str] = (), hint: str = "") -> None:
    """Refuse unknown entries, with the nearest name, and missing ones, with what they mean. Raises CardError.

    Args:
        kind: of the card or the column.
        facts: the names that are given.
        what: the card or the column, for messages.
        known: names that there are. Empty: those of its facts.
        hint: a last sentence about unknown names.
    """
    means, given = meanings(kind), [*facts]
    known = known or [*means]
    for key in given:
        if key not in known:
            raise CardError(f"{what} has no entry {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}.{hint}")
    for entry in fields(kind):
        if entry.default is MISSING and entry.metadata and entry.name not in given:
            raise CardError(f"{what} lacks {entry.name} ({means[entry.name]}); add a line {entry.name} = ...")


@dataclass(frozen=True, kw_only=True, repr=False)
class Card(ABC):
    """What the cards of pictures and of tables have in common: the facts that a guarantee needs, and a TOML file."""

    title: str = fact("", "what the data set is called in reports and on the certificate")
    data_set: str = fact(
        "", 'the name under which all runs on these records are counted together; "": the place they are read from'
    )
    declared_size: int = field(
        metadata=meaning("number of records, or of units where the unit is not the record; rates are computed from it")
    )
    unit: str = fact(
        "record",
        'whose contribution is protected: "record", or "patient", "client" ... (then the data come with --units)',
    )
    missing_unit: Missing = fact(
        "refuse", 'a record without a unit: "refuse" it as a mistake, or "own": it is a unit of its own'
    )
    kind: ClassVar[Kind]
    """What it describes."""
    in_words: ClassVar[str]
    """The same, for messages."""
    units_come: ClassVar[str]
    """How the ids of units are given, for messages."""
    takes_keys: ClassVar[bool] = False
    """Whether `images_key` and `labels_key` tell what of a source is read."""
    has_public: ClassVar[bool] = False
    """Whether a part of the records can be public."""
    whose: ClassVar[str]
    """What stands for `units` in a command."""
    rows_have_units: ClassVar[bool] = False
    """Whether the records themselves say which of them belong to one unit."""

    @classmethod
    def suits(cls, method: Any) -> bool:
        """Whether a method takes such records."""
        return bool(method.takes == cls.kind)

    @property
    @abstractmethod
    def breadth(self) -> str:
        """The number of classes, or of columns."""

    @abstractmethod
    def samples_in_words(self, classes: int) -> str:
        """What samples are, of so many classes."""

    @abstractmethod
    def problem_of_samples(self, samples: "torch.Tensor", labels: "torch.Tensor", n: int) -> str:
        """Why what a generator has drawn are no n samples that the card describes; empty: they are."""

    @classmethod
    @abstractmethod
    def _arguments(cls, facts: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a card, from plain values. Refuses unknown and missing facts."""

    @classmethod
    def from_dict(cls, facts: dict[str, Any], *, where: str = "the card") -> Self:
        """A card from plain values, as `to_dict` gives them. Raises CardError. where: the place of the values, for messages."""
        try:
            return cls(**cls._arguments(facts))
        except CardError as error:
            raise CardError(f"{where}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {key: plain(getattr(self, key)) for key in meanings(type(self))}

    def dumps(self) -> str:
        """The card as TOML, each line with a comment that says what is declared."""
        return "\n".join(self.lines(vars(self)))

    @classmethod
    def lines(cls, facts: Mapping[str, Any], left_out: Collection[str] = ()) -> list[str]:
        """The lines of its file, each with a comment that says what is declared.

        Args:
            facts: those that are not the default. Where the default is None, the file has empty text.
            left_out: the facts that the file does not have.
        """
        values = {entry.name: entry.default for entry in fields(cls)} | dict(facts)
        means = {key: text for key, text in meanings(cls).items() if key not in left_out}
        stated = {key: toml("" if values[key] is None else values[key]) for key in means}
        return [f"# declared public: {text}\n{key} = {stated[key]}\n" for key, text in means.items()]

    @classmethod
    def loads(cls, text: str, *, where: str = "the card") -> Self:
        """A card from TOML text. `where` names the text in messages. Raises CardError."""
        return cls.from_dict(parsed(text, where=where), where=where)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The card in a TOML file. Raises CardError: names the file, the key and the remedy."""
        return cls.loads(text_of_card(path), where=str(path))

    @classmethod
    def given(cls, card: Self | str | Path) -> Self:
        """The card, or that of its file. Raises CardError."""
        return card if isinstance(card, cls) else cls.load(str(card))

    def save(self, path: str | Path) -> None:
        """Write the card to a file, over what was there. Only you can read it, because the card may be a draft."""
        write_private(at_home(path), self.dumps())

    def __post_init__(self) -> None:
        check_facts(self, lambda key, problem: CardError(f"{key} {problem}"))
        if not self.unit.strip():
            raise CardError(f"unit must be a line of text in quotes: {meanings(type(self))['unit']}")
        if self.missing_unit == "own" and self.unit == "record":
            raise CardError('missing_unit = "own" has no meaning where unit = "record": leave it out, or name the unit')


def parsed(text: str, *, where: str) -> dict[str, Any]:
    """The facts in the TOML text of a card. Raises CardError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:  # whose message may quote a key
        place = re.search(r"at (line \d+|end of document)", str(error))
        raise CardError(
            f"{where}: this is not TOML{f', {place[0]}' if place else ''}; `gossamer.draft_card(DATA)` drafts a valid card"
        ) from None


def text_of_card(path: str | Path) -> str:
    """The text of a card file. Raises CardError, which quotes no card."""
    try:
        return at_home(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        if any(sign in str(path) for sign in "\n="):
            raise CardError(
                "card: this is the text of a card, not its path. Save the text to a file, and pass the path of the file."
            ) from None
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise CardError(f"{path}: the card cannot be read ({why}); `gossamer.draft_card(DATA)` drafts one") from None


@dataclass(frozen=True, kw_only=True, repr=False)
class DataCard(Card):
    """The public facts about a data set of pictures. Each field says what it declares.

    Sampling rates come from `declared_size`, the number of units. Where data have names of classes, records are matched with
    `class_names`. Without these, labels are numbers, and those of class folders follow from the sorted names.

    Raises:
        CardError: a field that makes no sense; names the field and the remedy.
    """

    shape: tuple[int, ...] = field(metadata=meaning("channels, height and width of an image; the readers resize to it"))
    resize: Resize = fact(
        "squash",
        'pictures of other proportions are made to fit: "squash", "crop" to the middle, or "pad" with black bars',
    )
    invert: bool = fact(
        False, "true: dark and light are exchanged as the data are read, so that ink on white becomes white on black"
    )
    classes: int = field(metadata=meaning("number of labels; they run from 0 to classes - 1", high=MOST_CLASSES))
    class_names: tuple[str, ...] = fact(
        (), "what the labels are called, label 0 first, or []: name no class that is there because of one person"
    )
    label_prior: Literal["uniform"] | tuple[float, ...] = fact(
        UNIFORM, '"uniform", or the share of each class, known from elsewhere and not counted in these records'
    )
    missing_label: Literal["refuse", "drop"] = fact(
        "refuse", 'a record without a label: "refuse" it as a mistake, or "drop": it is left out, and not declared'
    )
    window: bool = fact(
        False, "true: black and white of each DICOM file are those of its own display window, in place of pixel_range"
    )
    pixel_range: Literal["stored"] | tuple[float, ...] = fact(
        STORED,
        '"stored": pixels of 8 bits; or the values of black and white in deeper ones, such as [0, 4095] for 12 bits',
    )
    kind: ClassVar[Kind] = "pictures"
    in_words: ClassVar[str] = "pictures"
    takes_keys: ClassVar[bool] = True
    has_public: ClassVar[bool] = True
    whose: ClassVar[str] = "WHOSE"
    units_come: ClassVar[str] = (
        "a FILE.csv (columns name,unit), FILE.npz:KEY, `folder`, '(PATTERN)' or dicom:PatientID."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shape) != 3 or not all(is_whole(side) and side >= 1 for side in self.shape):
            raise CardError("shape must be three whole numbers, channels, height and width: for example [1, 28, 28]")
        if self.shape[0] not in (1, 3):
            raise CardError(f"shape must begin with 1 (grey) or 3 (colour) channels, not {self.shape[0]}")
        if wrong := wrong_with(self.class_names):
            raise CardError(f"class_names: {wrong}")
        if (count := len(self.class_names)) not in (0, self.classes):
            raise CardError(f"class_names must have one name for each class: it has {count} for {self.classes} classes")
        _check_prior(self.label_prior, self.classes)
        check_range(self.pixel_range)

    def __repr__(self) -> str:
        """Show the call that makes this card: the required fields, and those that are not the default."""
        shown = ", ".join(f"{entry.name}={getattr(self, entry.name)!r}" for entry in changed(self))
        return f"DataCard({shown})"

    def problem_of_samples(self, samples: "torch.Tensor", labels: "torch.Tensor", n: int) -> str:
        """See `Card`. samples: pictures [n, C, H, W]."""
        if tuple(samples.shape) != (n, *self.shape) or not samples.is_floating_point():
            return f"images are {samples.dtype} {list(samples.shape)} and not floating-point {[n, *self.shape]}"
        if not samples.isfinite().all():
            return "pixels are not all finite numbers"
        return problem_of_labels(labels, n, self.classes)

    def samples_in_words(self, classes: int) -> str:
        """See `Card.samples_in_words`."""
        return f"images of {'x'.join(map(str, self.shape))}, {classes} classes"

    @property
    def breadth(self) -> str:
        """See `Card.breadth`."""
        return f"{self.classes} classes"

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The label prior as one probability per class."""
        if self.label_prior == UNIFORM:
            return (1 / self.classes,) * self.classes
        return self.label_prior

    @property
    def reading(self) -> Reading:
        """How its records are read.

        Classes without names are called by their numbers. If names were numbered by which of them occur, one record in a
        class of its own would renumber all others. A clipped sum would then move by all of them.
        """
        return Reading(
            missing_unit=self.missing_unit,
            missing_label=self.missing_label,
            shape=self.shape,
            resize=self.resize,
            invert=self.invert,
            class_names=self.class_names or tuple(map(str, range(self.classes))),
            pixel_range=None if self.pixel_range == STORED else self.pixel_range,
            window=self.window,
        )

    @classmethod
    def _arguments(cls, facts: dict[str, Any]) -> dict[str, Any]:
        if "column" in facts:
            raise CardError(
                "this card describes a table, and pictures are to be read. `gossamer.draft_card(DATA)` drafts theirs."
            )
        check_keys(cls, facts, "the card")
        return facts


document(DataCard)


def check(records: Records, card: DataCard, *, where: str) -> None:
    """Refuse records that contradict their card. Call it before the records are isolated. where: their place.

    Raises:
        CardError: another shape, or labels outside the declared classes (named by index, not by value).
    """
    if records.shape != card.shape:
        declared, found = ("x".join(map(str, shape)) for shape in (card.shape, records.shape))
        raise CardError(
            f"{where}: the card declares images of shape {declared} (channels, height, width), and these are {found}: "
            "read them with the card's shape, or correct the card"
        )
    if outside := problems.records(positions(records.labels, lambda batch: (batch < 0) | (batch >= card.classes))):
        raise CardError(
            f"{where}: the card declares classes = {card.classes}, labels 0 to {card.classes - 1}. Another label was found for "
            f"{outside}: correct the label, or the card"
        )


def check_units(card: Card, units: object, *, where: str) -> None:
    """Refuse a card and a --units that contradict each other. Reads no record. where: the place of the data, for messages."""
    if units is None and card.unit != "record" and not card.rows_have_units:
        raise CardError(
            f"{where}: the card protects each {card.unit}, and "
            f"nothing says which records belong to one. Give `units`: {card.units_come}"
        )
    if units is not None and card.rows_have_units:
        raise CardError(f"{where}: the keys of linked tables say which rows belong together: leave `units` out.")
    if units is not None and card.unit == "record":
        raise CardError(
            f'{where}: there are units, and the card says unit = "record". Name the unit in the card, such as unit = "person".'
        )


def _check_prior(prior: object, classes: int) -> None:
    """Refuse anything but "uniform" or one finite probability per class with sum 1."""
    if prior == UNIFORM:
        return
    if not isinstance(prior, tuple) or not all(_is_within(share, 0, 1) for share in prior):
        raise CardError('label_prior must be "uniform" or a list of one probability per class')
    if len(prior) != classes:
        raise CardError(f"label_prior must have one probability per class: it has {len(prior)} for {classes} classes")
    if not math.isclose(sum(prior), 1, abs_tol=1e-6, rel_tol=0):
        raise CardError(f"label_prior must have sum 1, and has {sum(prior):.6g}: divide each entry by that sum")


def check_range(values: Any) -> None:
    """Refuse anything but "stored" or two finite numbers, the first the smaller. Raises CardError."""
    if values == STORED:
        return
    exact = isinstance(values, tuple) and len(values) == 2 and all(_is_within(end, -(2**53), 2**53) for end in values)
    if not exact or not values[0] < values[1]:
        raise CardError('pixel_range must be "stored", or black and white, the smaller first: for example [0, 65535]')


def _is_within(value: object, low: int, high: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def toml(value: object) -> str:
    """A value in TOML; printable text needs no more than the escapes it shares with JSON."""
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml(key)} = {toml(each)}" for key, each in value.items()) + " }"
    return value.isoformat() if isinstance(value, datetime.date) else json.dumps(value, ensure_ascii=False)


def plain(value: object) -> Any:
    """A value of a fact for JSON: lists in place of tuples, dates as text."""
    if isinstance(value, tuple):
        return [*map(plain, value)]
    return value.isoformat() if isinstance(value, datetime.date) else value


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, and no true or false."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_line(value: object) -> bool:
    """Whether a value is a line of text."""
    return isinstance(value, str) and value.isprintable()


def is_text(value: object) -> bool:
    """Whether a value is a line of text, not empty and without space around it."""
    return isinstance(value, str) and value.isprintable() and bool(value) and value == value.strip()


def rounded(count: int) -> int:
    """A count for a draft, to two significant digits, below 100 to tens: an exact count is no public fact."""
    digits = max(len(str(count)) - 2, 1)
    return max(round(count, -digits), 10)


def protected_part(card: CardType, share: float) -> CardType:
    """The card of what stays private if `share` of the data is made public.

    Its declared size is (1 - share) of what is declared, never what was counted. The true number on either side is
    random and secret.

    Raises:
        CardError: if the share is not between 0 and 1, or leaves no declared unit on one side.
    """
    stays = round((1 - share) * card.declared_size) if 0 < share < 1 else 0
    if not 0 < stays < card.declared_size:
        raise CardError(
            f"`public=SHARE` must lie between 0 and 1 and leave some units on both sides, not {share:g}: 0.02 makes 2 % public."
        )
    return replace(card, declared_size=stays)


def problem_of_labels(labels: "torch.Tensor", n: int, classes: int) -> str:
    """Why these are no n labels from 0 to `classes` - 1; empty: they are."""
    if tuple(labels.shape) != (n,) or labels.dtype != torch.int64:
        return f"labels are {labels.dtype} {list(labels.shape)} and not int64 [{n}]"
    if n and (int(labels.min()) < 0 or int(labels.max()) >= classes):
        return f"labels are not all from 0 to {classes - 1}"
    return ""


def draw_labels(n: int, card: DataCard, stream: "torch.Generator") -> "torch.Tensor":
    """Labels from the declared prior, never a measured one. int64 [n]."""
    if card.label_prior == "uniform":
        return torch.randint(card.classes, (n,), generator=stream)
    return torch.multinomial(torch.tensor(card.label_prior), n, replacement=True, generator=stream)
