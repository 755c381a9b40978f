"""What passes between the benchmark and a peer, with a stand-in for the peer's package."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from test_table_scores import DATA

from benchmarks.tables import peers
from benchmarks.tables.peers import PEERS, Peer, PeerFailed

STAND_IN = """
import sys
sys.path.insert(0, {scripts!r})
from common import run
def samples(task):
    print("round 1", task.method, task.epsilon, task.delta, task.seed, task.settings, task.domain)
    if task.method == "broken":
        raise ValueError("no such thing")
    return task.codes[::-1]
run(samples)
"""


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment whose Python is this one, and the script of its package."""
    script = tmp_path / "with_toy.py"
    script.write_text(STAND_IN.format(scripts=str(peers.SCRIPTS)))
    monkeypatch.setattr(peers, "SCRIPTS", tmp_path)
    python = tmp_path / "toy" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return tmp_path


def test_a_peer_gets_the_codes_and_its_samples_come_back(environments: Path, tmp_path: Path):
    peer = Peer("toy", "reverse", "1", {"rounds": 3, "size": 1})
    made, seconds = peers.samples(peer, DATA, 1.0, 7, {"size": 2}, environments, tmp_path / "log")
    np.testing.assert_array_equal(made, DATA.seen[::-1])
    assert seconds["cpu"] >= 0
    assert seconds["wall"] > 0
    assert (tmp_path / "log").read_text() == "round 1 reverse 1.0 1e-05 7 {'rounds': 3, 'size': 2} (3, 2, 2)\n"


def test_a_peer_that_fails_leaves_its_last_line(environments: Path, tmp_path: Path):
    with pytest.raises(PeerFailed, match=r"^ValueError: no such thing$"):
        peers.samples(Peer("toy", "broken", "1"), DATA, 1.0, 0, {}, environments, tmp_path / "log")


def test_every_peer_has_a_script():
    assert all(peer.script.exists() for peer in PEERS.values())
    assert json.dumps([dict(peer.settings) for peer in PEERS.values()])
