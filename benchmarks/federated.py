"""Federated GS-WGAN: the debugging task, a deployment on loopback, bytes on the wire, and what an honest epsilon takes.

    python benchmarks/federated.py debug --out /tmp/debug       section 5.4 of Chen et al. (2020), on the writers of MNIST
    python benchmarks/federated.py curve                        epsilon against the number of clients, by accounting alone
    python benchmarks/federated.py deploy --out /tmp/deploy     1 server, 8 clients, TLS, kills, a liar, a resume
    python benchmarks/federated.py bytes                        per client and step, on the wire, beside Fed-Avg GAN

Each prints what `docs/federated.md` states. It needs the extra `federated`; `debug` needs ../shared/data too.
"""

import argparse
import dataclasses
import gzip
import json
import math
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Message, RecordDict
from matplotlib.figure import Figure
from torch import nn

import fed_avg_gan
from gossamer.data.card import DataCard
from gossamer.data.fingerprint import identify
from gossamer.data.readers.read import read
from gossamer.data.records import Records
from gossamer.methods.common.adversarial import Fakes
from gossamer.methods.gs_wgan import GsWgan
from gossamer.privacy.accounting import calibrate, cost, events, federated
from gossamer.privacy.certificate.statements import NO_PUBLIC, NO_UNITS
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.run.cli.main import main as gossamer
from gossamer.run.federated import client as client_module
from gossamer.run.federated import messages
from gossamer.run.federated.link import Identity, Link, attend
from gossamer.run.federated.simulate import simulate
from gossamer.run.release.verify import verify
from gossamer.run.storage.data_sources import DataFacts, DataSources, RawData
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training.progress import Terminal

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "fixtures"))
from pki import Authority

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


# ---------------------------------------------------------------------- the debugging task


