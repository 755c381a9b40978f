"""Objects of Python programs: kinds K15, K16, K17, K19 and K20 of public bug reports."""

import logging
import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import torch

import gossamer
from gossamer.data.pixels.polarity import NEARLY_CONSTANT, nearly_constant
from gossamer.data.tables.read import read_table
from gossamer.errors import DataError, GossamerError

N = 240
DRAW = np.random.default_rng(20)
FRAME = pd.DataFrame({"age": DRAW.integers(20, 80, N), "smokes": DRAW.choice(["no", "yes"], N)})
CARD = gossamer.TableCard.loads("""
declared_size = 240
label = "smokes"
[[column]]
name = "age"
kind = "integer"
bounds = [20, 79]
[[column]]
name = "smokes"
kind = "category"
values = ["no", "yes"]
""")
FORMS = {
    "pandas": FRAME,
    "polars": polars.from_pandas(FRAME),
    "pyarrow": pa.Table.from_pandas(FRAME, preserve_index=False),
    "dict of columns": {"age": FRAME["age"].to_numpy(), "smokes": FRAME["smokes"].tolist()},
    "list of dicts": FRAME.to_dict("records"),
    "structured array": np.rec.fromarrays(
        [FRAME["age"].to_numpy(), FRAME["smokes"].to_numpy("U3")], names="age,smokes"
    ),
}


@pytest.fixture(params=[*FORMS, "csv", "parquet"])
def people(request, tmp_path):
    """One table in every form that a program may have."""
    if request.param == "csv":
        FRAME.to_csv(tmp_path / "t.csv", index=False)
        return str(tmp_path / "t.csv")
    if request.param == "parquet":
        FRAME.to_parquet(tmp_path / "t.parquet")
        return tmp_path / "t.parquet"
    return FORMS[request.param]


def test_a_table_is_drafted_and_read_in_every_form(people):
    """K15: a frame of polars and a list of dicts were taken for pictures."""
    draft = gossamer.draft_card(people)
    kinds = {entry["name"]: entry["kind"] for entry in draft.facts["column"]}
    assert kinds == {"age": "integer", "smokes": "category"} and draft.measured == ("age", "smokes")
    table = read_table(people, CARD)
    np.testing.assert_array_equal(table.codes[:, 1], FRAME["smokes"] == "yes")
    assert table.mark == read_table(FRAME, CARD).mark


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """What one form gives, to judge with the others."""
    out = tmp_path_factory.mktemp("learnt") / "RUN"
    return gossamer.fit("marginals", data=FORMS["list of dicts"], card=CARD, epsilon=100, delta=1e-4, out=out)


