"""What does a private step cost? The clipped sum against the non-private step of the same net, beside its peers.

A private step is: clip the gradient of every record and add them up, Gaussian noise, fused Adam on one flat vector. The
non-private step is: forward, backward, fused Adam. All strategies of a model run in one process, interleaved, in an order
that changes from round to round; a ratio is the median over rounds of the ratio within one round, beside the range of
its middle half. Times are process CPU time on the CPU and synchronised wall time on a GPU; the ratio by the clock stands
beside it, and means something where the machine has nothing else to do. Peak memory is what a strategy needs above the
finished set-up, measured in a process of its own. --parts shows what the noise is of a private step: the same without any,
and with torch's own normals in its place, which prove nothing.

    python benchmarks/engine.py                        the whole table, into benchmarks/results/ too
    python benchmarks/engine.py --models mlp-128 --rounds 5 --no-peers
    python benchmarks/engine.py --models mlp-128 mlp-512 --parts --rounds 41 --no-peers --no-memory
"""

import argparse
import copy
import datetime
import gc
import itertools
import json
import platform
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gossamer.nets.dcgan import Discriminator
from gossamer.nets.flat import flatten
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient, Tensors
from gossamer.privacy.per_sample_gradients.penalty import PenaltyGradient, Points, penalised_losses
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.memory import tune_malloc

BOUNDS = Bounds(norms=(1.0,))
CHUNK = 32  # records per torch.func call; larger ones were slower and take more memory
WITH_PEERS = (
    "dcgan-128", "dcgan-128-table", "dcgan-narrow-512", "dcgan-narrow-512-table", "mlp-128", "critic-128", "vae-512",
    "classifier-256", "transformer-64", "positions-64", "encoder-64", "gru-64", "lstm-64",
)  # fmt: skip
PARTS = ("gossamer without noise", "gossamer, torch's normals")
OURS = ("non-private", "gossamer, non-private", "gossamer", *PARTS)
PEER_ROUNDS = 3  # peers are up to a hundred times slower; their ratios need no more
LARGEST = 4e9  # bytes of per-record gradients that a peer may form; it needs about twice as much memory
Step = Callable[[], object]
Noise = Callable[[Tensor, float], Tensor]


class Times(NamedTuple):
    """Seconds of a step: of the processor (on a GPU: by the clock), and by the clock."""

    work: float
    wall: float


@dataclass(frozen=True)
class Model:
    """A net, a batch, a loss per record, and the same loss of one record for torch.func."""

    build: Callable[[], nn.Module]
    batch: Callable[[], tuple[Tensor, ...]]
    loss: Callable[[nn.Module, Tensors], Tensor]
    opacus: bool = True


class WithoutTable(Discriminator):
    """The discriminator with its label planes stored, so that they are convolved like an image."""

    def __init__(self, width: int) -> None:
        super().__init__((1, 28, 28), 10, width)

    def _planes(self, images: Tensor, labels: Tensor) -> Tensor:
        return super()._planes(images, labels).contiguous()


class Flat(nn.Module):
    """privGAN's discriminator: 784-2048-512-256-1."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [784, 2048, 512, 256, 1]
        layers: list[nn.Module] = []
        for inner, outer in itertools.pairwise(sizes):
            layers += [nn.Linear(inner, outer), nn.LeakyReLU(0.2)]
        self.layers = nn.Sequential(nn.Flatten(), *layers[:-1])

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).squeeze(1)


class Critic(nn.Module):
    """dp-GAN's critic: three convolutions 5x5 with stride 2, then a linear map without bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 5, 2, 2),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 5, 2, 2),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 4 * width, 5, 2, 2),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(64 * width, 1, bias=False),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).squeeze(1)


