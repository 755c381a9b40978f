"""Gossamer in the shape of a scikit-learn estimator: `fit(X)`, `sample(n)`, `get_params` and `clone`.

    model = PrivateSynthesizer(card=card, epsilon=1.0, delta=1e-5).fit(frame)
    rows = model.sample(1_000)

A clone of an estimator is fitted anew, and each `fit` uses epsilon again. So keep it out of grid searches and
cross-validation: the budget log counts each of their runs.
"""

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import gossamer


class PrivateSynthesizer(BaseEstimator):
    """A generator of records, as an estimator.

    Args:
        method: of Gossamer.
        card: the public facts.
        epsilon: of one `fit`.
        delta: of one `fit`.
        settings: others of the method, and of `gossamer.fit`.
    """

    def __init__(
        self,
        *,
        card: Any = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        method: str = "marginals",
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.card = card
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.settings = settings

    def fit(self, X: Any, y: Any = None) -> "PrivateSynthesizer":
        """Train on records: what `gossamer.fit` takes as `data`. y: labels of pictures; a table has its label as a column."""
        given: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, **(self.settings or {})}
        self.synthesizer_ = gossamer.fit(self.method, data=X if y is None else (X, y), card=self.card, **given)
        return self

    def sample(self, n_samples: int = 1, *, seed: int | None = None) -> Any:
        """Return synthetic records: a DataFrame of a table, else `gossamer.Samples`."""
        check_is_fitted(self, "synthesizer_")
        samples = self.synthesizer_.sample(n_samples, seed=seed)
        return samples.to_pandas() if isinstance(samples, gossamer.TableSamples) else samples
