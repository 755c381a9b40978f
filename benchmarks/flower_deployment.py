"""A federation on loopback, by Flower's own processes: `python benchmarks/federated.py flower --out FOLDER`.

A SuperLink with TLS and SuperNode authentication, eight SuperNodes, and a records service before each. Two runs:

equal    test seeds and no faults. The weights have to be those of the central loop.
faults   secret noise. One records service and one SuperNode are killed (-9) and started again. The messenger of the last site
         lies: it sends rows that are not finite.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from centrally import SERVER_NOISE, centrally
from pki import Authority

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.tables.card import TableCard
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random import noise
from gossamer.run.cli.main import main as gossamer
from gossamer.run.federated import service
from gossamer.run.federated.questions import Answer, read, written
from gossamer.run.release.verify import verify

ROOT = Path(__file__).resolve().parents[1]
SITES = tuple(f"site-{number}" for number in range(8))
LIAR = SITES[-1]
CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=len(SITES), unit="client", data_set="federation")
SETTINGS: dict[str, Any] = {
    "answers": 2, "batch_size": 8, "visits": 1, "critic_steps": 2, "critic_batch_size": 8, "width": 2, "latent_size": 4,
    "warm_steps": 0, "generator": "dcgan",
}  # fmt: skip
EQUAL: dict[str, Any] = {**SETTINGS, "steps": 4, "noise_multiplier": 0.02}
FAULTS: dict[str, Any] = {**SETTINGS, "steps": 8, "noise_multiplier": 30.0, "critics": 5}
PATIENCE = 120.0  # seconds; a busy machine takes tens of seconds to start the eight processes of a round
REPEATS = f"""
from gossamer.privacy.random import noise
fresh = noise.Rng.__init__
noise.Rng.__init__ = lambda self, seed=0, **_: fresh(self, seed, noise_seed={SERVER_NOISE})
noise.round_to_grid_ = lambda values, _std: values
"""
"""Appended to the ServerApp of the equal run."""


def records(number: int) -> Records:
    """Random pictures of a site. uint8 [20, 1, 28, 28]"""
    draw = np.random.default_rng(number)
    return Records(draw.integers(0, 256, (20, 1, 28, 28)).astype(np.uint8), draw.integers(10, size=20))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def forked(act: Callable[[], object], log: Path) -> int:
    """The id of a process that does this, with its output in a log."""
    if (child := os.fork()) == 0:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        code = 1
        try:
            act()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)
    return child


class Deployment:
    """Flower's processes and the records services, with their keys and folders under `out`.

    Args:
        out: a new folder.
        card: that all have.
        data: file with the records of each site, by its name.
        limits: epsilon and delta of each site.
    """

    def __init__(
        self, out: Path, *, card: DataCard | TableCard, data: dict[str, Path], limits: tuple[float, float] = (60, 1e-3)
    ) -> None:
        for folder in ("tls", "keys", "logs", "home"):
            (out / folder).mkdir(parents=True)
        self.out, self.port, self.data, self.limits, self.names = out, free_port(), data, limits, tuple(data)
        self.popen: dict[str, subprocess.Popen[bytes]] = {}
        self.services: dict[str, int] = {}
        self.others: list[int] = []
        Authority(out / "tls").sign("server")
        card.save(out / "card.toml")
        sites = ""
        for name in self.names:
            key = out / "keys" / name
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-C", name, "-f", key], check=True
            )
            sites += key.with_suffix(".pub").read_text()
        (out / "sites.pub").write_text(sites)
        (out / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "centre"\n\n[superlink.centre]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{out}/tls/ca.pem"\n'
        )
        self.environment = {
            **os.environ, "FLWR_HOME": str(out / "home"), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        self.relays: dict[str, int] = {}
        self.bytes = RawArray("q", len(self.names))  # to each site and from it

    def start(self, name: str, *words: Any) -> None:
        """A process of Flower. It leads a group, so that its children end with it."""
        with (self.out / "logs" / f"{name}.log").open("ab") as log:
            self.popen[name] = subprocess.Popen(
                [str(word) for word in words], stdout=log, stderr=log, env=self.environment, start_new_session=True
            )

    def superlink(self) -> None:
        tls = self.out / "tls"
        self.start(
            "superlink", "flower-superlink", "--ssl-ca-certfile", tls / "ca.pem", "--ssl-certfile", tls / "server.pem",
            "--ssl-keyfile", tls / "server.key", "--enable-supernode-auth", "--disable-runtime-dependency-installation",
            "--host", "127.0.0.1", "--port", self.port,
        )  # fmt: skip
        until(lambda: reachable(self.port), "the SuperLink listens")
        register = [f"supernode register {self.out}/keys/{name}.pub".split() for name in self.names]
        line = f"from flwr.cli.app import app\nfor words in {register}: app(words, standalone_mode=False)"
        subprocess.run([sys.executable, "-c", line], env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def supernode(self, name: str) -> None:
        self.start(
            f"supernode-{name}", "flower-supernode", "--superlink", f"127.0.0.1:{self.relays[name]}", "--root-certificates",
            self.out / "tls" / "ca.pem", "--auth-supernode-private-key", self.out / "keys" / name, "--port", free_port(),
            "--node-config", f'socket="{self.out}/{name}.sock"',
        )  # fmt: skip

    def service(self, run: str, name: str, *, repeats: bool, at: str = "") -> None:
        """A records service, from a fork: what this process has imported need not be loaded again."""
        words = [
            "federated", "serve-records", "--data", self.data[name], "--card", self.out / "card.toml",
            "--epsilon", "inf" if repeats else self.limits[0], "--delta", self.limits[1], "--out", self.out / run / name,
            "--accounts", self.out / run / f"book-{name}", "--socket", self.out / f"{at or name}.sock",
        ]  # fmt: skip

        def serve() -> None:
            if repeats:
                fresh, number = noise.Rng.__init__, self.names.index(name)
                mock.patch.object(
                    noise.Rng, "__init__", lambda self, seed=0, **_: fresh(self, seed, noise_seed=number)
                ).start()
                mock.patch.object(noise, "round_to_grid_", lambda values, _std: values).start()
            gossamer([str(word) for word in words])

        self.services[name] = forked(serve, self.out / "logs" / f"{run}-{name}.log")

    def run(self, run: str, settings: dict[str, Any], app: Path) -> None:
        """`flwr run`, which streams the log of the ServerApp."""
        values = {
            "sites": str(self.out / "sites.pub"), "card": str(self.out / "card.toml"), "out": str(self.out / run / "server"),
            "delta": self.limits[1], "reply-timeout": PATIENCE, "wait": 1200.0,
            **{name.replace("_", "-"): value for name, value in settings.items()},
        }  # fmt: skip
        file = self.out / f"{run}.toml"
        file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))
        self.start(f"run-{run}", "flwr", "run", app, "centre", "--run-config", file, "--stream")

    def steps(self, run: str) -> int:
        """How many steps the server has shown."""
        events = self.out / run / "server" / "events.jsonl"
        lines = events.read_text().splitlines() if events.exists() else []
        return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)

    def count_bytes(self) -> None:
        """A TCP relay between each SuperNode and the SuperLink, in a process of its own."""
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in self.names]
        self.relays = {name: each.getsockname()[1] for name, each in zip(self.names, listeners, strict=True)}
        self.others.append(forked(lambda: relay(listeners, self.port, self.bytes), self.out / "logs" / "relay.log"))
        for each in listeners:
            each.close()

    def lie(self, name: str, liar: Callable[[Path, Path], None]) -> None:
        """A false messenger before the service of a site."""
        near, far = self.out / f"{name}.sock", self.out / f"{name}-true.sock"
        self.others.append(forked(lambda: liar(near, far), self.out / "logs" / "liar.log"))

    def stop_services(self) -> None:
        """As an operator does."""
        for child in self.services.values():
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
        self.services = {}

    def close(self) -> None:
        for process in self.popen.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        for child in [*self.services.values(), *self.others]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def superlink_seconds(self) -> float:
        """Processor seconds of the SuperLink until now."""
        words = Path(f"/proc/{self.popen['superlink'].pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def messages(self) -> np.ndarray:
        """How many messages each SuperNode has answered."""
        logs = [self.out / "logs" / f"supernode-{name}.log" for name in self.names]
        return np.array([log.read_text().count("Sent successfully") for log in logs])


def reachable(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def until(true: Callable[[], object], what: str, seconds: float = 1500.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"it never came that {what}")
        time.sleep(0.2)


def relay(listeners: list[socket.socket], port: int, counts: Any) -> None:
    """Pass on what comes, and count it for each site: TLS, HTTP and all."""

    def carry(source: socket.socket, sink: socket.socket, site: int) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
                with counting:
                    counts[site] += len(data)
            sink.shutdown(socket.SHUT_WR)

    def both(near: socket.socket, site: int) -> None:
        with near, socket.create_connection(("127.0.0.1", port)) as far:
            up = threading.Thread(target=carry, args=(near, far, site), daemon=True)
            up.start()
            carry(far, near, site)
            up.join()

    def accept(site: int) -> None:
        while True:
            near, _ = listeners[site].accept()
            threading.Thread(target=both, args=(near, site), daemon=True).start()

    counting = threading.Lock()
    for site in range(1, len(listeners)):
        threading.Thread(target=accept, args=(site,), daemon=True).start()
    accept(0)


def rows_that_are_not_finite(reply: str) -> str:
    """Replace the rows in a reply."""
    answer = read(Answer, reply)
    return reply if answer.values is None else written(replace(answer, values=answer.values / 0))


def liar(near: Path, far: Path, alter: Callable[[str], str] = rows_that_are_not_finite) -> None:
    """Pass on all questions, and alter answers."""
    with service.listening(near, None) as listener:
        listener.settimeout(None)
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as stream, socket.socket(socket.AF_UNIX) as true:
                length = stream.read(8)
                true.connect(str(far))
                true.sendall(length + stream.read(int.from_bytes(length)))
                with true.makefile("rb") as replies:
                    data = alter(replies.read(int.from_bytes(replies.read(8))).decode()).encode()
                stream.write(len(data).to_bytes(8) + data)


def equal(all_of: Deployment) -> dict[str, Any]:
    """A run under test seeds: its weights, and bytes and seconds of a step."""
    app = shutil.copytree(ROOT / "examples" / "flower", all_of.out / "app")
    with (app / "gossamer_flower" / "server_app.py").open("a") as file:
        file.write(REPEATS)
    for name in SITES:
        all_of.service("equal", name, repeats=True)
    all_of.run("equal", {**EQUAL, "accounts": str(all_of.out / "equal" / "book-server")}, app)
    until(lambda: all_of.steps("equal") >= 1, "the first step is done")
    began, before, processor = time.monotonic(), np.array(all_of.bytes), all_of.superlink_seconds()
    answered = all_of.messages()
    until(lambda: all_of.steps("equal") >= EQUAL["steps"], "the last step is done")
    seconds, moved = time.monotonic() - began, np.array(all_of.bytes) - before
    answered, processor = all_of.messages() - answered, all_of.superlink_seconds() - processor
    status = all_of.popen["run-equal"].wait(1500)
    all_of.stop_services()
    noise.round_to_grid_ = lambda values, _std: values
    expected = centrally([records(number) for number in range(len(SITES))], CARD, EQUAL)
    net = Synthesizer.load(all_of.out / "equal" / "server").net
    found = torch.cat([value.reshape(-1) for value in net.state_dict().values()])
    rounds = EQUAL["steps"] - 1
    idle = float(moved[answered == 0].mean())  # polls and heartbeats, which the others have too
    more = float((moved - idle)[answered > 0].sum())
    return {
        "status": status, "largest_difference_of_weights": float((found - expected).abs().max()),
        "seconds_per_step": round(seconds / rounds, 1), "bytes_of_an_idle_site_per_step": round(idle / rounds),
        "messages": int(answered.sum()), "bytes_of_a_message": round(more / int(answered.sum())),
        "superlink_processor_seconds": round(processor, 1),
        "folders": verified(all_of, "equal", SITES),
    }  # fmt: skip


def faults(all_of: Deployment) -> dict[str, Any]:
    """A run with two kills and a liar."""
    for name in SITES:
        all_of.service("faults", name, repeats=False, at=f"{LIAR}-true" if name == LIAR else "")
    all_of.lie(LIAR, liar)
    began = time.monotonic()
    all_of.run(
        "faults", {**FAULTS, "accounts": str(all_of.out / "faults" / "book-server")}, ROOT / "examples" / "flower"
    )
    until(lambda: all_of.steps("faults") >= 2, "two steps are done")
    os.kill(all_of.services[SITES[1]], signal.SIGKILL)
    os.waitpid(all_of.services[SITES[1]], 0)
    os.killpg(all_of.popen[f"supernode-{SITES[2]}"].pid, signal.SIGKILL)
    killed, goal = all_of.steps("faults"), all_of.steps("faults") + 2
    until(lambda: all_of.steps("faults") >= goal, "it goes on without them")
    all_of.service("faults", SITES[1], repeats=False)
    starts = 0
    while all_of.popen["run-faults"].poll() is None:
        if all_of.popen[f"supernode-{SITES[2]}"].poll() is not None:
            all_of.supernode(SITES[2])  # as `Restart=always` does
            starts += 1
        time.sleep(2)
    status, seconds = all_of.popen["run-faults"].wait(), time.monotonic() - began
    all_of.stop_services()
    log = (all_of.out / "logs" / "run-faults.log").read_text(errors="replace").replace("\r", "\n")
    return {
        "status": status, "seconds": round(seconds), "killed_at_step": killed, "starts_of_the_killed_supernode": starts,
        "server_notes": sorted({line.strip() for line in log.splitlines() if line.startswith("site-")}),
        "folders": verified(all_of, "faults", [name for name in SITES if name != LIAR]),
    }  # fmt: skip


def verified(all_of: Deployment, run: str, names: Any) -> dict[str, Any]:
    """Whether each folder verifies, and what its ledger says."""
    found = {}
    for name in ("server", *names):
        folder = all_of.out / run / name
        ledger = PrivacyLedger.load(folder / "ledger.jsonl")
        charged, reserved = sum(count for _, count in ledger.charged), sum(count for _, count in ledger.plan)
        found[name] = {
            "verifies": verify(folder).ok,
            "answers": f"{charged} of {reserved}",
            "guarantee": ledger.promise(),
        }
    return found


def flower(out: Path) -> None:
    """Both runs on one deployment. Prints a JSON object for each."""
    out = out.resolve()
    data = {name: out.with_name(f"{out.name}-data") / f"{name}.npz" for name in SITES}
    for number, file in enumerate(data.values()):
        held = records(number)
        file.parent.mkdir(exist_ok=True)
        np.savez(file, images=held.images, labels=held.labels)
    all_of = Deployment(out, card=CARD, data=data)
    try:
        all_of.count_bytes()
        all_of.superlink()
        for name in SITES:
            all_of.supernode(name)
        for run in (equal, faults):
            print(json.dumps({"run": run.__name__, "sites": len(SITES), **run(all_of)}, default=str), flush=True)
    finally:
        all_of.close()