def test_every_call_takes_a_table_in_every_form(people, learnt, tmp_path):
    figures = gossamer.evaluate(learnt, train=people, test=FORMS["polars"][: N // 2], metrics="marginals").metrics
    assert figures == gossamer.evaluate(learnt, train=FRAME, test=FRAME[: N // 2], metrics="marginals").metrics
    gossamer.split(people, out=tmp_path / "parts", share=0.5, seed=1)
    train, test = (read_table(f"{tmp_path / 'parts'}:{side}", CARD) for side in ("train", "test"))
    assert len(train) + len(test) == N and min(len(train), len(test)) > N // 4
    whole = np.sort(np.concatenate([train.codes, test.codes]), axis=0)
    np.testing.assert_array_equal(whole, np.sort(read_table(FRAME, CARD).codes, axis=0))


def test_attacks_take_tables_in_memory(learnt):
    members, others = FORMS["list of dicts"][:120], FORMS["pyarrow"].slice(120)
    assert gossamer.attack(learnt, members=members, nonmembers=others, count=500).attacks


def test_two_columns_of_one_name_are_named(tmp_path):
    twice = pd.concat([FRAME, FRAME[["age"]]], axis=1)
    try:
        draft = gossamer.draft_card(twice)
    except GossamerError as error:
        assert "one length" not in str(error) and ("name" in str(error))
    else:
        assert [entry["name"] for entry in draft.facts["column"]] == ["smokes"]


def test_a_message_about_a_draft_has_no_measured_value():
    """K20: the text of the whole draft was the message, in the log of whoever ran it."""
    draft = gossamer.draft_card(FRAME)
    low, high = str(FRAME["age"].min()), str(FRAME["age"].max())
    for card in (draft, draft.text):
        with pytest.raises(GossamerError) as caught:
            gossamer.fit("marginals", data=FRAME, card=card, epsilon=1, delta=1e-5)
        text = str(caught.value) + repr(draft)
        assert low not in text and high not in text and "yes" not in text and len(text) < 600


PIXELS = DRAW.integers(0, 256, (60, 28, 28), np.uint8)
LABELS = np.arange(60) % 3
THREE = gossamer.DataCard(shape=(1, 28, 28), classes=3, declared_size=60)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.eye(3)[LABELS], LABELS),
        (np.eye(3, dtype=bool)[LABELS], LABELS),
        (LABELS == 2, LABELS == 2),
        (LABELS.astype(np.float32), LABELS),
    ],
    ids=["one-hot", "one-hot booleans", "booleans", "floats"],
)
def test_labels_mean_what_they_look_like(labels, classes):
    """K19: the message told of shapes."""
    np.testing.assert_array_equal(gossamer.read((PIXELS, labels)).labels, classes)


@pytest.mark.parametrize(
    "labels",
    [np.where(LABELS == 1, np.nan, LABELS), pd.Series(LABELS).astype("Int64").mask(LABELS == 1)],
    ids=["NaN", "NA"],
)
def test_missing_labels_are_called_missing(labels):
    """K19: what can be done about them is in the message."""
    with pytest.raises(DataError, match='missing_label = "drop"'):
        gossamer.read((PIXELS, labels))
    kept = gossamer.read((PIXELS, labels), gossamer.DataCard(
        shape=(1, 28, 28), classes=3, declared_size=60, missing_label="drop").reading)  # fmt: skip
    np.testing.assert_array_equal(kept.labels, LABELS[LABELS != 1])


class Jittered(torch.utils.data.Dataset):
    """A dataset with a transform that changes a share of its pictures each time they are read."""

    def __init__(self, share):
        self.share, self.draw = share, np.random.default_rng(1)

    def __len__(self):
        return 2_000

    def __getitem__(self, at):
        picture = PIXELS[at % 60]
        return (255 - picture if self.draw.random() < self.share else picture), int(LABELS[at % 60])


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_random_transform_is_noticed(share):
    """K16: three items were read twice."""
    with pytest.raises(DataError, match="another picture each time it is read"):
        gossamer.read(Jittered(share))


def test_a_dict_of_pictures_is_read_or_refused_in_words():
    """K15: `KeyError: 0`."""
    pictures = {"image": PIXELS, "label": LABELS}
    try:
        records = gossamer.read(pictures)
    except DataError as error:
        assert "(images, labels)" in str(error)
    else:
        np.testing.assert_array_equal(records.labels, LABELS)


def test_floats_that_were_resized_may_pass_one_by_rounding():
    """Row 74."""
    scaled = (PIXELS / 255 * 1.000002).astype(np.float32)
    np.testing.assert_allclose(gossamer.read((scaled, LABELS)).images.squeeze(), PIXELS, atol=1)


DIM = """
import numpy as np, gossamer
draw = np.random.default_rng(0)
labels = np.arange(400) % 2
images = draw.integers(0, 17, (400, 28, 28)).astype(np.uint8)
card = gossamer.DataCard(shape=(1, 28, 28), classes=2, declared_size=400)
gossamer.fit("moments", data=(images, labels), card=card, epsilon=10, delta=1e-4)
"""


def test_a_script_whose_output_is_piped_warns_of_dark_pictures():
    """K17: pixels are 0 to 16 of 255. Only a terminal showed the note."""
    done = subprocess.run([sys.executable, "-c", DIM], capture_output=True, text=True, check=False)
    assert "Warning" in done.stderr and "255" in done.stderr, done.stderr


@pytest.mark.parametrize("white", [1, 16])
def test_the_command_of_the_warning_makes_dark_pictures_bright(white):
    """Rows 67 and 68: arrays of uint8 are read as they are, whatever `pixel_range` the card declares."""
    images = (PIXELS % (white + 1)).astype(np.uint8)
    dark = gossamer.read((images, LABELS))
    assert nearly_constant(dark)
    (command,) = re.findall("`(.+)`", NEARLY_CONSTANT)
    found = {"images": images, "np": np, "W": white}
    exec(command, found)
    bright = gossamer.read((found["images"], LABELS))
    assert not nearly_constant(bright) and bright.images.max() == 255
    np.testing.assert_allclose(bright.images * (white / 255), dark.images, atol=0.04)


def test_a_warning_is_given_once_and_goes_where_warnings_go():
    dark = (PIXELS > 127).astype(np.uint8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gossamer.fit("moments", data=(dark, LABELS), card=THREE, epsilon=10, delta=1e-3)
    assert sum("255" in str(warning.message) for warning in caught) == 1
    assert logging.getLogger("gossamer").handlers == []
