"""Other packages, each run by the Python of its own environment. `peers/common.py` says what passes between the processes."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables.datasets import Dataset

SCRIPTS = Path(__file__).parent / "peers"
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
}


@dataclass(frozen=True)
class Peer:
    """A method of another package.

    Args:
        package: name of its environment, and of its script.
        method: its name in the script.
        version: of the package.
        settings: in place of its defaults; its row in a table names them.
    """

    package: str
    method: str
    version: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def script(self) -> Path:
        """What its Python runs."""
        return SCRIPTS / f"with_{self.package}.py"


PEERS = {
    "dpmm-mst": Peer("dpmm", "mst", "0.1.9"),
    "dpmm-aim": Peer("dpmm", "aim", "0.1.9", {"max_model_size": 80}),
    "dpmm-aim-1mb": Peer("dpmm", "aim", "0.1.9", {"max_model_size": 1}),
    "dpmm-aim-1mb-100": Peer("dpmm", "aim", "0.1.9", {"max_model_size": 1, "n_iters": 100}),
    "dpsynth-mst": Peer("dpsynth", "mst", "0.3.0"),
    "dpsynth-aim": Peer("dpsynth", "aim", "0.3.0"),
    "dpsynth-swift": Peer("dpsynth", "swift", "0.3.0"),
    "smartnoise-mst": Peer("smartnoise", "mst", "1.0.8"),
    "smartnoise-aim": Peer("smartnoise", "aim", "1.0.8"),
    "smartnoise-dpctgan": Peer("smartnoise", "dpctgan", "1.0.8"),
    "opendp-aim": Peer("opendp", "aim", "0.16.0"),
}


class PeerFailed(Exception):
    """A peer that ended without samples. Its last line of output is the message."""


def samples(
    peer: Peer,
    data: Dataset,
    epsilon: float,
    seed: int,
    settings: Mapping[str, Any],
    environments: Path,
    log: Path,
    limit: float | None = None,
) -> tuple[np.ndarray, dict[str, float]]:
    """As many samples as rows that were seen, int [N, columns], and the CPU and wall seconds of training and sampling.

    Args:
        peer: the method.
        data: the table.
        epsilon: for delta 1e-5.
        seed: for what the peer lets seed.
        settings: in place of those of the peer.
        environments: folder with an environment for each package.
        log: file for the peer's output, which shows how far it is.
        limit: seconds after which it is stopped.

    Raises:
        PeerFailed: it ended without samples.
    """
    with tempfile.TemporaryDirectory() as folder:
        task, made = Path(folder) / "task.npz", Path(folder) / "samples.npz"
        np.savez_compressed(task, codes=data.seen, domain=np.array(data.facts.domain), label=data.label)
        chosen = json.dumps({**peer.settings, **settings})
        python = environments / peer.package / "bin" / "python"
        words = [python, peer.script, task, made, peer.method, epsilon, seed, chosen]
        with log.open("w") as output:
            try:
                ended = subprocess.run(
                    [str(word) for word in words],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=os.environ | ONE_THREAD,
                    check=False,
                    timeout=limit,
                )
            except subprocess.TimeoutExpired:
                raise PeerFailed(f"not ended within {limit:g} s") from None
        if ended.returncode or not made.exists():
            raise PeerFailed((log.read_text().strip().splitlines() or ["no output"])[-1])
        with np.load(made) as file:
            return file["samples"], {"cpu": float(file["cpu"]), "wall": float(file["wall"])}
