"""How many iterations per second does GS-WGAN make, against the plain loop that its authors use?

An iteration is 5 critic steps and one generator step, 32 images each. Three loops take turns in one process:

- plain: as the authors': the generator runs again for each critic step, the penalty is a double backward, the power iteration
  runs at every forward pass, pixels are doubled before they are convolved;
- plain, fakes shared: the same, but the critic steps of an iteration share one batch of fakes;
- Gossamer's: the whole training loop of `methods/gs_wgan/`, with its coins, noise and ledger, at each K.

Prints a Markdown table: CPU seconds per iteration, median (one thread by default, so that other work on the machine hardly
counts); the ratio is the median of the ratios taken turn by turn. Records are random: the time does not depend on what they
show. With --checkpoint it also writes one checkpoint at each K and times it.

    python benchmarks/gs_wgan.py --width 64 --critics 10 --turns 5
"""

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods.gs_wgan import GsWgan
from gossamer.methods.gs_wgan.loop import State
from gossamer.methods.gs_wgan.nets import ProjectionCritic, ResNetGenerator, pixel_norm
from gossamer.methods.job import Job
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training import checkpoint
from gossamer.run.training.memory import tune_malloc

B, STEPS, SIGMA = 32, 5, 1.07
CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=6_000)


def records() -> Records:
    draw = np.random.default_rng(0)
    return Records(draw.integers(0, 256, (6_000, 1, 28, 28)).astype(np.uint8), draw.integers(10, size=6_000))


class PlainGenerator(ResNetGenerator):
    """The same function, layer by layer."""

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        codes = torch.cat([(latents > 0).float(), F.one_hot(labels, self.classes).float()], 1)
        x = F.linear(codes, self.code_in.divided(), self.code_in.bias).view(-1, self.depth, 4, 4)
        x = pixel_norm(F.relu(x))
        for block in self.blocks:
            y = F.interpolate(pixel_norm(x), scale_factor=2)
            y = F.conv2d(y, block.first.divided(), block.first.bias, padding=1)
            y = F.conv2d(F.relu(pixel_norm(y)), block.second.divided(), block.second.bias, padding=1)
            x = y + F.conv2d(F.interpolate(x, scale_factor=2), block.shortcut.divided(), block.shortcut.bias)
        return torch.sigmoid(F.conv2d(x, self.out.divided(), self.out.bias))[:, :, :28, :28]


def plain(width: int, *, share: bool) -> Callable[[], None]:
    """One iteration of the plain loop, with one critic."""
    torch.manual_seed(0)
    G, D = PlainGenerator((1, 28, 28), 10, width=width), ProjectionCritic((1, 28, 28), 10, width=width)
    opt_G, opt_D = (torch.optim.Adam(net.parameters(), lr=1e-4, betas=(0.5, 0.9)) for net in (G, D))
    images, labels = records()[np.arange(60)].tensors()

    def latents() -> Tensor:
        return torch.randn(B, 10)

    def critic_step(fake: Tensor, real: Tensor, y: Tensor) -> None:
        between = fake.lerp(real, torch.rand(B, 1, 1, 1)).requires_grad_()
        (slope,) = torch.autograd.grad(D(between, y).sum(), between, create_graph=True)
        level = D(real, y)
        penalty = (slope.flatten(1).norm(dim=1) - 1).square().mean()
        loss = D(fake, y).mean() - level.mean() + 0.001 * level.square().mean() + 10 * penalty
        opt_D.zero_grad()
        loss.backward()
        opt_D.step()

    def iteration() -> None:
        shared = G(latents(), torch.randint(10, (B,))).detach() if share else None
        for _ in range(STEPS):
            which = torch.randint(60, (B,))
            y = labels[which]
            critic_step(G(latents(), y).detach() if shared is None else shared, images[which], y)
        y = torch.randint(10, (B,))
        x = G(latents(), y)
        seen = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(-D(seen, y).mean(), seen)
        g = g * (1 / B / g.flatten(1).norm(dim=1)).clamp(max=1).view(-1, 1, 1, 1)
        opt_G.zero_grad()
        x.backward(g + torch.randn_like(g) * 2 * SIGMA / B)
        opt_G.step()

    return iteration


def ours(width: int, critics: int, storage: str) -> tuple[Iterator[State], PrivacyLedger, Rng]:
    """The training loop of the method: its state after each iteration."""
    settings = {
        "noise_multiplier": SIGMA, "steps": 100_000, "critics": critics, "batch_size": B, "width": width, "warm_steps": 0,
        "storage": storage,
    }  # fmt: skip
    job = Job.of(GsWgan(), settings, CARD)
    ledger = PrivacyLedger(budget=float("inf"), delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    rng = Rng(0)
    training = job.begin(rng)
    going = training.drive(Confined(records(), ledger, training.run.rng))
    return (training.state for reached in going if reached.logs is not None), ledger, rng


def timed(iteration: Callable[[], object]) -> float:
    started = time.process_time()
    iteration()
    return time.process_time() - started


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--critics", type=int, nargs="+", default=[10])
    parser.add_argument("--storage", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--no-plain", action="store_true", help="Gossamer's loop alone: for memory and checkpoints.")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tune_malloc()
    loops: dict[str, Callable[[], object]] = {}
    if not options.no_plain:
        loops["plain"] = plain(options.width, share=False)
        loops["plain, fakes shared"] = plain(options.width, share=True)
    runs = {K: ours(options.width, K, options.storage) for K in options.critics}
    loops |= {f"Gossamer, K = {K:,}": lambda states=states: next(states) for K, (states, _, _) in runs.items()}
    for iteration in loops.values():
        iteration()
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(options.turns):
        for name, iteration in loops.items():
            seconds[name].append(timed(iteration))
    print("| loop | CPU seconds per iteration | plain / this | shared / this |\n|---|---|---|---|")
    for name, measured in seconds.items():
        ratios = [
            f"{statistics.median(a / b for a, b in zip(seconds[base], measured, strict=True)):.2f}"
            if base in seconds
            else ""
            for base in ("plain", "plain, fakes shared")
        ]
        print(f"| {name} | {statistics.median(measured):.2f} | {ratios[0]} | {ratios[1]} |")
    print(f"\nPeak memory of the process: {peak():.1f} GiB.")
    for K, (states, ledger, rng) in runs.items() if options.checkpoint else ():
        state = next(states)
        with tempfile.TemporaryDirectory() as folder:
            wall = checkpoint.save(Path(folder), state.state_dict(), rng.state(), ledger)
            size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**30
        print(f"Checkpoint at K = {K:,}: {wall:.1f} s, {size:.2f} GiB; peak memory now {peak():.1f} GiB.")


if __name__ == "__main__":
    main()
