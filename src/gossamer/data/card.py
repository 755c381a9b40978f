"""The data card: the public facts about a data set, declared by its owner and never measured.

A run may use these facts freely, because they are known without looking at the records. That is an assumption, so the
certificate lists them. A card is a short TOML file, which `draft` proposes and the data owner declares.

The file is long because what every card shares, the card of pictures and its draft must agree.
"""

import datetime
import json
import math
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, TypeVar, get_args

import numpy as np

from gossamer.data import problems
from gossamer.data.labels import positions, wrong_with
from gossamer.data.pixels.to_uint8 import Resize
from gossamer.data.source import Reading
from gossamer.data.units import Missing
from gossamer.errors import CardError, DataError, did_you_mean
from gossamer.files import write_private
from gossamer.lazy import Lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gossamer.data.records import Records
else:
    torch = Lazy("torch")

Kind: TypeAlias = Literal["pictures", "table"]
"""What a card describes, and what a method takes."""
UNIFORM: Literal["uniform"] = "uniform"
STORED: Literal["stored"] = "stored"
KEPT = (28, 512)
"""The shortest and the longest side of pictures whose size a draft keeps."""
MOST_CLASSES = 10_000
"""The nets have a part for each class."""

_MEANING = {
    "title": "what the data set is called in reports and on the certificate",
    "data_set": 'the name under which all runs on these records are counted together; "": the place they are read from',
    "shape": "channels, height and width of an image; the readers resize to it",
    "resize": 'pictures of other proportions are made to fit: "squash", "crop" to the middle, or "pad" with black bars',
    "invert": "true: dark and light are exchanged as the data are read, so that ink on white becomes white on black",
    "classes": "number of labels; they run from 0 to classes - 1",
    "class_names": "what the labels are called, label 0 first, or []: name no class that is there because of one person",
    "declared_size": "number of records, or of units where the unit is not the record; rates are computed from it",
    "label_prior": '"uniform", or the share of each class, known from elsewhere and not counted in these records',
    "unit": 'whose contribution is protected: "record", or "writer", "client" ... (then the data come with --units)',
    "missing_unit": 'a record without a unit: "refuse" it as a mistake, or "own": it is a unit of its own',
    "missing_label": 'a record without a label: "refuse" it as a mistake, or "drop": it is left out, and not declared',
    "window": "true: black and white of each DICOM file are those of its own display window, in place of pixel_range",
    "pixel_range": '"stored": pixels of 8 bits; or the values of black and white in deeper ones, such as [0, 4095] for 12 bits',
}
_CHOICES = {"resize": get_args(Resize), "missing_label": ("refuse", "drop")}
_MANY = 1_000
"""Number of labels above which `draft` does not take them for classes."""
_REQUIRED = ("shape", "classes", "declared_size")
_HEADER = """\
# A draft, measured from the data. Nothing here is public yet. Each line that you keep becomes a fact that you, the
# data owner, declare public. Write what is known without looking at the records: a rounded size, and classes that would
# be there without any one person. Label shares must be known from elsewhere; else leave them uniform.

"""


CardType = TypeVar("CardType", bound="Card")


