"""AIM of opendp 0.16, in an environment of its own: Python 3.12, `pip install "opendp[mbi]==0.16.0" pandas`."""

import numpy as np
import opendp.prelude as dp
import polars as pl
from common import Task, run

dp.enable_features("contrib")


def rho_of(epsilon: float, delta: float) -> float:
    """The zero-concentrated budget with this epsilon, by opendp's own conversion."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)

    def cost(rho: float) -> float:
        noisy = dp.m.make_gaussian(*space, scale=(1 / (2 * rho)) ** 0.5)
        return dp.c.make_zCDP_to_approxDP(noisy).map(d_in=1.0).epsilon(delta)

    return dp.binary_search(lambda rho: cost(rho) <= epsilon, bounds=(1e-6, 50.0))


def samples(task: Task) -> np.ndarray:
    """Codes of a contingency table whose keys are all known. opendp has no seed for its noise."""
    names = [f"c{column}" for column in range(len(task.domain))]
    rho = rho_of(task.epsilon, task.delta)
    context = dp.Context.compositor(
        data=pl.LazyFrame(dict(zip(names, task.codes.T.astype(np.int64), strict=True))),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=1,
    )
    keys = {name: list(range(size)) for name, size in zip(names, task.domain, strict=True)}
    query = context.query().select(*names).contingency_table(keys=keys, algorithm=dp.mbi.AIM(**task.settings))
    made = query.release().synthesize(len(task.codes))
    return np.stack([made[name].fill_null(0).to_numpy() for name in names], axis=1)


if __name__ == "__main__":
    run(samples)
