"""What a GPU gives: is it right, and how long do the papers' runs take? One command of a few minutes.

    python benchmarks/gpu.py                                 on cuda, into benchmarks/results/
    python benchmarks/gpu.py --device cpu --tiny             the same lines in seconds, to see that they run

In this order; what is there is written after each part, and a part begins only while time is left (--minutes):

- check: the GPU against the CPU. What `gossamer device-check` asks, and the same of the methods' networks; noise for a fixed
  seed, votes, a generator's pictures; a few steps of every method; a run that is stopped, resumed and verified.
- dpgan: the MNIST run of Bie et al. 2023 at epsilon 10 with its adaptive schedule, preset paper-eps10-adaptive (174,000 steps
  of 512 records, width 128). A timed prefix after warm-up. The schedule begins with one generator step per step and only makes
  them rarer, so the projected total is an upper bound. Goal: 30 minutes. The paper's run took 7 h 35 min on an A40.
- diffusion: DPDM's U-Net on pixels, 8 noise levels a record, 4,096 records a step, 60 epochs. Goal: 20 minutes.
- clipped: a private step of the discriminator (clipped sum, noise, Adam) against an ordinary one of the same net.
- noise: what normals cost, by the keystream that the GPU makes and by the one that a CPU would send.
- graphs: how long the GPU idles between kernels in those runs, and what a CUDA graph makes of forward and backward pass.

Times are of the wall clock between two synchronisations; of several rounds the median. Without --data the records are drawn
glyphs. Nothing here is private: the records are nobody's, or those of whoever runs it.
"""

import argparse
import datetime
import itertools
import json
import math
import os
import platform
import signal
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.synthetic.glyphs import draw
from gossamer.errors import Interrupted
from gossamer.events import Event
from gossamer.methods import METHODS
from gossamer.methods.common import votes
from gossamer.methods.common.features import Features
from gossamer.methods.common.learners import Learner, adam
from gossamer.methods.contract import presets_of
from gossamer.methods.dp_diffusion.nets import UNet
from gossamer.methods.job import Job
from gossamer.nets.dcgan import Discriminator, Generator
from gossamer.nets.flat import gradient
from gossamer.privacy.confined import Confined
from gossamer.privacy.device_check import Check, device_check
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient, Tensors
from gossamer.privacy.per_sample_gradients.rounding import Precision, full_precision, lowered
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random import noise
from gossamer.privacy.random.keystream import SPARE, WORDS, DeviceKeystream, Keystream
from gossamer.privacy.random.noise import Rng, grid
from gossamer.run.release.verify import verify
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.training.fit import fit
from gossamer.run.training.memory import fitted
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume

PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16")
PARTS = ("check", "dpgan", "diffusion", "clipped", "noise", "graphs")
GOALS = {"dpgan": 30.0, "diffusion": 20.0}
"""Minutes."""
NARROW = tuple(itertools.product(("dpgan", "dp-diffusion"), PRECISIONS[1:]))
N = 60_000
SMALL: dict[str, dict[str, Any]] = {
    "dpgan": {"width": 4, "expected_batch_size": 20, "discriminator_steps": 2},
    "dp-wgan": {"width": 4, "expected_batch_size": 20, "critic_steps": 2},
    "privae": {"network": "conv", "width": 4, "expected_batch_size": 20, "partitions": 2, "divergence": "mmd"},
    "gs-wgan": {"width": 2, "critics": 2, "batch_size": 3, "critic_steps": 1, "critic_batch_size": 5, "warm_steps": 1},
    "privgan": {"pairs": 2, "epochs": 2, "batch_size": 20, "width": 8, "adversary_warm_epochs": 1, "adversary_delay_epochs": 1},
    "dp-diffusion": {"network": "unet", "width": 8, "depth": 1, "expected_batch_size": 20, "multiplicity": 2},
    "dp-mepf": {
        "axes": 4, "pixel_axes": 4, "features_steps": 1, "features_batch_size": 8, "features_width": 2, "warm_steps": 1,
        "matching_steps": 2, "likeness_steps": 2, "batch_size": 20, "width": 4,
    },
    "moments": {"axes": 8, "cells": 2},
    "evolve": {"drawing": "letters", "embedding": "cosines", "candidates": 6, "variations": 2},
    "teacher": {"expected_batch_size": 20},
}  # fmt: skip
"""Settings with which every method of pictures takes a few steps."""


