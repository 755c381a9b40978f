"""The page shows the released tree of cliques, and the association of columns in it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gossamer.kinds.cliques import cramers_v, described, path
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.marginals.tree import JunctionTree

NAMES = ("a", "b", "c", "d", "e")


def test_a_path_goes_on_where_most_cliques_are() -> None:
    tree = JunctionTree((2,) * 5, ((0, 1), (1, 2), (0, 3), (3, 4)), (-1, 0, 0, 2))
    aside = {"new": ["c"], "given": ["b"], "alone": False, "branches": []}
    assert path(tree, NAMES, set()) == [
        {"new": ["a", "b"], "given": [], "alone": False, "branches": [[aside]]},
        {"new": ["d"], "given": ["a"], "alone": False, "branches": []},
        {"new": ["e"], "given": ["d"], "alone": False, "branches": []},
    ]
    assert path(tree, NAMES, {1})[0]["branches"][0][0]["given"] == []


def test_a_long_chain_has_no_branches() -> None:
    """200 columns, deeper than a recursion by clique would like."""
    count = 200
    chain = tuple((at, at + 1) for at in range(count - 1))
    steps = path(JunctionTree((2,) * count, chain, tuple(range(-1, count - 2))), tuple(map(str, range(count))), set())
    assert [step["new"] for step in steps] == [["0", "1"], *([str(at)] for at in range(2, count))]
    assert not any(step["branches"] for step in steps)


def test_cramers_v() -> None:
    """Of tables whose value is known: 0 for a product, 1 for the diagonal, and |ad - bc| / sqrt of the sums for 2 x 2."""
    shares = torch.tensor([0.2, 0.3, 0.5]).double()
    assert cramers_v(shares[:, None] * shares) == pytest.approx(0, abs=1e-9)
    assert cramers_v(torch.diag(shares)) == pytest.approx(1)
    assert cramers_v(torch.tensor([[40.0, 10.0], [20.0, 30.0]])) == pytest.approx(1000 / (50 * 50 * 60 * 40) ** 0.5)
    assert cramers_v(torch.ones(1, 3)) == 0


def test_what_the_page_shows_of_a_model() -> None:
    """`b` follows from `a`, `c` is close to `a`, `d` is independent of all, and the label `e` is in every clique."""
    net = MarkovField((2,) * 5, 4)
    tree = JunctionTree((2,) * 5, ((0, 1, 4), (0, 2, 4), (3, 4)), (-1, 0, 0))
    half = torch.full((2,), 0.5).double()
    equal, close = torch.eye(2).double() / 2, torch.tensor([[0.45, 0.05], [0.05, 0.45]]).double()
    net.take(tree, [equal[:, :, None] * half, close[:, :, None] * half, half[:, None] * half])
    card = SimpleNamespace(names=NAMES)
    synthesizer: Any = SimpleNamespace(net=net, card=card)
    model: Any = described(synthesizer)
    assert model["common"] == ["e"] and model["names"] == NAMES
    assert [(row, column, round(value, 6)) for row, column, value in model["pairs"]] == [
        (1, 0, 1),
        (2, 0, 0.8),
        (2, 1, 0.8),
    ]
    assert model["strongest"] == ["a and b 1.00", "a and c 0.80", "b and c 0.80"]
    assert [step["new"] for step in model["path"]] == [["a", "b", "e"], ["c"]]
    assert model["path"][0]["branches"] == [[{"new": ["d"], "given": [], "alone": False, "branches": []}]]
    other: Any = SimpleNamespace(net=torch.nn.Identity(), card=card)
    assert described(other) is None
