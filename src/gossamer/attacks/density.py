"""DOMIAS: where the generator puts more density than the population does, it has seen records.

Van Breugel, Sun, Qian, van der Schaar 2023 ("Membership inference attacks against synthetic data through overfitting
detection"). The attacker needs reference records of the population, which single out local overfitting from plain density.
"""

from gossamer.attacks.arrays import Array, Features
from gossamer.attacks.components import projected
from gossamer.attacks.scores import Attack, area
from gossamer.lazy import sklearn


def domias(synthetic: Array, members: Array, nonmembers: Array, reference: Array, *, components: int = 10) -> Attack:
    """Score each record by log p_G(x) - log p_R(x), and judge by the area under the curve.

    Both densities are Gaussian kernel estimates on the first principal components of the reference, scaled to variance
    1. The bandwidth is Scott's for each number of records. Interval over the records, with the model, its samples and
    the reference as they are; see `roc.roc`.

    Args:
        synthetic: the samples, uint8 [S, C, H, W] or features [S, D].
        members: [M, ...].
        nonmembers: [N, ...].
        reference: [R, ...], real records that are neither members nor non-members.
        components: number of principal components; kernel estimates see little in more than about ten.

    Raises:
        DataError: if shapes differ, a value is not finite, or the reference has too few records.
    """
    sets = {"synthetic": synthetic, "members": members, "nonmembers": nonmembers, "reference": reference}
    samples, inside, outside, others = projected(sets, "reference", components, whiten=True)
    p_G, p_R = _density(samples), _density(others)
    member_scores, nonmember_scores = (p_G.score_samples(rows) - p_R.score_samples(rows) for rows in (inside, outside))
    return area(
        "DOMIAS",
        member_scores,
        nonmember_scores,
        needs="samples, the records in question, and reference records of the population",
        about="The attacker accuses records around which samples are denser than other real records.",
        note=f"{len(samples):,} synthetic and {len(others):,} reference records, {components} principal components",
    )


def _density(rows: Features) -> "sklearn.neighbors.KernelDensity":
    count, width = rows.shape
    return sklearn.neighbors.KernelDensity(bandwidth=count ** (-1 / (width + 4))).fit(
        rows
    )  # Scott 1992, for variance 1
