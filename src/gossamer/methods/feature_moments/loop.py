"""Moments of features: axes from public pictures, one release, and the classifier that it makes."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import contract
from gossamer.methods.common.bounded_sum import coded
from gossamer.methods.common.labelled import PublicPictures
from gossamer.methods.contract import Logs, Run
from gossamer.methods.feature_moments import Config
from gossamer.methods.feature_moments.features import Labeller, PublicAxes, SumsAndProducts, regression
from gossamer.nets.encoders import PluginEncoder
from gossamer.privacy.confined import Confined


def axes(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """Take the principal axes of the features of public pictures, and the pictures themselves. Costs nothing."""
    if state.step == 0:
        net = state.net.axes
        features = torch.from_numpy(coded(public, net.encoder, len(net.centre), net.centre.device).images).to(
            run.device
        )
        net.fit(features)
        state.public.add(public, net.code(features))
        yield {}


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """One release, and the classifier that it makes."""
    net, public, release = state.net, state.public, run.query("moments")
    query = SumsAndProducts(run.config.axes, run.card.classes)
    if private.remaining(release.event):
        codes = private.map(lambda records: coded(records, net.axes, query.axes, net.weights.device))
        answer = codes.release(release, query)
        seen = public.features.double().cpu()
        weights = regression(*query.parts(answer), seen.t() @ seen / len(seen), net.prior, release.noise_multiplier)
        net.learn(weights, public.images, public.features)
        yield {"released_norm": answer.norm()}


@dataclass
class State(contract.NetState):
    """The weights have seen records through the release only. `public` has the pictures, and their codes as features."""

    net: Labeller
    public: PublicPictures


def start(run: Run[Config]) -> State:
    """A classifier whose weights are zeros. Raises RequestError: its encoder looks at other pictures."""
    net = generator(run.config, run.card).to(run.device)
    if isinstance(net.axes.encoder, PluginEncoder):
        net.axes.encoder.check(run.device)
    codes = torch.empty(0, run.config.axes, dtype=torch.float64, device=run.device)
    return State(net, PublicPictures(net.labelled.images[:0].cpu(), codes))


def generator(config: Config, card: DataCard) -> Labeller:
    """The classifier that a run releases, before it has learnt."""
    encoder = PluginEncoder(config.encoder, card.shape) if config.encoder else None
    return Labeller(PublicAxes(encoder, card.shape, config.axes), card)
