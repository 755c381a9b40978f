"""Principal components, in which distances and densities say more than in pixels."""

import numpy as np
from sklearn.decomposition import PCA

from gossamer.attacks.arrays import Features
from gossamer.errors import DataError


def principal_components(name: str, rows: Features, components: int, *, whiten: bool = False) -> PCA:
    """The first principal components of some rows, [N, D].

    Args:
        name: of the argument, for messages.
        rows: [N, D].
        components: how many.
        whiten: scale each component to variance 1.

    Raises:
        DataError: if the rows do not vary in so many directions.
    """
    fitted = None
    if min(rows.shape) >= components and np.ptp(rows, axis=0).any():
        fitted = PCA(components, svd_solver="full", whiten=whiten).fit(rows)
    if fitted is None or fitted.explained_variance_[-1] <= 1e-10 * fitted.explained_variance_[0]:
        raise DataError(
            f"{name}: {len(rows)} records of {rows.shape[1]} values do not vary in {components} directions; "
            "give more records, or lower `components`."
        )
    return fitted