@dataclass
class Bench:
    """Where and how much is measured, and what was found."""

    device: torch.device
    tiny: bool
    records: Records
    ends: float
    out: Path
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def left(self) -> float:
        """Seconds."""
        return self.ends - time.perf_counter()

    def note(self, part: str, name: str, value: Any) -> None:
        """Say it, and keep it on the disk: a command that is cut off has not been for nothing."""
        self.found.setdefault(part, {})[name] = value
        print(f"{part:10} {name:42} {_shown(value)}", flush=True)
        self.out.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")

    def size(self, full: int, tiny: int) -> int:
        return tiny if self.tiny else full

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def seconds(self, work: Callable[[], object], *, rounds: int = 20, warm: int = 3) -> float:
        """Median time of one call."""
        if self.tiny:
            rounds, warm = 2, 1
        for _ in range(warm):
            work()
        took = []
        for _ in range(rounds):
            self.wait()
            begun = time.perf_counter()
            work()
            self.wait()
            took.append(time.perf_counter() - begun)
            if self.left < 0:
                break
        return statistics.median(took)

    def peak(self) -> float | None:
        """The most memory that tensors took since the last look, in GiB."""
        if self.device.type != "cuda":
            return None
        most = torch.cuda.max_memory_allocated(self.device) / 2**30
        torch.cuda.reset_peak_memory_stats(self.device)
        return round(most, 3)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------------------------------------------------------- check


def check(bench: Bench) -> None:
    checks: dict[str, Callable[[Bench], str]] = {
        **{f"device-check, {each.name}": _told(each) for each in device_check(str(bench.device))},
        "noise": check_noise,
        "generator": check_generator,
        **{f"sums, {name}, {p}": _checked_sums(name, p) for name in NETS for p in PRECISIONS},
        **{f"others, {name}, {p}": _checked_others(name, p) for name in NETS for p in PRECISIONS},
        **{f"votes, {name}": _checked_votes(name) for name in ("cosines", "features")},
        **{f"steps of {name}": _checked_steps(name) for name in SMALL},
        **{f"steps of {name}, {p}": _checked_steps(name, precision=p, physical_batch_size=32) for name, p in NARROW},
        "fit and resume": check_fit,
    }
    failed = []
    for name, look in checks.items():
        try:
            bench.note("check", name, f"pass: {look(bench)}")
        except Exception as error:  # one thing that fails must not hide the others
            failed.append(name)
            where = traceback.extract_tb(error.__traceback__)[-1]
            bench.note(
                "check", name, f"FAIL: {type(error).__name__} {error} ({Path(where.filename).name}:{where.lineno})"
            )
    bench.note("check", "failed", failed)


def _told(found: Check) -> Callable[[Bench], str]:
    def look(_bench: Bench) -> str:
        assert found.passed, found.found
        return found.found

    return look


def check_noise(bench: Bench) -> str:
    """The same lines on both; the CPU is made to take the way of a device."""
    there = Rng(noise_seed=1).add_gaussian_(torch.full((200_001,), 0.7, device=bench.device), 3.3).cpu()
    own, noise._makes_its_own = noise._makes_its_own, lambda _: True
    try:
        here = Rng(noise_seed=1).add_gaussian_(torch.full((200_001,), 0.7), 3.3)
        if bench.device.type == "cpu":  # which was sent AES
            there = Rng(noise_seed=1).add_gaussian_(torch.full((200_001,), 0.7), 3.3)
    finally:
        noise._makes_its_own = own
    differ = int((here != there).sum())
    assert differ <= 3 and float((here - there).abs().max()) <= grid(3.3), f"{differ} differ"
    return f"{differ} of 200,001 differ, by one step of the grid at most"