class Card(ABC):
    """What the cards of pictures and of tables have in common: the facts that a guarantee needs, and a TOML file."""

    declared_size: int
    unit: str
    missing_unit: Missing
    title: str
    data_set: str
    kind: ClassVar[Kind]
    """What it describes."""
    units_come: ClassVar[str]
    """How the ids of units are given, for messages."""
    takes_keys: ClassVar[bool]
    """Whether `images_key` and `labels_key` tell what of a source is read."""
    has_public: ClassVar[bool]
    """Whether a part of the records can be public."""

    @abstractmethod
    def samples_in_words(self, classes: int) -> str:
        """What samples are, of so many classes."""

    @classmethod
    @abstractmethod
    def from_dict(cls, facts: dict[str, Any], *, where: str = "the card") -> Self:
        """A card from plain values, as `to_dict` gives them. Raises CardError."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""

    @abstractmethod
    def dumps(self) -> str:
        """The card as TOML."""

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
        write_private(Path(path), self.dumps())

    def check_common(self, meaning: dict[str, str]) -> None:
        """Refuse a common fact that makes no sense. meaning: of each fact, for messages. Raises CardError."""
        if self.missing_unit not in get_args(Missing):
            raise CardError(f'missing_unit must be one of "refuse", "own": {meaning["missing_unit"]}')
        if not is_count(self.declared_size):
            raise CardError("declared_size must be a whole number of at least 1: how many units there are, in public")
        for key in ("unit", "title", "data_set"):
            text = getattr(self, key)
            if not isinstance(text, str) or not text.isprintable() or (key == "unit" and not text.strip()):
                raise CardError(f"{key} must be a line of text in quotes: {meaning[key]}")
        if self.missing_unit == "own" and self.unit == "record":
            raise CardError('missing_unit = "own" has no meaning where unit = "record": leave it out, or name the unit')


def parsed(text: str, *, where: str) -> dict[str, Any]:
    """The facts in the TOML text of a card. Raises CardError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:  # whose message may quote a key
        place = re.search(r"at (line \d+|end of document)", str(error))
        raise CardError(
            f"{where}: this is not TOML{f', {place[0]}' if place else ''}; `gossamer card DATA` drafts a valid card"
        ) from None


