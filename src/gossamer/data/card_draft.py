"""A draft of a data card from the records: for the command line and for Python."""

import sys
from collections import Counter
from typing import Any

from gossamer.data.card import STORED, DataCard, check_range, draft
from gossamer.data.card_hints import drafted_size, remarks
from gossamer.data.readers.in_memory import Data
from gossamer.data.readers.read import LEFT_OUT, read, sizes


def draft_text(
    data: Data,
    *,
    images_key: str | None = None,
    labels_key: str | None = None,
    units: Data | None = None,
    pixel_range: tuple[float, float] | None = None,
) -> tuple[str, list[str]]:
    """Return a card as TOML text, and what the data owner must decide. Arguments and errors: as of `readers.read.read`."""
    check_range(pixel_range or STORED)
    keys: dict[str, Any] = {"images_key": images_key, "labels_key": labels_key, "pixel_range": pixel_range}
    looked = sizes(data, split="train", **keys)
    shape = (looked.channels, *drafted_size(looked.sizes)) if looked.sizes else None
    records = read(data, split="train", units=units, missing_unit="own", missing_label="drop", shape=shape, **keys)
    has_units = records.units is not None
    text = draft(
        records, unit="person" if has_units else "record", pixel_range=pixel_range,
        missing_label="drop" if LEFT_OUT in records.notes else "refuse",
    )  # fmt: skip
    return text, [*records.notes, *remarks(records, looked.sizes or Counter([records.shape[1:]]))]


def draft_card(data: Data, **options: Any) -> DataCard:
    """Return a draft, and print what must be declared. See `DataCard.draft`."""
    text, hints = draft_text(data, **options)
    card = DataCard.loads(text)
    for hint in hints:
        print(f"Note: {hint}", file=sys.stderr)
    print(
        f"A draft, measured on the records. Declare what may be public, such as a rounded size known from elsewhere:\n"
        f"card = gossamer.{card!r}",
        file=sys.stderr,
    )
    return card