def check_generator(bench: Bench) -> str:
    torch.manual_seed(0)
    net, latents, labels = Generator((1, 28, 28), 10, width=16), torch.randn(64, 128), torch.arange(64) % 10
    with torch.no_grad(), full_precision():
        here = net(latents, labels)
        there = net.to(bench.device)(latents.to(bench.device), labels.to(bench.device)).cpu()
    apart = float((here - there).abs().max())
    assert apart < 1e-4, f"pictures differ by {apart:.1e}"
    return f"pictures differ by {apart:.1e} at most"


def _discriminator(width: int) -> nn.Module:
    torch.manual_seed(0)
    return Discriminator((1, 28, 28), 10, width=width)


def _unet(width: int) -> nn.Module:
    torch.manual_seed(0)
    net = UNet(1, 8, width, 1)
    nn.init.normal_(net.last.weight, std=0.1)  # it begins at zero, where nothing flows back
    return net


def _batch(name: str, n: int) -> tuple[Tensor, ...]:
    coins = torch.Generator().manual_seed(1)
    images = torch.rand(n, 1, 28, 28, generator=coins)
    if name == "discriminator":
        return images, torch.randint(10, (n,), generator=coins)
    return images, torch.randn(n, 8, generator=coins)


def _loss(net: nn.Module, batch: Tensors) -> Tensor:
    out: Tensor = net(*batch.parts).float()
    return F.softplus(-out) if out.dim() == 1 else out.flatten(1).square().mean(1)


NETS: dict[str, Callable[[int], nn.Module]] = {"discriminator": _discriminator, "unet": _unet}
MAX_NORM = 0.01  # every record is clipped
BOUNDS = Bounds(norms=(MAX_NORM,))


def _query(net: nn.Module, precision: Precision, size: int) -> PerRecordGradient[Tensors]:
    return PerRecordGradient(net, _loss, size, "fast", precision=precision)


def _checked_sums(name: str, precision: Precision) -> Callable[[Bench], str]:
    """Against the CPU in single precision, and one by one against the bound. The tolerances are of n max_norm."""
    tolerance = {"fp32": 1e-3, "tf32": 3e-2, "bf16": 0.2}[precision]

    def look(bench: Bench) -> str:
        n, width = bench.size(64, 6), bench.size(32, 8)
        net, parts = NETS[name](width), _batch(name, n)
        here = _query(net, "fp32", 64).clipped_sum(Tensors(parts), BOUNDS).double()
        batch = Tensors(tuple(part.to(bench.device) for part in parts))
        query = _query(net.to(bench.device), precision, bench.size(64, 8))
        there = query.clipped_sum(batch, BOUNDS).double().cpu()
        alone = max(float(query.clipped_sum(batch[i : i + 1], BOUNDS).double().norm()) for i in range(min(n, 8)))
        apart = float((here - there).norm()) / (n * MAX_NORM)
        assert apart <= tolerance, f"{apart:.1e} of n max_norm from the CPU's, tolerance {tolerance}"
        assert alone <= MAX_NORM, f"one record adds {alone / MAX_NORM:.5f} max_norm"
        return f"{apart:.1e} of n max_norm from the CPU's; one record adds {alone / MAX_NORM:.5f} max_norm at most"

    return look


def _checked_others(name: str, precision: Precision) -> Callable[[Bench], str]:
    """One record more, in front: how far do the sums without its own part differ? Nothing, were the others left alone.

    The slack that is charged for rounding is 1e-3 of max_norm. In narrow precision batches are filled up to one size.
    """

    def look(bench: Bench) -> str:
        net, worst = NETS[name](bench.size(32, 8)).to(bench.device), 0.0
        for n in (bench.size(500, 5), bench.size(511, 7)):
            batch = Tensors(tuple(part.to(bench.device) for part in _batch(name, n + 1)))
            query = _query(net, precision, bench.size(512, 8))
            sums = [query.clipped_sum(each, BOUNDS).double() for each in (batch, batch[1:], batch[:1])]
            worst = max(worst, float((sums[0] - sums[1] - sums[2]).norm()) / MAX_NORM)
        assert worst <= 1e-3, f"the others move by {worst:.1e} of max_norm"
        return f"the others move by {worst:.1e} of max_norm"

    return look


