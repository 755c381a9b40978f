"""The privacy losses of Poisson-sampled Gaussians against dp_accounting's own, bit for bit."""

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as loss
from dp_accounting.pld.pld_pmf import PLDPmf

from gossamer.privacy.accounting import poisson_draw


def same(found: PLDPmf, expected: PLDPmf) -> bool:
    found, expected = found.to_dense_pmf(), expected.to_dense_pmf()
    return (
        found._lower_loss == expected._lower_loss
        and found._infinity_mass == expected._infinity_mass
        and np.array_equal(found._probs, expected._probs)
    )


@pytest.mark.parametrize("noise", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("rate", [1.0, 0.99, 0.5, 0.01, 1e-4])
@pytest.mark.parametrize("grid", [1e-3, 0.02])
def test_it_is_dp_accountings_own_distribution(rate: float, noise: float, grid: float) -> None:
    expected = loss.from_gaussian_mechanism(noise, value_discretization_interval=grid, sampling_prob=rate)
    found = poisson_draw.distribution(rate, noise, grid)
    assert same(found._pmf_remove, expected._pmf_remove)
    assert same(found._pmf_add, expected._pmf_add)
    assert found._symmetric == expected._symmetric == (rate == 1)


def test_a_loss_at_the_end_of_the_curve() -> None:
    """The grid meets log(1 - rate), beyond which no outcome has a loss: dp_accounting takes the two for equal."""
    grid = -np.log1p(-0.5) / 64
    expected = loss.from_gaussian_mechanism(1.0, value_discretization_interval=grid, sampling_prob=0.5)
    found = poisson_draw.distribution(0.5, 1.0, grid)
    assert same(found._pmf_remove, expected._pmf_remove)
    assert same(found._pmf_add, expected._pmf_add)
