"""dp-GAN: what a run promises and costs. `loop.py` trains, `grouping.py` groups tensors, `nets.py` has the networks."""

from dataclasses import dataclass
from typing import Any, Literal

from gossamer.errors import RequestError
from gossamer.methods.common.declared import gaussian
from gossamer.methods.common.method_start import StartConfig, WarmStarted
from gossamer.methods.contract import FROM_EPSILON, BelowOne, DataCard, Loop, MaybeZero, Query, TrialConfig
from gossamer.privacy.queries import Bounds


@dataclass(frozen=True, kw_only=True)
class Config(StartConfig):
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise / sensitivity of all groups together. 0: no noise, no clipping.
        steps: number of critic steps. Each step is one noisy query.
        expected_batch_size: expected number of records in a step (m).
        max_norm: clipping bound: the largest L2 norm of each group of a record's gradient (C). A private quantile starts there.
        grouping: groups of the gradient. none: one; weight-bias: each weight tensor, and all biases; cluster: Algorithm 2.
        groups: number of groups with cluster (k).
        bounds: clipping bounds. fixed: `max_norm`; public: the mean norm in a public batch, at every step; private-quantile:
            from noisy queries, which use epsilon.
        quantile: share of records, from 0 to 1, whose norm is to be below the private-quantile bound.
        quantile_noise_multiplier: standard deviation of the noise / sensitivity of each query for the quantile.
        quantile_every: critic steps between two queries for the quantile.
        critic_steps: critic steps per generator step (n_critic).
        width: factor of the channels in all layers (d). Paper: 64.
        latent_size: length of the generator's latent vector.
        conditional: generate by label. Off: pictures without labels, as in the paper.
        critic_learning_rate: Adam's learning rate of the critic.
        generator_learning_rate: Adam's learning rate of the generator.
        beta1: Adam's decay of the first moment. Paper: 0.5 for MNIST, else 0.
        average_decay: decay of the running average of the weights, which is released. 0 releases the last weights.
        warm_steps: non-private critic steps on public records before the first private step; only with public records.
        warm_batch_size: public records in each of the `warm_steps`, and in a batch for public bounds.
        warm_learning_rate: Adam's learning rate of both networks in the `warm_steps`.
        physical_batch_size: records whose gradients are computed at once. It limits the memory, not the result.
    """

    noise_multiplier: float = FROM_EPSILON
    steps: int = 4_000
    expected_batch_size: int = 256
    max_norm: float = 1.0
    grouping: Literal["none", "weight-bias", "cluster"] = "none"
    groups: int = 1
    bounds: Literal["fixed", "public", "private-quantile"] = "fixed"
    quantile: float = 0.5
    quantile_noise_multiplier: float = 10.0
    quantile_every: int = 20
    critic_steps: int = 4
    width: int = 32
    latent_size: int = 128
    conditional: bool = True
    critic_learning_rate: float = 2e-4
    generator_learning_rate: float = 2e-4
    beta1: BelowOne = 0.5
    average_decay: float = 0.0
    warm_steps: MaybeZero = 4_000
    warm_batch_size: int = 64
    warm_learning_rate: float = 2e-4
    physical_batch_size: int = 512

    @property
    def asks(self) -> bool:
        """Whether the run queries a quantile of the records' norms. Without noise nothing is clipped or queried."""
        return self.bounds == "private-quantile" and self.noise_multiplier > 0


class DpWgan(WarmStarted[Config, Any]):
    """dp-GAN: WGAN-GP with grouped, adaptive clipping and a warm start (Zhang, Ji, Wang 2018).

    Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. Each critic step is one Poisson-sampled Gaussian.
    The k groups of a record's gradient are clipped to c_1 ... c_k. Noise is added to all groups, as one query of
    multiplier noise_multiplier. The fakes that a record is compared with are random choices of that record. The
    generator sees the records through the critic only. Bounds and warm start come from public records, the config, or a
    private quantile.

    Departures from the paper:
        - Theorem 4.1 counts k groups as one, by parallel composition. That needs disjoint records, but the groups are
          coordinates of one record. Here the noise on group j is sqrt(k) times wider, and the joint multiplier counts.
        - Line 12 adds noise to every record's gradient; here it is added once, to the sum, as its accountant assumes.
        - Records are Poisson-sampled, and the sum is divided by the expected batch.
        - No batch normalisation in the generator, which would tie the fakes of a batch to each other; pixel norm instead.
        - Labels, if `conditional`: the fake of a record carries the record's label. A running average of the generator.
    """

    name = "dp-wgan"
    title = "dp-GAN (Zhang, Ji, Wang 2018)"
    ranks_take = "units by place"
    config_type = Config
    loop = Loop("gossamer.methods.dp_wgan.loop")
    trial = TrialConfig(
        canary="gradients",
        about="records whose clipped gradient points along a weight that no other record moves, in every group",
        settings={"steps": 10, "width": 2, "latent_size": 4, "critic_steps": 2, "grouping": "weight-bias"},
        of_a_run=("max_norm", "grouping"),
    )

    def queries(self, config: Config, card: DataCard) -> list[Query]:
        """One joint Gaussian per critic step and, for private quantiles, one per question. The loop moves their bounds."""
        rate = config.expected_batch_size / card.declared_size
        gradients = gaussian.GroupedGaussianSum(
            sampling_rate=rate, noise_multiplier=config.noise_multiplier, bounds=Bounds(norms=(1.0,))
        )
        shares = gaussian.PoissonGaussianSum(
            sampling_rate=rate, noise_multiplier=config.quantile_noise_multiplier, max_norm=1.0
        )
        queries = [Query("gradients", gradients, config.steps)]
        if config.asks:
            queries.append(Query("shares below", shares, -(-config.steps // config.quantile_every)))
        return queries

    def check(self, config: Config, card: DataCard) -> None:
        """Refuse settings that contradict each other, and more groups than the critic has tensors."""
        if config.grouping != "cluster" and config.groups != 1:
            raise RequestError(f"`groups={config.groups}` goes with `grouping=cluster`, not {config.grouping}.")
        if config.grouping == "cluster" and config.bounds == "fixed":
            raise RequestError("`grouping=cluster` needs bounds that differ: take `bounds` public or private-quantile.")
        if not 0 < config.quantile < 1:
            raise RequestError(f"`quantile` must lie between 0 and 1, not {config.quantile:g}.")
        if config.bounds == "private-quantile" and config.quantile_noise_multiplier <= 0:
            raise RequestError("`quantile_noise_multiplier` must be above 0: else the quantile is not private.")
        if config.asks and config.quantile_noise_multiplier == config.noise_multiplier:
            raise RequestError(
                "`quantile_noise_multiplier` must differ from `noise_multiplier`: the ledger tells them apart by it."
            )
        if config.grouping == "cluster":
            self.loop.check_groups(config, card)

    def use_of_public(self, config: Config) -> Literal["optional", "required"]:
        """A warm start, and bounds."""
        return "required" if config.bounds == "public" else "optional"