def _checked_votes(name: str) -> Callable[[Bench], str]:
    """Records vote for candidates: to the last bit as on a CPU, and without a record all other votes are as before."""

    def look(bench: Bench) -> str:
        torch.manual_seed(0)
        shape, classes = (1, 28, 28), 10
        n = bench.size(3_000, 60)
        candidates, records = bench.records[:n], bench.records[n : 2 * n]
        embedding = votes.Cosines.of(candidates) if name == "cosines" else Features(shape, classes)
        positions, labels = votes.embedded(candidates, embedding), torch.from_numpy(candidates.labels)
        here = votes.embedded(records, embedding)
        embedding = embedding.to(bench.device)
        there = votes.embedded(records, embedding, bench.device)
        assert torch.equal(here, there.cpu()), f"points differ by {float((here - there.cpu()).abs().max()):.1e}"
        query = votes.Votes(embedding, positions.to(bench.device), labels.to(bench.device), classes)
        whole = query.clipped_sum(records, Bounds(norms=(1.0,)))
        for k in (1, n // 7, n - 1):
            moved = whole - query.clipped_sum(records[k:], Bounds(norms=(1.0,)))
            alone = query.clipped_sum(records[:k], Bounds(norms=(1.0,)))
            assert float((moved - alone).abs().max()) < 1e-6, "a vote depends on other records"  # a vote adds .999
        return f"{n:,} records at the same points as on a CPU; parts of them vote as the whole does"

    return look


def _checked_steps(name: str, **settings: Any) -> Callable[[Bench], str]:
    """A few steps and some pictures: nothing is on two devices, and nothing fails."""

    def look(bench: Bench) -> str:
        given = {} if name == "privgan" else {"noise_multiplier": 1.0}
        if "steps" in METHODS[name].config_type.__dataclass_fields__ and name != "evolve":
            given["steps"] = 4
        training = _begun(bench, name, {**SMALL[name], **given, **settings}, bench.records[:200])
        done = 0
        for shown in itertools.islice(training.steps, 5):
            done += 1
            assert all(math.isfinite(float(value)) for value in (shown or {}).values())
        state = training.state()
        assert {p.device.type for p in state.released.parameters()} <= {bench.device.type}
        return f"{done} steps"

    return look


def check_fit(bench: Bench) -> str:
    """A whole run by the public function, stopped as by Ctrl-C in its midst, resumed, verified; samples come from the CPU."""
    records = bench.records[:300]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        np.savez(folder / "data.npz", images=records.images, labels=records.labels)
        card = DataCard(shape=(1, 28, 28), classes=10, declared_size=300, data_set="glyphs")

        def stop(event: Event) -> None:
            if event.kind == "step" and event.step == 20:
                os.kill(os.getpid(), signal.SIGINT)

        common: dict[str, Any] = {"accounts": folder / "accounts"}
        try:
            fit(
                "dpgan",
                data=folder / "data.npz",
                card=card,
                out=folder / "run",
                device=str(bench.device),
                steps=64,
                noise_multiplier=1.0,
                delta=1e-4,
                expected_batch_size=20,
                width=4,
                physical_batch_size=32,
                precision="bf16",
                **common,
                process=Process(sink=stop),
            )
            raise AssertionError("it did not stop")
        except Interrupted:
            pass
        samples = resume(folder / "run", **common).sample(4)
        problems = verify(folder / "run").problems
        assert not problems and len(samples) == 4, problems
    return "stopped, resumed, verified"


# ---------------------------------------------------------------------------------------------------------- timed runs


@dataclass
class _Begun:
    """A run in memory, step by step."""

    steps: Iterator[Any]
    state: Callable[[], Any]
    config: dict[str, Any]


def _begun(bench: Bench, method: str, settings: dict[str, Any], records: Records) -> _Begun:
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=max(len(records), 200))
    job = Job.of(METHODS[method], settings, card)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-9, relation=job.relation)
    ledger.reserve(job.plan)
    job = fitted(job, str(bench.device))
    training = job.begin(Rng(0), str(bench.device))

    def steps() -> Iterator[Any]:
        with full_precision():
            for reached in training.drive(
                Confined(records, ledger, training.run.rng), records if job.needs_public else None
            ):
                yield reached.logs

    return _Begun(steps(), lambda: training.state, job.settings)


