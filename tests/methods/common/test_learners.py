"""What several methods have in their states: networks that learn from sums, running averages, generators in training."""

import copy

import torch
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.methods.common.learners import Average, InTraining, Learner, adam
from gossamer.methods.contract import BaseConfig, Run
from gossamer.privacy.random.noise import Rng

CARD = DataCard(shape=(1, 2, 2), classes=2, declared_size=10)
RATE = adam(0.1, (0.5, 0.999))


class Little(nn.Module):
    """A generator of four pixels, with a buffer."""

    latent_size = 3

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        return torch.sigmoid(self.layer(latents) + labels[:, None]).view(-1, 1, 2, 2)


def weights(net: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in net.parameters()]


def move(net: Little, by: float) -> None:
    with torch.no_grad():
        for p in net.parameters():
            p.add_(by)
        net.seen.add_(by)


def test_the_average_moves_by_one_minus_its_decay_and_buffers_are_those_of_the_network() -> None:
    net = Little()
    average = Average(net, 0.75)
    first = weights(net)
    move(net, 4.0)
    average.follow()
    for mean, start in zip(average.released.parameters(), first, strict=True):
        torch.testing.assert_close(mean, start + 1.0)
    assert float(average.released.seen) == 4.0
    average.follow(at_most=0.5)
    for mean, start in zip(average.released.parameters(), first, strict=True):
        torch.testing.assert_close(mean, start + 2.5)
    average.follow(at_most=0.9)
    for mean, start in zip(average.released.parameters(), first, strict=True):
        torch.testing.assert_close(mean, start + 2.5 + 0.25 * 1.5)


def test_an_average_that_restarts_begins_with_the_present_weights() -> None:
    net = Little()
    average = Average(net, 0.9)
    move(net, 1.0)
    average.follow()
    average.restart()
    assert all(torch.equal(a, b) for a, b in zip(average.released.parameters(), net.parameters(), strict=True))
    assert torch.equal(average.released.seen, net.seen)
    before = weights(average.released)
    move(net, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(average.released.parameters(), before, strict=True)), "it is a copy"


def test_without_a_decay_the_network_itself_is_released() -> None:
    net = Little()
    average = Average(net, 0.0)
    average.follow()
    average.restart()
    assert average.released is net
    assert average.state_dict() == {}
    average.load_state_dict({})


def test_a_learner_takes_its_step_on_one_vector_and_renewed_it_forgets_the_moments() -> None:
    net = Little()
    by_hand = copy.deepcopy(net)
    learner = Learner(net, RATE)
    direction = torch.linspace(-1, 1, 16)
    for _ in range(2):  # renewed, the second is again a first step
        parameters = list(by_hand.parameters())
        optimiser = torch.optim.Adam(parameters, lr=0.1, betas=(0.5, 0.999))
        for p, part in zip(parameters, direction.split([12, 4]), strict=True):
            p.grad = part.view_as(p)
        optimiser.step()
        learner.step(direction.clone())
        for mine, theirs in zip(net.parameters(), by_hand.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs)
        direction = direction.flip(0)
        learner.renew(RATE)
        assert learner.optimiser.state_dict()["state"] == {}
    assert torch.equal(torch.cat([p.flatten() for p in net.parameters()]), learner.vector)


def test_a_generator_descends_alone() -> None:
    """A critic in the same graph keeps no gradient and does not move."""
    G, critic = InTraining(Little(), RATE, 0.0), nn.Linear(4, 1)
    before, other = weights(G.net), weights(critic)
    fakes = G.net(torch.ones(2, 3), torch.zeros(2, dtype=torch.int64))
    G.descend(critic(fakes.flatten(1)).mean())
    assert all(p.grad is None for p in critic.parameters())
    assert all(torch.equal(a, b) for a, b in zip(critic.parameters(), other, strict=True))
    assert all(not torch.equal(a, b) for a, b in zip(G.net.parameters(), before, strict=True))
    G.renew(RATE)
    assert G.optimiser.state_dict()["state"] == {}


def test_latents_and_labels_come_from_public_streams_of_their_own() -> None:
    """Those with a prefix leave the others where they are."""
    G = InTraining(Little(), RATE, 0.0)
    plain, mixed = (Run(BaseConfig(), CARD, Rng(3)) for _ in range(2))
    first, second = G.latents(plain, 5), G.latents(plain, 5)
    found = G.latents(mixed, 5), G.latents(mixed, 5, prefix="warm "), G.latents(mixed, 5)
    for mine, theirs in ((found[0], first), (found[2], second)):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert not torch.equal(found[1][0], first[0])
    assert set(mixed.rng.state()["public"]) == {"latents", "labels", "warm latents", "warm labels"}
    z, y = first
    assert (z.shape, y.dtype) == ((5, 3), torch.int64)
    assert torch.equal(z, torch.randn(5, 3, generator=Rng(3).public("latents")))


def test_fakes_carry_the_labels_that_they_were_made_for_and_no_gradient() -> None:
    G = InTraining(Little(), RATE, 0.0)
    fakes = G.fakes(Run(BaseConfig(), CARD, Rng(3)), 40)
    z, y = G.latents(Run(BaseConfig(), CARD, Rng(3)), 40)
    assert not fakes.images.requires_grad
    assert torch.equal(fakes.labels, y)
    torch.testing.assert_close(fakes.images, G.net(z, y).detach())
