"""PriVAE: what a run promises and costs. `loop.py` trains, `objective.py` has the two terms, `nets.py` the networks."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from gossamer.errors import RequestError
from gossamer.methods.common.declared import gaussian, two_term
from gossamer.methods.common.method_start import StartConfig, WarmStarted
from gossamer.methods.contract import FROM_EPSILON, DataCard, Loop, MaybeZero, Query, TrialConfig


@dataclass(frozen=True, kw_only=True)
class Config(StartConfig):
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise / sensitivity of both terms together. 0: no noise, no clipping.
        steps: number of steps (T). Each step is one noisy query.
        expected_batch_size: expected number of records in a step (B).
        max_norm: clipping bound: the largest L2 norm of a record's gradient in the sample-wise term (C1; C of the baselines).
        max_norm_batch: clipping bound: the largest L2 norm of a group's batch-wise gradient (C2). 0: no batch-wise term.
        partitions: number of groups in the batch-wise term (b).
        split: share of a step's privacy for the sample-wise term, from 0 to 1 (w1 squared). Its noise is 1 / sqrt(split) wider.
        codes_per_record: random codes per record in the sample-wise term (L).
        divergence: batch-wise term between codes and prior: none, mmd (section 5.1), or kl for KL(p || q) (section 5.2).
        alpha: weight of the batch-wise term. Because of `max_norm_batch`, it only changes how often gradients are clipped.
        beta: weight of KL(q || p) in the sample-wise term.
        prior: distribution of codes: normal, sparse (spikes of weight 0.8, width 0.05) or mixture (four normals).
        likelihood: distribution of pixels. bernoulli; laplace: scale 0.1; normal: the standard deviation is learned.
        aggregation: how gradients are clipped and added. termwise: the paper's method; micro, batch: the baselines of Table 1.
        network: network: conv for 28x28 and 32x32, or dense with one hidden layer for any size.
        conditional: encoder and decoder get the label. Off: no labels, as in the paper.
        width: channels of the outermost hidden layer (conv), or hidden units (dense).
        latent_size: length of a code.
        extent: 0: pixels are values from 0 to 1. Else pixels are coordinates from -extent to extent, as in the pinwheel data.
        optimiser: adam, or sgd as in the paper.
        learning_rate: learning rate of the optimiser.
        average_decay: decay of the running average of the weights, which is released. 0 releases the last weights.
        release_encoder: release the encoder too, under the same guarantee.
        warm_steps: non-private steps on public records before the first private step; only with public records.
        warm_batch_size: public records in each of the `warm_steps`.
        warm_learning_rate: learning rate of the optimiser in the `warm_steps`.
        physical_batch_size: records whose gradients are computed at once. It limits the memory, not the result.
    """

    noise_multiplier: float = FROM_EPSILON
    steps: int = 2_000
    expected_batch_size: int = 1_024
    max_norm: float = 1.0
    max_norm_batch: float = 0.1
    partitions: int = 16
    split: float = 0.5
    codes_per_record: int = 1
    divergence: Literal["none", "mmd", "kl"] = "none"
    alpha: float = 100.0
    beta: float = 1.0
    prior: Literal["normal", "sparse", "mixture"] = "normal"
    likelihood: Literal["bernoulli", "laplace", "normal"] = "bernoulli"
    aggregation: Literal["termwise", "micro", "batch"] = "termwise"
    network: Literal["conv", "dense"] = "dense"
    conditional: bool = True
    width: int = 200
    latent_size: int = 8
    extent: float = 0.0
    optimiser: Literal["sgd", "adam"] = "adam"
    learning_rate: float = 2e-3
    average_decay: float = 0.99
    release_encoder: bool = False
    warm_steps: MaybeZero = 4_000
    warm_batch_size: int = 64
    warm_learning_rate: float = 1e-3
    physical_batch_size: int = 512


def _of_gradients(trial: TrialConfig) -> TrialConfig:
    """Without a batch-wise term, the canaries are of gradients alone."""
    if trial.settings["divergence"] != "none":
        return trial
    return dataclasses.replace(trial, canary="gradients", about="")


