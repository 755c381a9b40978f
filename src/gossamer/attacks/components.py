"""Principal components, in which distances and densities say more than in pixels."""

from collections.abc import Mapping

import numpy as np

from gossamer.attacks.arrays import Array, Features, features_of
from gossamer.errors import DataError
from gossamer.lazy import sklearn


def projected(sets: Mapping[str, Array], fit_on: str, components: int, *, whiten: bool = False) -> list[Features]:
    """`features_of` the sets by the first principal components of one of them: float32 [N, components] each.

    Args:
        sets: by name.
        fit_on: the name of the set that has the components.
        components: how many.
        whiten: scale each component to variance 1.

    Raises:
        DataError: as `features_of`, or if the records do not vary in so many directions.
    """
    rows = dict(zip(sets, features_of(**sets), strict=True))
    basis, fitted = rows[fit_on], None
    if min(basis.shape) >= components and np.ptp(basis, axis=0).any():
        fitted = sklearn.decomposition.PCA(components, svd_solver="full", whiten=whiten).fit(basis)
    if fitted is None or fitted.explained_variance_[-1] <= 1e-10 * fitted.explained_variance_[0]:
        raise DataError(
            f"{fit_on}: {len(basis)} records of {basis.shape[1]} values do not vary in {components} directions; "
            "give more records, or lower `components`."
        )
    return [fitted.transform(each) for each in rows.values()]