def text_of_card(path: str | Path) -> str:
    """The text of a card file. Raises CardError, which quotes no card."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        if any(sign in str(path) for sign in "\n="):
            raise CardError(
                "card: this is the text of a card, not its path. Save the text to a file, and pass the path of the file."
            ) from None
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise CardError(f"{path}: the card cannot be read ({why}); `gossamer card DATA` drafts one") from None


@dataclass(frozen=True, kw_only=True, repr=False)
class DataCard(Card):
    """The public facts about a data set of pictures.

    Args:
        shape: channels, height and width of an image, after the readers have resized it.
        classes: number of labels.
        declared_size: number of units (records, unless `unit` says otherwise). Sampling rates come from it.
        label_prior: "uniform", or one probability for each class, with sum 1.
        unit: whose contribution is protected.
        missing_unit: what a record without a unit is: a mistake, or a unit of its own.
        title: name of the data set, for people.
        data_set: name in the budget log: runs under one name are added up. Empty: the place of the records.
        class_names: names of the labels, label 0 first. Records are matched by name wherever data has names. Empty: labels are
            numbers, and those of class folders follow from the sorted names.
        resize: what happens to pictures of other proportions.
        invert: whether the readers exchange dark and light.
        missing_label: what a record without a label is: a mistake, or left out.
        pixel_range: the values of black and white where pixels are not of 8 bits. "stored": no such pixels.
        window: whether each DICOM file is scaled by its own display window.

    Raises:
        CardError: a field that makes no sense; names the field and the remedy.
    """

    shape: tuple[int, ...]
    classes: int
    declared_size: int
    label_prior: Literal["uniform"] | tuple[float, ...] = UNIFORM
    unit: str = "record"
    missing_unit: Missing = "refuse"
    title: str = ""
    data_set: str = ""
    class_names: tuple[str, ...] = ()
    resize: Resize = "squash"
    invert: bool = False
    missing_label: Literal["refuse", "drop"] = "refuse"
    pixel_range: Literal["stored"] | tuple[float, ...] = STORED
    window: bool = False
    kind: ClassVar[Kind] = "pictures"
    takes_keys: ClassVar[bool] = True
    has_public: ClassVar[bool] = True
    units_come: ClassVar[str] = (
        "a FILE.csv (columns name,unit), FILE.npz:KEY, `folder`, '(PATTERN)' or dicom:PatientID."
    )

    def __post_init__(self) -> None:
        for key in ("shape", "class_names", "label_prior", "pixel_range"):
            if isinstance(value := getattr(self, key), list):
                object.__setattr__(self, key, tuple(value))
        if not isinstance(self.shape, tuple) or not all(map(is_count, self.shape)) or len(self.shape) != 3:
            raise CardError("shape must be three whole numbers, channels, height and width: for example [1, 28, 28]")
        if self.shape[0] not in (1, 3):
            raise CardError(f"shape must begin with 1 (grey) or 3 (colour) channels, not {self.shape[0]}")
        for key, choices in _CHOICES.items():
            if getattr(self, key) not in choices:
                raise CardError(f"{key} must be one of {', '.join(map(toml, choices))}: {_MEANING[key]}")
        if not is_count(self.classes) or self.classes > MOST_CLASSES:
            raise CardError(f"classes must be a whole number from 1 to {MOST_CLASSES:,}: the number of labels")
        _check_names(self.class_names, self.classes)
        for key in ("invert", "window"):
            if not isinstance(getattr(self, key), bool):
                raise CardError(f"{key} must be true or false: {_MEANING[key]}")
        _check_prior(self.label_prior, self.classes)
        self.check_common(_MEANING)
        check_range(self.pixel_range)

    def __repr__(self) -> str:
        """Show the call that makes this card: the required fields, and those that are not the default."""
        shown = [
            entry for entry in fields(self) if entry.name in _REQUIRED or getattr(self, entry.name) != entry.default
        ]
        return f"DataCard({', '.join(f'{entry.name}={getattr(self, entry.name)!r}' for entry in shown)})"

    def samples_in_words(self, classes: int) -> str:
        """See `Card.samples_in_words`."""
        return f"images of {'x'.join(map(str, self.shape))}, {classes} classes"

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
    def from_dict(cls, facts: dict[str, Any], *, where: str = "the card") -> "DataCard":
        """A card from plain values, as `to_dict` gives them. Raises CardError."""
        _check_keys(facts, where)
        try:
            return cls(**facts)
        except CardError as error:
            raise CardError(f"{where}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in vars(self).items()}

    def dumps(self) -> str:
        """The card as TOML, each line with a comment that says what is declared."""
        return "\n".join(
            f"# declared public: {meaning}\n{key} = {toml(getattr(self, key))}\n" for key, meaning in _MEANING.items()
        )


def draft(
    records: "Records",
    *,
    unit: str = "record",
    pixel_range: tuple[float, float] | None = None,
    missing_label: Literal["refuse", "drop"] = "refuse",
    shape: tuple[int, ...] | None = None,
    window: bool = False,
) -> str:
    """A proposal for a card, as TOML text: measured, so nothing in it is public until the data owner declares it.

    The size is rounded to two digits, because an exact count is no public fact. Pictures with a side outside `KEPT` become
    32x32, unless a shape is given.

    Raises:
        DataError: if the labels cannot number classes.
        CardError: if the classes are called what no class can be called.
    """
    channels, *size = records.shape
    card = DataCard(
        shape=shape or (channels, *drafted_size(size)),
        classes=len(records.class_names) or _drafted_classes(records.labels),
        class_names=records.class_names,
        declared_size=rounded(records.population),
        unit=unit,
        missing_label=missing_label,
        window=window,
        pixel_range=tuple(int(end) if float(end).is_integer() else end for end in pixel_range or ()) or STORED,
    )
    return _HEADER + card.dumps()


def drafted_size(size: Sequence[int]) -> tuple[int, int]:
    """Height and width of a draft for pictures of this height and width."""
    shortest, longest = KEPT
    height, width = size
    return (height, width) if min(size) >= shortest and max(size) <= longest else (32, 32)


def _drafted_classes(labels: np.ndarray) -> int:
    """One more than the largest label, where labels look like the numbers of classes."""
    used, numbers = len(np.unique(labels)), int(labels.max()) + 1
    if 2 * used < numbers or numbers > _MANY:
        raise DataError(
            "these labels do not look like the numbers of classes: there are very many, or most numbers below the largest "
            "never occur. Number the classes from 0 (`names, labels = np.unique(labels, return_inverse=True)`), or name "
            "the right array with --labels-key."
        )
    return numbers


def check(records: "Records", card: DataCard, *, where: str) -> None:
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
    if units is None and card.unit != "record":
        raise CardError(
            f"{where}: the card protects each {card.unit}, and "
            f"nothing says which records belong to one. Give --units: {card.units_come}"
        )
    if units is not None and card.unit == "record":
        raise CardError(
            f'{where}: there are units, and the card says unit = "record". Name the unit in the card, such as unit = "person".'
        )


def _check_keys(facts: dict[str, Any], where: str) -> None:
    """Refuse unknown keys, with the nearest name, and missing ones, with what they mean."""
    if "column" in facts:
        raise CardError(
            f"{where}: this card describes a table, and pictures are to be read. `gossamer card DATA` drafts theirs."
        )
    names = [field.name for field in fields(DataCard)]
    for key in facts:
        if key not in names:
            raise CardError(f"{where}: a card has no key {key!r}.{did_you_mean(key, names)} Known: {', '.join(names)}.")
    for key in _REQUIRED:
        if key not in facts:
            raise CardError(f"{where}: the card lacks {key} ({_MEANING[key]}); add a line {key} = ...")


def _check_names(names: object, count: int) -> None:
    """Refuse anything but no names, or one for each class that can be the name of a folder."""
    if not isinstance(names, tuple):
        raise CardError("class_names must be a list of names in quotes, one for each class, or [] for none")
    if wrong := wrong_with(names):
        raise CardError(f"class_names: {wrong}")
    if names and len(names) != count:
        raise CardError(f"class_names must have one name for each class: it has {len(names)} for {count} classes")


def _check_prior(prior: object, classes: int) -> None:
    """Refuse anything but "uniform" or one finite probability per class with sum 1."""
    if prior == UNIFORM:
        return
    if not isinstance(prior, tuple) or not all(_is_share(share) for share in prior):
        raise CardError('label_prior must be "uniform" or a list of one probability per class')
    if len(prior) != classes:
        raise CardError(f"label_prior must have one probability per class: it has {len(prior)} for {classes} classes")
    if not math.isclose(sum(prior), 1, abs_tol=1e-6, rel_tol=0):
        raise CardError(f"label_prior must have sum 1, and has {sum(prior):.6g}: divide each entry by that sum")


def check_range(values: object) -> None:
    """Refuse anything but "stored" or two finite numbers, the first the smaller. Raises CardError."""
    if values == STORED:
        return
    ends = values if isinstance(values, tuple) and len(values) == 2 else ()
    numbers = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool) and abs(end) <= 2**53]
    if len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise CardError('pixel_range must be "stored", or black and white, the smaller first: for example [0, 65535]')


def is_count(value: object) -> bool:
    """Whether a value is a whole number of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def toml(value: object) -> str:
    """A value in TOML; printable text needs no more than the escapes it shares with JSON."""
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml(key)} = {toml(each)}" for key, each in value.items()) + " }"
    return value.isoformat() if isinstance(value, datetime.date) else json.dumps(value, ensure_ascii=False)


def rounded(count: int) -> int:
    """To two significant digits, below 100 to tens: an exact count is no public fact."""
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
            f"--public-share must lie between 0 and 1 and leave some units on both sides, not {share:g}: 0.02 makes 2 % public."
        )
    return replace(card, declared_size=stays)  # type: ignore[type-var]  # each card is a dataclass


def draw_labels(n: int, card: DataCard, stream: "torch.Generator") -> "Tensor":
    """Labels from the declared prior, never a measured one. int64 [n]."""
    if card.label_prior == "uniform":
        return torch.randint(card.classes, (n,), generator=stream)
    return torch.multinomial(torch.tensor(card.label_prior), n, replacement=True, generator=stream)