def dpgan(bench: Bench) -> None:
    about = {"about", "records"}
    preset = {k: v for k, v in presets_of(METHODS["dpgan"])["paper-eps10-adaptive"].items() if k not in about}
    if bench.tiny:
        preset.update(width=4, expected_batch_size=16, physical_batch_size=32)
    _timed_prefixes(bench, "dpgan", "dpgan", preset, at_once=bench.size(5, 1))


def diffusion(bench: Bench) -> None:
    """60 epochs of N / B steps; the widths of the preset "unet", and 8 noise levels."""
    B = bench.size(4_096, 16)
    settings = {
        "network": "unet", "width": bench.size(32, 8), "depth": bench.size(2, 1), "multiplicity": bench.size(8, 2),
        "expected_batch_size": B, "steps": round(60 * N / B), "noise_multiplier": 1.0, "label_dropout": 0.1,
    }  # fmt: skip
    if bench.tiny:
        settings["physical_batch_size"] = 32
    _timed_prefixes(bench, "diffusion", "dp-diffusion", settings, at_once=1)


def _timed_prefixes(bench: Bench, part: str, method: str, settings: dict[str, Any], *, at_once: int) -> None:
    """Seconds per step in each precision, `at_once` steps between two synchronisations, and what the whole run would take."""
    share = bench.left / (1.3 * (len(PARTS) - PARTS.index(part)))
    for i, precision in enumerate(PRECISIONS):
        limit = share / (len(PRECISIONS) - i)
        begun = time.perf_counter()
        bench.peak()
        run = _begun(bench, method, {**settings, "precision": precision}, bench.records)
        for _ in range(bench.size(4, 1)):
            next(run.steps)
        bench.wait()
        ready, took = time.perf_counter(), list[float]()
        while (len(took) < bench.size(5, 2) or time.perf_counter() - begun < limit) and len(took) < bench.size(40, 2):
            at = time.perf_counter()
            for _ in range(at_once):
                next(run.steps)
            bench.wait()
            took.append((time.perf_counter() - at) / at_once)
        share -= time.perf_counter() - begun
        step = statistics.median(took)
        minutes = (ready - begun + step * settings["steps"]) / 60
        bench.note(part, precision, {
            "ms_per_step": 1e3 * step, "steps": settings["steps"], "projected_minutes": minutes, "goal_minutes": GOALS[part],
            "met": minutes <= GOALS[part], "start_seconds": ready - begun, "timed_steps": len(took) * at_once,
            "records_at_once": run.config["physical_batch_size"], "peak_gib": bench.peak(),
        })  # fmt: skip


# ------------------------------------------------------------------------------------------------- clipped, noise, graphs


def clipped(bench: Bench) -> None:
    """Forward, backward, Adam; and clipped sum, noise, Adam. Both on one flat vector, in turns."""
    n, width = bench.size(512, 8), bench.size(128, 8)
    parts = tuple(part.to(bench.device) for part in _batch("discriminator", n))
    batch, rng = Tensors(parts), Rng()
    for precision in PRECISIONS:
        D = Learner(_discriminator(width).to(bench.device), adam(2e-4, (0.5, 0.999)))
        query = _query(D.net, precision, n)

        def ordinary(D: Any = D, precision: Precision = precision) -> None:
            with lowered(precision, bench.device):
                mean = _loss(D.net, batch).mean()
                g = gradient(mean, D.net)
            D.step(g)

        def summed(query: Any = query) -> Tensor:
            return cast(Tensor, query.clipped_sum(batch, BOUNDS))

        def private(D: Any = D, summed: Callable[[], Tensor] = summed) -> None:
            D.step(rng.add_gaussian_(summed(), MAX_NORM).div_(n))

        with full_precision():
            one, two, three = (bench.seconds(work) for work in (ordinary, private, summed))
        bench.note("clipped", precision, {
            "ordinary_ms": 1e3 * one, "private_ms": 1e3 * two, "ratio": two / one, "clipped_sum_ms": 1e3 * three,
            "sum_ratio": three / one,
        })  # fmt: skip