class Autoencoder(nn.Module):
    """A convolutional VAE with 222,000 parameters, in the manner of PriVAE's."""

    def __init__(self, width: int = 24, latent: int = 20) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.LeakyReLU(0.2),
        )  # fmt: skip
        self.code = nn.Conv2d(4 * width, 2 * latent, 4)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(latent, 4 * width, 4), nn.ReLU(),
            nn.ConvTranspose2d(4 * width, 2 * width, 3, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(width, 1, 4, 2, 1),
        )  # fmt: skip

    def forward(self, images: Tensor, coins: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.code(self.encoder(images)).chunk(2, 1)
        latent = mean + coins[:, :, None, None] * torch.exp(0.5 * log_variance)
        return self.decoder(latent), mean, log_variance


class Block(nn.Module):
    """Attention and a perceptron, each with a norm before and a shortcut around it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.parts, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        q, k, v = self.parts(self.before(x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width))
        return x + self.inner(self.between(x))


class LookedUp(nn.Module):
    """Positions of 32 tokens, looked up record by record."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 64)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table(torch.arange(32, device=x.device).expand(x.shape[:2]))


class Added(nn.Module):
    """Positions of 32 tokens, added over the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = nn.Parameter(torch.randn(32, 64))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.numbers


class Transformer(nn.Module):
    """A classifier of 32 tokens: 2 blocks of width 64."""

    def __init__(self, place: type[nn.Module], blocks: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(256, 64), place(), blocks())
        self.head = nn.Linear(64, 10)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.layers(words).mean(1))


def own_blocks() -> nn.Module:
    return nn.Sequential(Block(64, 4), Block(64, 4))


def torchs_blocks() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0, activation="gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Recurrent(nn.Module):
    """A classifier of 32 tokens by the last output of a recurrent layer of width 64."""

    def __init__(self, layer: type[nn.RNNBase]) -> None:
        super().__init__()
        self.word, self.layer, self.head = nn.Embedding(256, 64), layer(64, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.layer(self.word(words))[0][:, -1])


def classifier() -> nn.Module:
    """A usual network for MNIST: two convolutions, two linear layers."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, 3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def class_loss(module: nn.Module, batch: Tensors) -> Tensor:
    """Cross-entropy of a classifier; the last part is the class."""
    *inputs, target = batch.parts
    return F.cross_entropy(module(*inputs), target, reduction="none")


def adversarial_loss(module: nn.Module, batch: Tensors) -> Tensor:
    """Cross-entropy of a discriminator; the last part is the target."""
    *inputs, target = batch.parts
    return F.binary_cross_entropy_with_logits(module(*inputs), target, reduction="none")


def elbo_loss(module: nn.Module, batch: Tensors) -> Tensor:
    """Negative evidence lower bound."""
    images, coins = batch.parts
    drawn, mean, log_variance = module(images, coins)
    fit = F.binary_cross_entropy_with_logits(drawn, images, reduction="none").sum((1, 2, 3))
    divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum((1, 2, 3))
    return fit + divergence


PLAIN = (adversarial_loss, elbo_loss, class_loss)
"""Losses without a gradient of their own inside."""


def images(n: int) -> Tensor:
    return torch.rand(n, 1, 28, 28)


def labelled(n: int) -> tuple[Tensor, ...]:
    return images(2 * n), torch.randint(0, 10, (2 * n,)), torch.arange(2 * n).lt(n).float()


def unlabelled(n: int) -> tuple[Tensor, ...]:
    return images(2 * n), torch.arange(2 * n).lt(n).float()


MODELS: dict[str, Model] = {
    **{
        f"dcgan-{n}{suffix}": Model(build, lambda n=n: labelled(n), adversarial_loss)
        for n in (128, 512)
        for suffix, build in (
            ("", lambda: WithoutTable(128)),
            ("-table", lambda: Discriminator((1, 28, 28), 10, 128)),
        )
    },
    "dcgan-narrow-512": Model(lambda: WithoutTable(32), lambda: labelled(512), adversarial_loss),
    "dcgan-narrow-512-table": Model(
        lambda: Discriminator((1, 28, 28), 10, 32), lambda: labelled(512), adversarial_loss
    ),
    "mlp-128": Model(Flat, lambda: unlabelled(128), adversarial_loss),
    "mlp-512": Model(Flat, lambda: unlabelled(512), adversarial_loss),
    "critic-128": Model(
        lambda: Critic(32),
        lambda: (images(128), images(128), images(128)),
        lambda module, batch: penalised_losses(module, Points(*batch.parts), penalty=10.0),
        opacus=False,
    ),
    "vae-512": Model(Autoencoder, lambda: (images(512), torch.randn(512, 20)), elbo_loss),
    **{
        name: Model(build, lambda: (torch.randint(0, 256, (64, 32)), torch.randint(0, 10, (64,))), class_loss)
        for name, build in {
            "transformer-64": lambda: Transformer(LookedUp, own_blocks),
            "positions-64": lambda: Transformer(Added, own_blocks),
            "encoder-64": lambda: Transformer(Added, torchs_blocks),
            "gru-64": lambda: Recurrent(nn.GRU),
            "lstm-64": lambda: Recurrent(nn.LSTM),
        }.items()
    },
    "classifier-256": Model(classifier, lambda: (images(256), torch.randint(0, 10, (256,))), class_loss),
}


def strategies(model: Model, *, device: str, peers: bool, parts: bool = False) -> dict[str, Callable[[], Step]]:
    """By name, what builds each step; the non-private one first."""
    torch.manual_seed(0)
    net = model.build().to(device)
    batch = Tensors(tuple(part.to(device) for part in model.batch()))
    found: dict[str, Callable[[], Step]] = {"non-private": lambda: ordinary(copy.deepcopy(net), model, batch)}
    if model.loss in PLAIN:
        found["gossamer"] = lambda: private(copy.deepcopy(net), model, batch, Rng().add_gaussian_)
        if parts:
            found[PARTS[0]] = lambda: private(copy.deepcopy(net), model, batch, None)
            found[PARTS[1]] = lambda: private(copy.deepcopy(net), model, batch, torchs_normals)
    else:
        found["gossamer, non-private"] = lambda: critic(copy.deepcopy(net), batch, clip=False)
        found["gossamer"] = lambda: critic(copy.deepcopy(net), batch, clip=True)
    rows = sum(p.numel() for p in net.parameters()) * len(batch) * 4  # bytes of all per-record gradients
    if peers:
        found["torch.func"] = lambda: functional(copy.deepcopy(net), model, batch)
        if model.opacus and rows > LARGEST:
            print(f"Opacus hooks are left out: {rows / 1e9:.0f} GB of per-record gradients", file=sys.stderr)
        elif model.opacus:
            found["Opacus hooks"] = lambda: opacus_hooks(copy.deepcopy(net), model, batch)
        if model.opacus:
            found["Opacus ghost"] = lambda: opacus_ghost(copy.deepcopy(net), model, batch)
    return found


def adam(parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=2e-4, betas=(0.5, 0.999), fused=True)


def ordinary(net: nn.Module, model: Model, batch: Tensors) -> Step:
    """Forward, backward, fused Adam. With a penalty: double backward."""
    optimiser = adam(list(net.parameters()))

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        model.loss(net, batch).mean().backward()
        optimiser.step()

    return step


def torchs_normals(total: Tensor, std: float) -> Tensor:
    """Noise in float32 by torch's own generator."""
    return total.add_(torch.randn_like(total), alpha=std)


def _noisy(net: nn.Module, count: int, ask: Callable[[], Tensor], noise: Noise | None) -> Step:
    flat = flatten(net)
    optimiser = adam([flat])

    def step() -> None:
        total = ask()
        if noise is not None:
            noise(total, 1.0)
        flat.grad = total.div_(count)
        optimiser.step()

    return step


def private(net: nn.Module, model: Model, batch: Tensors, noise: Noise | None) -> Step:
    """The product's own step. A discriminator's records and fakes are clipped by two calls, as in its training loop."""
    cuts = (
        [slice(0, len(batch) // 2), slice(len(batch) // 2, None)] if model.loss is adversarial_loss else [slice(None)]
    )
    queries = [(PerRecordGradient(net, model.loss, form="fast"), batch[cut]) for cut in cuts]

    def ask() -> Tensor:
        total = None
        for query, half in queries:
            total = query.clipped_sum(half, BOUNDS, out=total)
        return total

    return _noisy(net, len(batch), ask, noise)


def critic(net: nn.Module, batch: Tensors, *, clip: bool) -> Step:
    """The product's step of a critic with gradient penalty; without clipping, the step that needs no double backward."""
    query = PenaltyGradient(net, lambda drawn: Points(*drawn.parts), form="fast")
    bounds = BOUNDS if clip else Bounds(norms=(float("inf"),))
    return _noisy(net, len(batch), lambda: query.clipped_sum(batch, bounds), Rng().add_gaussian_ if clip else None)


def _planes_by_comparison(images: Tensor, labels: Tensor) -> Tensor:
    codes = (labels[:, None] == torch.arange(10, device=labels.device)).to(images.dtype)
    return codes[:, :, None, None].expand(-1, -1, *images.shape[2:])


def penalised_loss(called: nn.Module, real: Tensor, fake: Tensor, between: Tensor) -> Tensor:
    """The loss of one record, with the inner gradient by torch.func."""
    slope = torch.func.grad(lambda image: called(image[None])[0])(between)
    return called(fake[None])[0] - called(real[None])[0] + 10 * (torch.linalg.vector_norm(slope) - 1).square()


def functional(net: nn.Module, model: Model, batch: Tensors) -> Step:
    """vmap(grad) of torch.func, chunk by chunk, each chunk clipped and added up."""
    for module in net.modules():
        if isinstance(module, Discriminator):
            module._planes = _planes_by_comparison  # one_hot looks at values, which vmap does not allow

    class Called(nn.Module):
        def __init__(self, given: dict[str, Tensor]) -> None:
            super().__init__()
            self.given = given

        def forward(self, *args: Tensor) -> Any:
            return torch.func.functional_call(net, self.given, args)

    def one(given: dict[str, Tensor], *parts: Tensor) -> Tensor:
        if model.loss not in PLAIN:
            return penalised_loss(Called(given), *parts)
        return model.loss(Called(given), Tensors(tuple(part[None] for part in parts)))[0]

    gradients = torch.func.vmap(torch.func.grad(one), in_dims=(None, *(0,) * len(batch.parts)))

    def ask() -> Tensor:
        current = {name: p.detach() for name, p in net.named_parameters()}
        total = [torch.zeros_like(p).flatten() for p in current.values()]
        for lo in range(0, len(batch), CHUNK):
            rows = [g.flatten(1) for g in gradients(current, *batch[lo : lo + CHUNK].parts).values()]
            norms = torch.stack([row.square().sum(1) for row in rows]).sum(0).sqrt()
            factors = (1.0 / norms).clamp(max=1)
            for whole, row in zip(total, rows, strict=True):
                whole.add_(factors @ row)
        return torch.cat(total)

    return _noisy(net, len(batch), ask, Rng().add_gaussian_)


def _quiet() -> None:
    """Opacus 1.6 warns about its random numbers, about hooks on inputs without gradient, and through torch's old names."""
    warnings.simplefilter("ignore")


def opacus_hooks(net: nn.Module, model: Model, batch: Tensors) -> Step:
    """Opacus' GradSampleModule and DPOptimizer. Attention and recurrent layers become Opacus' own."""
    _quiet()
    from opacus import GradSampleModule  # noqa: PLC0415  # a peer that need not be installed
    from opacus.optimizers import DPOptimizer  # noqa: PLC0415  # a peer that need not be installed
    from opacus.validators import ModuleValidator  # noqa: PLC0415  # a peer that need not be installed

    wrapped = GradSampleModule(ModuleValidator.fix(net))
    optimiser = DPOptimizer(
        adam(list(wrapped.parameters())), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=len(batch)
    )

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        model.loss(wrapped, batch).mean().backward()
        optimiser.step()

    return step


def opacus_ghost(net: nn.Module, model: Model, batch: Tensors) -> Step:
    """Opacus' ghost clipping: two backward passes."""
    _quiet()
    from opacus.grad_sample import GradSampleModuleFastGradientClipping  # noqa: PLC0415  # a peer that need not be installed
    from opacus.optimizers import DPOptimizerFastGradientClipping  # noqa: PLC0415  # a peer that need not be installed
    from opacus.validators import ModuleValidator  # noqa: PLC0415  # a peer that need not be installed

    wrapped = GradSampleModuleFastGradientClipping(ModuleValidator.fix(net), max_grad_norm=1.0, use_ghost_clipping=True)
    optimiser = DPOptimizerFastGradientClipping(
        adam(list(wrapped.parameters())), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=len(batch)
    )

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        losses = model.loss(wrapped, batch)
        losses.mean().backward(retain_graph=True)
        optimiser.zero_grad(set_to_none=True)
        factors = wrapped.get_clipping_coef().detach()
        wrapped.disable_hooks()
        (factors * losses).sum().backward()
        wrapped.enable_hooks()
        optimiser.step()

    return step


def clock(device: str) -> float:
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def measure(model: Model, *, device: str, peers: bool, parts: bool, rounds: int) -> dict[str, list[Times]]:
    """Times of a step, by strategy: those of each round. A strategy that fails is left out, with its reason printed."""
    steps: dict[str, Step] = {}
    for name, build in strategies(model, device=device, peers=peers, parts=parts).items():
        try:
            steps[name] = build()
            steps[name]()
            steps[name]()
        except (AttributeError, RuntimeError, ValueError, TypeError) as error:  # what a peer raises that cannot do it
            if name in ("non-private", "gossamer"):
                raise
            steps.pop(name, None)
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
    times: dict[str, list[Times]] = {name: [] for name in steps}
    order = list(steps)
    for turn in range(rounds):
        random.shuffle(order)
        for name in order:
            if name not in OURS and turn >= PEER_ROUNDS:
                continue
            gc.collect()
            start, wall = clock(device), time.perf_counter()
            steps[name]()
            times[name].append(Times(clock(device) - start, time.perf_counter() - wall))
    return times


def peak_memory(model: Model, strategy: str, device: str) -> float:
    """MB above the finished set-up, over three steps (peers: one). In the process that calls it."""
    step = strategies(model, device=device, peers=True, parts=True)[strategy]()
    steps = 3 if strategy in OURS else 1
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        for _ in range(steps):
            step()
        return (torch.cuda.max_memory_allocated() - before) / 1e6
    # Gradients and the state of Adam are made in the first step, and count; they are the same for all strategies.
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = _status("VmRSS")
    for _ in range(steps):
        step()
    return (_status("VmHWM") - before) / 1e3


def _status(key: str) -> float:
    """kB"""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return float(line.split()[1])
    raise KeyError(key)


def memory_in_child(model: str, strategy: str, device: str) -> float | None:
    command = [sys.executable, __file__, "--child", model, strategy, "--device", device]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def row(model: str, strategy: str, times: dict[str, list[Times]], memory: dict[str, float | None]) -> dict[str, Any]:
    rounds = [*zip(times[strategy], times["non-private"], strict=False)]  # peers: the first rounds
    ratios = [own.work / base.work for own, base in rounds]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return {
        "model": model,
        "strategy": strategy,
        "ms": 1e3 * statistics.median(own.work for own in times[strategy]),
        "ratio": middle,
        "low": low,
        "high": high,
        "clock": statistics.median(own.wall / base.wall for own, base in rounds),
        "peak_mb": memory.get(strategy),
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| model | strategy | ms | ratio | middle half | by the clock | peak MB |", "|---" * 7 + "|"]
    for r in rows:
        peak = "-" if r["peak_mb"] is None else f"{r['peak_mb']:.0f}"
        lines.append(
            f"| {r['model']} | {r['strategy']} | {r['ms']:.0f} | {r['ratio']:.2f} | "
            f"{r['low']:.2f}-{r['high']:.2f} | {r['clock']:.2f} | {peak} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=11, help=f"interleaved rounds (peers: {PEER_ROUNDS})")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="MODEL")
    parser.add_argument(
        "--peers-of", nargs="+", choices=MODELS, default=list(WITH_PEERS), metavar="MODEL",
        help=f"models that Opacus and torch.func take part in (default: {', '.join(WITH_PEERS)}; larger ones take minutes)",
    )  # fmt: skip
    parser.add_argument("--no-peers", action="store_true", help="leave Opacus and torch.func out")
    parser.add_argument("--parts", action="store_true", help="the private step without noise, and with torch's, too")
    parser.add_argument("--no-memory", action="store_true", help="do not measure peak memory")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder of the table")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    if options.child:
        print(peak_memory(MODELS[options.child[0]], options.child[1], options.device))
        return
    tune_malloc()
    rows = []
    for name in options.models:
        peers = name in options.peers_of and not options.no_peers
        times = measure(MODELS[name], device=options.device, peers=peers, parts=options.parts, rounds=options.rounds)
        memory = {} if options.no_memory else {s: memory_in_child(name, s, options.device) for s in times}
        found = [row(name, strategy, times, memory) for strategy in times]
        print(table(found), flush=True)
        rows += found
    machine = platform.processor() or platform.machine() if options.device == "cpu" else torch.cuda.get_device_name()
    heading = (
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, torch {torch.__version__}, {machine}, "
        f"{torch.backends.cpu.get_cpu_capability()}, {options.threads} thread(s), {options.rounds} rounds"
    )
    text = f"# The clipped sum against the non-private step\n\n{heading}\n\n{table(rows)}\n"
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / f"engine-{options.device}-{datetime.date.today()}.md").write_text(text)
    if options.json:
        options.json.write_text(json.dumps({"heading": heading, "rows": rows}, indent=1))
    print(f"\n{text}")


if __name__ == "__main__":
    main()
