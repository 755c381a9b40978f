"""Drawing programs: what is random, how far variations go, and where parameters stay."""

import math

import numpy as np
import pytest
import torch

from gossamer.data.synthetic.drawing import DrawingProgram, Patches
from gossamer.data.synthetic.glyphs import Glyphs, draw


@pytest.fixture(params=["patches", "digits", "letters"])
def program(request: pytest.FixtureRequest) -> DrawingProgram:
    """Each program; made when a test runs, since the shapes of characters take a second."""
    return Patches() if request.param == "patches" else Glyphs(request.param)


def normals(n: int, program: DrawingProgram, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, program.size, generator=torch.Generator().manual_seed(seed))


def test_random_parameters_follow_their_ranges(program: DrawingProgram) -> None:
    """4,000 rows: means of unclamped parameters within five standard errors (5 / sqrt(4,000) = 0.08 spreads)."""
    parameters = program.random(normals(4_000, program))
    choices, rest = parameters[:, : program.choices], parameters[:, program.choices :]
    assert ((choices >= 0) & (choices < 1)).all()
    if program.choices:
        torch.testing.assert_close(choices.mean(0), torch.full((program.choices,), 0.5), atol=0.025, rtol=0)
    column = 0
    for each in program.ranges:
        for _ in range(each.count):
            values = rest[:, column]
            assert values.min() >= each.low and values.max() <= each.high
            if min(each.mean - each.low, each.high - each.mean) > 3 * each.spread:
                assert abs(float(values.mean()) - each.mean) <= 0.08 * each.spread
                assert float(values.std()) == pytest.approx(each.spread, rel=0.06, abs=1e-6)
            column += 1
    assert column == rest.shape[1]


def test_variations_go_as_far_as_the_degree(program: DrawingProgram) -> None:
    """Of a parameter in the middle of its range: degree x spread. A choice is made anew with probability degree, evenly."""
    n, degree = 4_000, 0.2
    middle = program.random(torch.zeros(1, program.size)).expand(n, -1)
    moved = program.vary(middle, degree, normals(n, program)) - middle
    column = program.choices
    for each in program.ranges:
        inside = min(each.mean - each.low, each.high - each.mean) > 3 * degree * each.spread
        for _ in range(each.count):
            if inside and each.spread:
                assert float(moved[:, column].std()) == pytest.approx(degree * each.spread, rel=0.07)
            column += 1
    for choice in range(program.choices):
        new = moved[:, choice] != 0
        assert float(new.float().mean()) == pytest.approx(degree, abs=5 * math.sqrt(degree * (1 - degree) / n))
        chosen = (moved + middle)[new, choice]
        assert chosen.min() >= 0 and chosen.max() < 1
        assert float(chosen.mean()) == pytest.approx(0.5, abs=5 / math.sqrt(12 * degree * n))


def test_degree_zero_changes_nothing_and_variations_stay_inside(program: DrawingProgram) -> None:
    parameters = program.random(normals(500, program))
    assert torch.equal(program.vary(parameters, 0.0, normals(500, program, 1)), parameters)
    far = program.vary(parameters, 1.0, 100 * normals(500, program, 2))[:, program.choices :]
    ends = [(each.low, each.high) for each in program.ranges for _ in range(each.count)]
    low, high = torch.tensor(ends).T
    assert ((far >= low) & (far <= high)).all()


def test_a_picture_is_a_matter_of_its_parameters(program: DrawingProgram) -> None:
    parameters, labels = program.random(normals(9, program)), torch.arange(9)
    pictures = program.draw(parameters, labels, 28)
    assert pictures.shape == (9, 1, 28, 28) and pictures.dtype == torch.uint8
    for i in range(9):
        alone = program.draw(parameters[i : i + 1], labels[i : i + 1], 28)
        assert (alone[0].int() - pictures[i].int()).abs().max() <= 1
    assert len(np.unique(pictures.flatten(1), axis=0)) == 9


def test_near_parameters_draw_near_pictures() -> None:
    program = Glyphs("digits")
    parameters, labels = program.random(normals(100, program)), torch.arange(100) % 10
    pictures = program.draw(parameters, labels, 28).float()
    distances = [
        float((program.draw(program.vary(parameters, degree, normals(100, program, 1)), labels, 28) - pictures).norm())
        for degree in (0.05, 0.2, 1.0)
    ]
    assert 0 < distances[0] < 0.7 * distances[1] < 0.7 * distances[2]


def test_draw_is_the_program_at_random_parameters() -> None:
    glyphs = draw(50, seed=3)
    program, rng = Glyphs("digits"), torch.Generator().manual_seed(3)
    order = torch.randperm(50, generator=rng)
    labels = (torch.arange(50) % 10)[order]
    pictures = program.draw(program.random(torch.randn(50, program.size, generator=rng)), labels, 28)
    assert np.array_equal(glyphs.images, pictures.numpy())


def test_a_patch_by_hand() -> None:
    """The upper left quarter is bright, the rest dark: in the middle of each quarter, to one step."""
    parameters = torch.tensor([[0.25, 0.25, 0.25, 0.25, 0.01, 0.8, 0.1]])
    (picture,) = Patches().draw(parameters, torch.zeros(1, dtype=torch.int64), 20)[0]
    assert abs(int(picture[4, 4]) - 0.8 * 255) <= 1
    for row, column in ((4, 15), (15, 4), (15, 15)):
        assert abs(int(picture[row, column]) - 0.1 * 255) <= 1
