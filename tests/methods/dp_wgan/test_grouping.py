"""Algorithm 2 against brute force, and its two ends."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from gossamer.methods.dp_wgan.grouping import cluster, first_groups

NORMS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=7, unique=True)


def brute_force(norms: list[float], k: int) -> list[tuple[list[int], float]]:
    """Look at every pair of groups, as the algorithm is written."""
    groups = [([i], norm) for i, norm in enumerate(norms)]
    while len(groups) > k:
        ratios = {
            (i, j): max(groups[i][1], groups[j][1]) / min(groups[i][1], groups[j][1])
            for i, j in itertools.combinations(range(len(groups)), 2)
        }
        i, j = min(ratios, key=lambda pair: ratios[pair])
        merged = (groups[i][0] + groups[j][0], (groups[i][1] ** 2 + groups[j][1] ** 2) ** 0.5)
        groups = [group for n, group in enumerate(groups) if n not in (i, j)] + [merged]
    return groups


@given(NORMS, st.integers(1, 7))
def test_cluster_is_brute_force(norms: list[float], k: int) -> None:
    k = min(k, len(norms))
    found = cluster(norms, k)
    assert found.groups is not None
    members = {
        frozenset(i for i, group in enumerate(found.groups) if group == j): norm for j, norm in enumerate(found.norms)
    }
    expected = {frozenset(tensors): norm for tensors, norm in brute_force(norms, k)}
    assert set(members) == set(expected)
    for tensors, norm in members.items():
        assert norm == pytest.approx(expected[tensors], rel=1e-12)


def test_one_group_is_global_and_as_many_as_tensors_is_per_tensor() -> None:
    norms = [0.3, 4.0, 0.1, 2.0]
    whole = cluster(norms, 1)
    assert whole.groups == (0, 0, 0, 0)
    assert whole.norms == pytest.approx((math.hypot(*norms),))
    single = cluster(norms, 4)
    assert single.groups == (0, 1, 2, 3)
    assert single.norms == tuple(norms)


def test_weight_bias_separation() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3), nn.Linear(4, 1, bias=False))
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias", "3.weight"]
    assert first_groups("weight-bias", net) == (0, 3, 1, 3, 2)
    assert first_groups("none", net) == (0,) * 5
    assert first_groups("cluster", net) == (0, 1, 2, 3, 4)


def test_all_helpers_run_over_the_parameters_in_order() -> None:
    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    assert len(first_groups("weight-bias", net)) == len(list(net.parameters())) == 2