class Privae(WarmStarted[Config, Any]):
    """PriVAE: variational autoencoders with term-wise DP-SGD (Takahashi, Takagi, Ono, Komatsu 2020).

    Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. Each step is one Poisson-sampled Gaussian. The sample-wise
    sum moves by at most C1 (`max_norm`). The batch-wise sum moves by at most 2 C2 (`max_norm_batch`). A unit is in one
    group, chosen at random and independently. It moves that group's clipped gradient between two points of a ball of
    radius C2. The noise covers the pair (`privacy/mechanisms/two_term.py`). Both networks see the records only through
    these sums; the decoder is released.

    Departures from the paper:
        - Lemma 2 takes C2 instead of 2 C2, and Theorem 2 composes two releases on the same draw, at twice the noise
          (kappa = 2.06). Here both terms are one Gaussian, with noise sqrt(2) C1 and sqrt(2) 2 C2 times the multiplier
          (or other splits).
        - Groups are independent random choices, so that a removed record does not re-partition the others.
        - No batch normalisation. KL(q || p) in closed form where the prior is standard normal. KL(p || q) averages where the
          paper sums. The mixture prior has the signed centres and the spread of Mathieu et al. 2019, which the paper
          follows. The spikes of the sparse prior are theirs too, 0.05 wide; the paper's text calls 0.05 their variance.
        - The baselines of Table 1 with the sensitivity that they have. `batch`: the whole gradient is clipped to C and moves
          by at most 2 C. `micro`: every record's gradient holds the batch-wise term, so n sampled records move by up to
          2 C each, and n is random. So the sum is clipped once more, to B C, and moves by at most 2 B C for any sample.
        - Labels, if `conditional`; Adam; a running average of the weights; a warm start on public records.
    """

    name = "privae"
    title = "PriVAE (Takahashi, Takagi, Ono, Komatsu 2020)"
    config_type = Config
    loop = Loop("gossamer.methods.privae.loop")
    trial = TrialConfig(
        canary="terms",
        shape=(1, 2, 2),
        max_trials=100_000,
        settings={
            "steps": 1, "width": 4, "latent_size": 2, "divergence": "mmd", "partitions": 1, "average_decay": 0.0,
        },
        of_a_run=("max_norm", "max_norm_batch", "split", "divergence"),
        adjust=_of_gradients,
    )  # fmt: skip

    def queries(self, config: Config, card: DataCard) -> list[Query]:
        """One joint Gaussian per step, whatever the terms."""
        return [Query("gradients", mechanism_for(config, card), config.steps)]

    def check_ranks(self, config: Config, count: int) -> None:
        """Refuse what ranks cannot share: groups that do not divide evenly, or one clipped answer."""
        if config.aggregation != "termwise":
            raise RequestError(f"`aggregation={config.aggregation}` clips one whole answer: it runs in one process.")
        if config.divergence != "none" and config.partitions % count:
            raise RequestError(
                f"`partitions={config.partitions}` cannot be shared out among {count} ranks: give a multiple of {count}."
            )

    def check(self, config: Config, card: DataCard) -> None:  # noqa: ARG002 (what every method is asked)
        """Refuse a split that gives one term nothing, and a baseline without the term that it is a baseline for."""
        if not 0 < config.split < 1:
            raise RequestError(f"`split` must lie between 0 and 1, not {config.split:g}: it shares out one budget.")
        if config.aggregation != "termwise" and config.divergence == "none":
            raise RequestError(
                f"`aggregation={config.aggregation}` is a baseline for a batch-wise term: give `divergence=mmd` or kl."
            )


def mechanism_for(config: Config, card: DataCard) -> "two_term.TermwiseGaussianSum | two_term.WholeGaussian":
    """The release of one step. Without noise nothing is clipped: the non-private run."""
    B, sigma = config.expected_batch_size, config.noise_multiplier
    rate = B / card.declared_size
    C1, C2 = (gaussian.clipped_to(norm, noise_multiplier=sigma) for norm in (config.max_norm, config.max_norm_batch))
    if config.aggregation != "termwise":
        bound = C1 if config.aggregation == "batch" else B * C1
        return two_term.WholeGaussian(sampling_rate=rate, noise_multiplier=sigma, max_norm=bound)
    has_batch_term = config.divergence != "none" and config.max_norm_batch > 0
    return two_term.TermwiseGaussianSum(
        sampling_rate=rate,
        noise_multiplier=sigma,
        max_norm=C1,
        max_norm_batch=C2 if has_batch_term else 0.0,
        partitions=config.partitions,
        weights=(config.split**0.5, (1 - config.split) ** 0.5),
    )