def writers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """MNIST's training pictures, labels and writers. uint8 [60000, 28, 28], [60000], int16 [60000]."""

    def idx(name: str, skip: int) -> np.ndarray:
        with gzip.open(SHARED / "mnist" / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=skip)

    images = idx("train-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
    whose = np.load(SHARED / "mnist_writers" / "mnist_writer_ids.npz")["train_writer"]
    return images, idx("train-labels-idx1-ubyte.gz", 8), whose


@dataclass(frozen=True)
class Population:
    """Clients of one debugging run, on disk for `simulate`, with the card that all have."""

    name: str
    file: Path
    card: DataCard

    @property
    def records(self) -> Records:
        return read(str(self.file), split="train", units=":units", **self.card.reading)


def populations(out: Path) -> dict[str, Population]:
    """Suspected writers, every other of whom has dark and light exchanged; the other writers; and all of them, as they are."""
    images, labels, whose = writers()
    names = np.unique(whose)
    suspected, others = names[::2], names[1::2]
    found = {}
    for name, members in {"suspected": suspected, "others": others, "all": names}.items():
        mine = np.isin(whose, members)
        inverted = mine & np.isin(whose, suspected[::2]) & (name == "suspected")
        shown = np.where(inverted[:, None, None], 255 - images, images)
        np.savez(out / f"{name}.npz", images=shown[mine], labels=labels[mine], units=whose[mine])
        card = DataCard(
            shape=(1, 28, 28), classes=10, declared_size=len(members), unit="writer", title=f"{name} writers"
        )
        found[name] = Population(name, out / f"{name}.npz", card)
    return found


def light(images: np.ndarray) -> float:
    """The share of pictures whose corners are light: uint8 [n, 1, 28, 28]. Of MNIST's, none; exchanged, all."""
    corners = images[:, 0, [0, 0, 1, 1, -1, -1, -2, -2], [0, 1, 0, 1, -1, -2, -1, -2]]
    return float((corners.mean(1) > 127).mean())


def debug(out: Path, settings: dict[str, Any], fed_avg: dict[str, Any], asked: argparse.Namespace) -> None:
    """Both systems on both populations: the figures of each run, and a sheet of the samples of all that `out` has by now."""
    out.mkdir(parents=True, exist_ok=True)
    for name, of in populations(out).items():
        for system in asked.systems:
            if name not in asked.which:
                continue
            began, cpu = time.monotonic(), time.process_time()
            run = gs_wgan if system == "GS-WGAN" else fed_avg_gan_of
            sample, said = run(of, out / name, settings, fed_avg, asked)
            np.save(out / f"{system}, {name}.npy", sample(80, np.tile(np.arange(10), 8)))
            many = sample(1000, None)
            said |= {
                "seconds": round(time.monotonic() - began), "cpu_seconds": round(time.process_time() - cpu),
                "peak_memory_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "light": light(many), "light_records": light(of.records.images),
                "mean": float(many.mean()), "mean_records": float(of.records.images.mean()),
            }  # fmt: skip
            print(system, name, json.dumps(said, indent=1), flush=True)
            sheet(out)


Sampler = Callable[[int, np.ndarray | None], np.ndarray]
"""How many, and of which labels (None: by the prior): uint8 [n, 1, 28, 28]."""


def gs_wgan(
    of: Population, out: Path, settings: dict[str, Any], _: dict[str, Any], asked: argparse.Namespace
) -> tuple[Sampler, dict[str, Any]]:
    """GS-WGAN by `simulate`, with a folder and a certificate for each client."""
    with Terminal() as terminal:
        made = simulate(
            data=of.file, units=":units", card=of.card, out=out, epsilon=asked.epsilon, delta=asked.delta,
            public=asked.public or None, seed=asked.seed, accounts=out.parent / f"book-{of.name}", sink=terminal, **settings,
        )  # fmt: skip
    said = {
        "clients": of.card.declared_size, "views": made.certificate.facts.get("views"),
        "noise_multiplier": made.certificate.config["noise_multiplier"],
        "disk_MB": sum(each.stat().st_size for each in out.rglob("*") if each.is_file()) // 2**20,
        "server_verifies": verify(out).ok,
    }  # fmt: skip
    if asked.verify_clients:
        said["clients_that_verify"] = sum(verify(one).ok for one in (out / "checkpoint" / "clients").iterdir())
    return lambda n, labels: made.sample(n, labels=labels, seed=1).images, said


def fed_avg_gan_of(
    of: Population, _: Path, settings: dict[str, Any], fed_avg: dict[str, Any], asked: argparse.Namespace
) -> tuple[Sampler, dict[str, Any]]:
    """Fed-Avg GAN, with the networks, the critic steps and the public start of the other."""
    config = GsWgan().config_type(**{"noise_multiplier": 0.0, **settings, **FED_AVG_CRITIC})
    public = read(asked.public, split="train", **of.card.reading) if asked.public else None
    net, guarantee, noise = fed_avg_gan.simulate(
        of.records, of.card, public, config, fed_avg_gan.Settings(**fed_avg), epsilon=asked.epsilon, delta=asked.delta,
        seed=asked.seed,
    )  # fmt: skip
    job = GsWgan().job(dataclasses.asdict(config), of.card)

    def sample(n: int, labels: np.ndarray | None) -> np.ndarray:
        given = None if labels is None else torch.from_numpy(labels)
        images, _ = job.sample(net.eval(), n, given, torch.Generator().manual_seed(1))
        return (images * 255).round().to(torch.uint8).numpy()

    said = {"clients": of.card.declared_size, "guarantee": str(guarantee), "noise_multiplier": noise}
    return sample, said


def sheet(out: Path) -> None:
    """samples.png: a row for each system, a panel for each population: ten classes across, eight samples of each."""
    files = sorted(out.glob("*.npy"))
    systems = sorted({file.stem.split(", ")[0] for file in files}, reverse=True)
    names = sorted({file.stem.split(", ")[1] for file in files}, reverse=True)
    figure = Figure(figsize=(4.2 * len(names), 3.7 * len(systems)), dpi=110)
    for file in files:
        system, name = file.stem.split(", ")
        axes = figure.add_subplot(len(systems), len(names), systems.index(system) * len(names) + names.index(name) + 1)
        tiles = np.load(file).reshape(8, 10, 28, 28).transpose(0, 2, 1, 3).reshape(8 * 28, 10 * 28)
        axes.imshow(tiles, cmap="gray", vmin=0, vmax=255)
        axes.set_title(file.stem)
        axes.set_axis_off()
    figure.savefig(out / "samples.png", bbox_inches="tight")


# ---------------------------------------------------------------------- a deployment on loopback

GOSSAMER = [sys.executable, "-c", "from gossamer.run.cli.main import main; main()"]
CLIENTS, QUORUM = 8, 5
DEPLOY: dict[str, Any] = {
    "steps": 1500, "batch_size": 8, "visits": 4, "critic_steps": 2, "critic_batch_size": 16, "width": 4, "latent_size": 8,
    "warm_steps": 5, "generator": "dcgan", "noise_multiplier": 30.0, "critics": QUORUM, "answers": 2,
}  # fmt: skip


class Processes:
    """A server and clients of a deployment: the command line, each with its own folders."""

    def __init__(self, out: Path) -> None:
        self.out, self.running = out, {}  # type: dict[str, subprocess.Popen[bytes]]
        for folder in ("papers", "data", "logs"):
            (out / folder).mkdir(parents=True)
        authority = Authority(out / "papers")
        authority.sign("server", server=True)
        draw = np.random.default_rng(0)
        for name in self.names:
            authority.sign(name)
            n = int(draw.integers(20, 60))
            np.savez(
                out / "data" / name,
                images=draw.integers(0, 256, (n, 28, 28), np.uint8),
                labels=draw.integers(10, size=n),
            )
        card = DataCard(shape=(1, 28, 28), classes=10, declared_size=CLIENTS, unit="client", data_set="federation")
        card.save(out / "card.toml")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    names = tuple(f"client-{number}" for number in range(CLIENTS))

    def start(self, name: str, *words: Any, malicious: bool = False) -> None:
        """A process, its output appended to its log."""
        papers = self.out / "papers"
        common = ["--ca", papers / "ca.pem", "--certificate", papers / f"{name}.pem", "--key", papers / f"{name}.key",
                  "--card", self.out / "card.toml", "--out", self.out / name, "--accounts", self.out / f"book-{name}",
                  "--delta", 1e-3]  # fmt: skip
        if name == "server":
            program = [*GOSSAMER, "federated", "server", "--address", f"127.0.0.1:{self.port}"]
        else:
            program = [sys.executable, __file__, "liar"] if malicious else [*GOSSAMER]
            program += ["federated", "client", "--server", f"127.0.0.1:{self.port}", "--epsilon", 60,
                        "--data", self.out / "data" / f"{name}.npz"]  # fmt: skip
        log = (self.out / "logs" / f"{name}.log").open("ab")
        line = [str(word) for word in [*program, *common, *words]]
        self.running[name] = subprocess.Popen(line, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def kill(self, name: str) -> None:
        """As the kernel does when memory runs out."""
        self.running[name].send_signal(signal.SIGKILL)
        self.running[name].wait()

    def log(self, name: str) -> str:
        return (self.out / "logs" / f"{name}.log").read_text(errors="replace")

    def steps(self) -> int:
        """How many steps the server has shown."""
        events = self.out / "server" / "events.jsonl"
        if not events.exists():
            return 0
        lines = events.read_text().splitlines()
        return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)

    def until(self, steps: int) -> None:
        while self.steps() < steps:
            if (ended := self.running["server"].poll()) is not None:
                raise SystemExit(f"the server ended with {ended}:\n{self.log('server')[-2000:]}")
            time.sleep(0.2)


def deploy(out: Path) -> None:
    """The story of the issue, told to the end: who was killed, who lied, and whose folder verifies."""
    began = time.monotonic()
    all_of = Processes(out)
    flags = [word for name, value in DEPLOY.items() for word in (f"--{name.replace('_', '-')}", value)]
    patient = ["--patience", 20, "--wait", 120]
    all_of.start("server", *flags, *patient)
    for name in all_of.names[:-1]:
        all_of.start(name, malicious=name == "client-7")
    all_of.until(20)
    all_of.start(all_of.names[-1], malicious=True)  # comes late, and lies
    all_of.until(40)
    all_of.kill("client-1")
    all_of.kill("client-2")
    killed_at = all_of.steps()
    all_of.until(60)
    all_of.start("client-1")
    all_of.start("client-2")
    while "answers:" not in all_of.log("client-1").rpartition("came after")[2]:
        time.sleep(0.2)
    all_of.until(all_of.steps() + 40)
    all_of.kill("server")
    server_at = all_of.steps()
    time.sleep(3)
    all_of.start("server", "--resume", *patient)
    ended = {name: process.wait(300) for name, process in all_of.running.items() if name != "client-7"}
    all_of.running["client-7"].kill()
    print(
        f"ended: {ended}; {time.monotonic() - began:.0f} s; clients killed at step {killed_at}, the server at {server_at}"
    )
    for name in ("server", *all_of.names[:-1]):
        verdict, ledger = verify(out / name), PrivacyLedger.load(out / name / "ledger.jsonl")
        paid, reserved = sum(n for _, n in ledger.charged), sum(n for _, n in ledger.plan)
        print(f"{name}: verified {verdict.ok}, {paid} of {reserved} charges, {ledger.promise()}")
    print("what the server said:")
    for line in dict.fromkeys(all_of.log("server").replace("\r", "\n").splitlines()):
        if not line.startswith("training"):
            print("   ", line.strip())


def liar(words: list[str]) -> None:
    """A client of the real program, but for its rows: none of them is finite."""
    honest = client_module.rows_record
    client_module.rows_record = lambda rows: honest(torch.full_like(rows, math.nan))  # type: ignore[assignment]  # the liar
    gossamer(words)


# ---------------------------------------------------------------------- what an honest epsilon takes


def curve() -> None:
    """Epsilon at T = 20,000 answers and the published noise, against the number of clients; delta 1 / (10 clients)."""
    print("| clients | answers of a client, expected / granted | against the release | against the server |")
    print("|---|---|---|---|")
    answers, noise = 20_000, 1.07
    for clients in (269, 539, 3_400, 10_000, 100_000, 1_000_000):
        delta = min(1e-5, 0.1 / clients)
        plan = events.plan_of(draw="secret", critics=clients, batch_size=1, noise_multiplier=noise, steps=answers)
        release = cost.guarantee(plan, delta=delta, relation=events.relation_of("secret"), unit="client").epsilon
        granted = federated.enough(answers=answers, critics=clients, clients=clients)
        server = federated.against_server({
            "config": {"batch_size": 1, "noise_multiplier": noise}, "federated": {"answers": granted},
            "card": {"unit": "client"}, "delta": delta,
        }).epsilon  # fmt: skip
        print(f"| {clients:,} | {answers / clients:.3g} / {granted} | {release:.3f} | {server:.1f} |", flush=True)
    print()
    print("| clients | noise multiplier for epsilon 10 against the release | for 10 against the server |")
    print("|---|---|---|")
    for clients in (269, 539, 3_400, 1_000_000):
        delta = min(1e-5, 0.1 / clients)
        needed = calibrate.calibrate_noise(
            lambda s, k=clients: events.plan_of(draw="secret", critics=k, batch_size=1, noise_multiplier=s, steps=answers),
            epsilon=10.0, delta=delta, relation=events.relation_of("secret"), unit="client",
        )  # fmt: skip
        granted = federated.enough(answers=answers, critics=clients, clients=clients)
        alone = calibrate.calibrate_noise(
            lambda s, n=granted: events.plan_of(draw="round_robin", critics=1, batch_size=1, noise_multiplier=s, steps=n),
            epsilon=10.0, delta=delta, relation=events.relation_of("round_robin"), unit="client",
        )  # fmt: skip
        print(f"| {clients:,} | {needed:.3f} | {alone:.3f} |", flush=True)


# ---------------------------------------------------------------------- bytes on the wire


class Relay:
    """A TCP relay that counts what goes either way: TLS, HTTP/2 and all."""

    def __init__(self, port: int) -> None:
        self.up = self.down = 0
        self._to, self._listener = port, socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(("127.0.0.1", self._to))
            threading.Thread(target=self._carry, args=(near, far, "up"), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, "down"), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        while data := source.recv(1 << 16):
            sink.sendall(data)
            setattr(self, way, getattr(self, way) + len(data))


def fed_avg_nets() -> tuple[nn.Module, nn.Module]:
    """Generator and discriminator of Fed-Avg GAN (Augenstein et al. 2020), by their published layers."""
    G = nn.Sequential(
        nn.Linear(128, 1024), nn.BatchNorm1d(1024), nn.Linear(1024, 7 * 7 * 256), nn.BatchNorm1d(7 * 7 * 256),
        nn.Unflatten(1, (256, 7, 7)), nn.ConvTranspose2d(256, 64, 4, 2, 1), nn.ConvTranspose2d(64, 32, 4, 2, 1),
        nn.Conv2d(32, 1, 3, 1, 1),
    )  # fmt: skip
    D = nn.Sequential(
        nn.Conv2d(1, 64, 4, 2, 1), nn.Conv2d(64, 128, 4, 2, 1), nn.Flatten(), nn.Linear(7 * 7 * 128, 1024),
        nn.BatchNorm1d(1024), nn.Linear(1024, 1),
    )  # fmt: skip
    return G, D


def of_weights(**nets: nn.Module) -> RecordDict:
    return RecordDict({
        name: ArrayRecord({key: Array(value.numpy()) for key, value in net.state_dict().items()}) for name, net in nets.items()
    })  # fmt: skip


def measured(title: str, app: Any, folder: Path, contents: list[tuple[str, RecordDict]], rounds: int) -> None:
    """Bytes of a client's round, the first one left out: it has the handshake."""
    authority = Authority(folder)
    authority.sign("server", server=True)
    authority.sign("client")
    of = {
        name: Identity(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")
        for name in ("server", "client")
    }
    stop = threading.Event()
    with Link("127.0.0.1:0", of["server"], clients=1, largest=1 << 28) as link:
        relay = Relay(link.port)
        threading.Thread(
            target=attend, args=(app, f"127.0.0.1:{relay.port}", of["client"]),
            kwargs={"until": stop.is_set, "wait": 10, "say": lambda _: None}, daemon=True,
        ).start()  # fmt: skip
        while "client" not in link.present():
            time.sleep(0.05)
        node = link.present()["client"]
        for kind, content in contents[:-1]:
            list(link.send_and_receive([messages.to_client(node, kind, content)]))
        kind, content = contents[-1]
        list(link.send_and_receive([messages.to_client(node, kind, content)]))
        time.sleep(0.5)
        up, down = relay.up, relay.down
        for _ in range(rounds):
            (answer,) = link.send_and_receive([messages.to_client(node, kind, content)])
            assert not answer.has_error(), answer.error
        time.sleep(0.5)
        to, back = (relay.down - down) / rounds, (relay.up - up) / rounds
        print(f"| {title} | {to:,.0f} | {back:,.0f} | {to + back:.3g} |", flush=True)
        stop.set()


def wire() -> None:
    """A round of each kind, through TLS, with 24 rows as in the paper."""
    print("| a client's round | bytes to the client | bytes from it | together |")
    print("|---|---|---|---|")
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=4, unit="client")
    config = GsWgan().config_type(noise_multiplier=1.0, batch_size=24, critic_batch_size=24, width=4, generator="dcgan",
                                  warm_steps=0, critics=4)  # fmt: skip
    terms = {"config": dataclasses.asdict(config), "card": card.to_dict(), "seed": 0, "answers": 200}
    fakes = Fakes(torch.rand(24, 1, 28, 28), torch.zeros(24, dtype=torch.int64))
    held = Records(np.zeros((30, 1, 28, 28), np.uint8), np.zeros(30, np.int64))
    data = RawData(None, DataFacts(public=NO_PUBLIC, units=NO_UNITS, identity=identify(held)), held)
    rounds = {
        "GS-WGAN, answers": messages.Round(None, [fakes]), "GS-WGAN, trains": messages.Round(fakes, []),
        "GS-WGAN, trains and answers": messages.Round(fakes, [fakes]),
    }  # fmt: skip
    for title, asked in rounds.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            one = client_module.Client(
                folder=RunFolder(folder / "run"), sources=DataSources(data="d"), card=card,
                records=lambda _, ledger: data.confine(ledger),
                epsilon=math.inf, delta=1e-3, accounts=False,
            )  # fmt: skip
            contents = [(messages.TERMS, messages.terms_record(terms)), (messages.ROUND, messages.round_record(asked))]
            measured(title, one.app, folder, contents, 20)
            one.close()
    G, D = fed_avg_nets()

    def fed_avg(message: Message, _context: Any) -> Message:
        return messages.reply(message, RecordDict({"D": message.content["D"]}))

    with tempfile.TemporaryDirectory() as name:
        contents = [(messages.ROUND, of_weights(G=G, D=D))]
        measured("Fed-Avg GAN: G and D out, D's change back", fed_avg, Path(name), contents, 3)


def main() -> None:
    if sys.argv[1:2] == ["liar"]:
        liar(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["debug", "curve", "deploy", "bytes"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--delta", type=float, default=1e-3)
    parser.add_argument("--public", default="glyphs", help='public records of the server; "": none')
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--which", nargs="*", default=["suspected", "others"])
    parser.add_argument("--systems", nargs="*", default=["GS-WGAN", "Fed-Avg GAN"])
    parser.add_argument("--verify-clients", action="store_true", help="verify each client's folder too")
    parser.add_argument("--settings", type=json.loads, default={}, help="JSON: fields of the method's Config")
    parser.add_argument("--fed-avg", type=json.loads, default={}, help="JSON: fields of fed_avg_gan.Settings")
    asked = parser.parse_args()
    if asked.what == "debug":
        debug(asked.out, {**DEBUG, **asked.settings}, {**FED_AVG, **asked.fed_avg}, asked)
    if asked.what == "deploy":
        deploy(asked.out)
    if asked.what == "curve":
        curve()
    if asked.what == "bytes":
        wire()


DEBUG: dict[str, Any] = {
    "steps": 100, "answers": 64, "batch_size": 1, "visits": 20, "critic_steps": 2, "critic_batch_size": 16,
    "critic_learning_rate": 2e-3, "generator": "dcgan", "generator_learning_rate": 1e-3, "latents": "normal", "width": 8,
    "average_decay": 0.9, "warm_steps": 3, "warm_stack": 1, "public_steps": 600, "public_learning_rate": 5e-4,
}  # fmt: skip
FED_AVG: dict[str, Any] = {"rounds": 40, "clients_per_round": 27, "max_norm": 0.1, "generator_steps": 6}
FED_AVG_CRITIC = {"critic_steps": 6, "critic_batch_size": 32}
"""Of Augenstein et al. (2020), where the other takes `DEBUG`'s."""


if __name__ == "__main__":
    main()
