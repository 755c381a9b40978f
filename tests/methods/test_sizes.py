"""Which sizes of pictures each method takes; `docs/data.md` has the table."""

import re
from pathlib import Path

import pytest
from test_conformance import SMALL

from gossamer.data.card import DataCard
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from kinds import OF_PICTURES

SIDES = (28, 32, 48, 64)
TAKES = {
    "dpgan": (28, 32),
    "dp-wgan": SIDES,
    "gs-wgan": (28, 32),
    "privae": SIDES,
    "privgan": SIDES,
    "dp-diffusion": SIDES,
    "dp-mepf": (28, 32),
    "moments": SIDES,
    "feature-moments": SIDES,
    "evolve": SIDES,
    "teacher": SIDES,
}
GREY_ONLY = ("evolve",)
"""The drawings are of one channel."""
DENSE = {"privae": {"network": "dense"}}
"""Its convolutions are for 28 and 32."""


def makes(name: str, shape: tuple[int, int, int]) -> bool:
    """Whether a method with its usual networks plans and makes a generator for a shape. Reads no record."""
    job = Job.of(
        METHODS[name], {**SMALL[name], **DENSE.get(name, {})}, DataCard(shape=shape, classes=2, declared_size=200)
    )
    try:
        assert job.plan is not None
        job.generator()
    except RequestError as refused:
        assert re.search(r"28x28|one channel", str(refused)), refused
        return False
    return True


@pytest.mark.parametrize("name", OF_PICTURES)
def test_sizes_that_a_method_takes(name):
    assert tuple(side for side in SIDES if makes(name, (1, side, side))) == TAKES[name]
    colour = () if name in GREY_ONLY else TAKES[name]
    assert tuple(side for side in SIDES if makes(name, (3, side, side))) == colour


def test_the_page_says_the_same():
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    table = page.partition("## Which sizes can a method make?")[2].partition("\n#")[0]
    found = re.findall(r"^\| (`[^|]+`) \| ([\d, ]+\d)", table, re.MULTILINE)
    rows = {name: sides for names, sides in found for name in re.findall(r"`([\w-]+)`", names)}
    assert rows == {name: ", ".join(map(str, sides)) for name, sides in TAKES.items()}