def normals(bench: Bench) -> None:
    """Milliseconds for so many numbers; "sent" is what AES-128 on the CPU and the way to the GPU would cost."""
    for n in (bench.size(1_724_289, 1_001), bench.size(2_790_000, 2_001), bench.size(50_000_000, 4_001)):
        rng, out = Rng(), torch.zeros(n, device=bench.device)
        pairs = min((n + 1) // 2, noise._DEVICE_PAIRS)
        passes = math.ceil(n / (2 * pairs))
        room = torch.empty(WORDS, math.ceil(3 * pairs / WORDS), dtype=torch.int32, device=bench.device)
        made, aes = DeviceKeystream(None), Keystream(None)
        drawn = np.empty(12 * pairs + SPARE, np.uint8)

        def sent(aes: Any = aes, drawn: Any = drawn, pairs: int = pairs) -> None:
            aes.write(drawn.data, 12 * pairs)
            torch.from_numpy(drawn).to(bench.device)

        rounds = 5 if n > 10_000_000 else 20
        whole = bench.seconds(lambda rng=rng, out=out: rng.add_gaussian_(out, 1.0), rounds=rounds)
        stream = passes * bench.seconds(lambda made=made, room=room: made.write(room), rounds=rounds)
        aes_ms = passes * bench.seconds(sent, rounds=rounds)
        torchs = bench.seconds(lambda out=out: out.normal_(), rounds=rounds)
        bench.note("noise", f"{n:,} numbers", {
            "all_ms": 1e3 * whole, "chacha20_ms": 1e3 * stream, "aes_sent_ms": 1e3 * aes_ms, "all_with_aes_ms":
            1e3 * (whole - stream + aes_ms), "torch_normal_ms": 1e3 * torchs, "chacha20_graph_ms": _graphed(
                bench, lambda made=made, room=room: made.write(room), rounds=rounds, times=passes),
        })  # fmt: skip
    step = bench.found.get("dpgan", {}).get("fp32", {}).get("ms_per_step")
    if step:
        first = next(iter(bench.found["noise"].values()))
        bench.note("noise", "share of a step of dpgan in fp32", first["all_ms"] / step)


def _graphed(bench: Bench, work: Callable[[], object], *, rounds: int = 20, times: int = 1) -> float | str | None:
    """The same kernels as one CUDA graph: what is left when launching costs nothing. For measuring; nothing is drawn so."""
    if bench.device.type != "cuda":
        return None
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return 1e3 * times * bench.seconds(graph.replay, rounds=rounds)
    except RuntimeError as error:
        torch.cuda.synchronize()
        return f"cannot be captured: {str(error).splitlines()[0]}"


def graphs(bench: Bench) -> None:
    n = bench.size(512, 8)
    for name, width in (("discriminator", bench.size(128, 8)), ("unet", bench.size(32, 8))):
        for precision in PRECISIONS:
            net = NETS[name](width).to(bench.device)
            batch = Tensors(tuple(part.to(bench.device) for part in _batch(name, n)))

            def both(net: nn.Module = net, batch: Tensors = batch, precision: Precision = precision) -> None:
                with lowered(precision, bench.device):
                    torch.autograd.grad(_loss(net, batch).sum(), list(net.parameters()))

            with full_precision():
                eager, graph = 1e3 * bench.seconds(both), _graphed(bench, both)
            gain = 1 - graph / eager if isinstance(graph, float) else None
            bench.note("graphs", f"{name}, {precision}", {"eager_ms": eager, "graph_ms": graph, "saved": gain})
    for part, method in (("dpgan", "dpgan"), ("diffusion", "dp-diffusion")):
        bench.note("graphs", f"GPU busy in {part}", _busy(bench, method))


def _busy(bench: Bench, method: str) -> dict[str, Any] | None:
    """Share of the wall clock in which a kernel ran, over a few steps of a run, and the kernels of a step."""
    if bench.device.type != "cuda":
        return None
    settings: dict[str, Any] = {"width": 128, "expected_batch_size": 512, "discriminator_steps": 1}
    if method == "dp-diffusion":
        settings = {"network": "unet", "width": 32, "depth": 2, "expected_batch_size": 1_024}
    found = {}
    for precision in ("fp32", "bf16"):
        run = _begun(
            bench, method, {"noise_multiplier": 1.0, "steps": 1000, "precision": precision, **settings}, bench.records
        )
        for _ in range(4):
            next(run.steps)
        bench.wait()
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            begun = time.perf_counter()
            for _ in range(5):
                next(run.steps)
            bench.wait()
            wall = time.perf_counter() - begun
        kernels = [each for each in profile.events() if each.device_type == torch.autograd.DeviceType.CUDA]
        busy = sum(each.time_range.elapsed_us() for each in kernels) / 1e6
        dear = sorted(profile.key_averages(), key=lambda each: -each.self_device_time_total)[:6]
        found[precision] = {
            "busy_share": busy / wall, "kernels_per_step": len(kernels) / 5, "wall_ms_per_step": 200 * wall,
            "dearest": {each.key[:60]: round(each.self_device_time_total / 5e3, 3) for each in dear},
        }  # fmt: skip
    return found


# ---------------------------------------------------------------------------------------------------------------- main


def _records(data: str | None, n: int) -> Records:
    """Records from a folder, or drawn glyphs, some of them often: speed does not care."""
    if data is not None:
        card = DataCard(shape=(1, 28, 28), classes=10, declared_size=N)
        return DataSources.of(data).read_unconfined(card).private
    pool = draw(min(n, 2_000), seed=0)
    chosen = np.random.default_rng(0).integers(len(pool), size=n)
    return Records(pool.images[chosen], pool.labels[chosen])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small nets and few rounds: to see that every line runs")
    parser.add_argument("--data", help="a folder or file of 28x28 digits; without it, drawn glyphs")
    parser.add_argument("--minutes", type=float, default=9.0, help="no part begins later (default 9)")
    parser.add_argument("--only", nargs="*", default=PARTS, choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, help="a JSON file; without it, benchmarks/results/gpu-DATE.json")
    options = parser.parse_args(arguments)

    begun = time.perf_counter()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    out = options.out or Path(__file__).parent / "results" / f"gpu-{today}.json"
    device = torch.device(options.device)
    records = _records(options.data, 600 if options.tiny else N)
    bench = Bench(device, options.tiny, records, begun + 60 * options.minutes, out)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    bench.note("machine", "device", name)
    bench.note("machine", "torch", f"{torch.__version__}, CUDA {torch.version.cuda}")
    bench.note(
        "machine",
        "command",
        f"device {device}, tiny {options.tiny}, data {'given' if options.data else 'glyphs'}, {today}",
    )
    parts = {
        "check": check, "dpgan": dpgan, "diffusion": diffusion, "clipped": clipped, "noise": normals, "graphs": graphs,
    }  # fmt: skip
    for part in options.only:
        if bench.left < 0:
            bench.note("machine", f"left out: {part}", "no time was left")
            continue
        try:
            parts[part](bench)
        except Exception as error:  # the other parts go on
            traceback.print_exc()
            bench.note(part, "FAILED", f"{type(error).__name__}: {error}")
        bench.note("machine", f"seconds after {part}", time.perf_counter() - begun)


if __name__ == "__main__":
    main()
