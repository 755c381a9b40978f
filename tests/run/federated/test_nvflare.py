"""NVIDIA FLARE as the messenger, in its own simulator. Skipped where FLARE is not installed."""

import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="NVIDIA FLARE is not installed")

from nvflare.job_config.api import FedJob
from test_few import CARD, DELTA, EPSILON, NAMES, people, written_rows

from gossamer.run.release.verify import verify

EXAMPLE = Path(__file__).parents[3] / "examples" / "nvflare"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_federation_in_the_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sites answer, and the third refuses: its limit is too low. Nothing but its terminal says so."""
    monkeypatch.syspath_prepend(EXAMPLE)
    from gossamer_nvflare import Answer, Ask

    CARD.save(tmp_path / "card.toml")
    for number, name in enumerate(NAMES):
        written_rows(people(number), tmp_path / f"{name}.csv")
    (tmp_path / "answer").write_text(
        f"#!/bin/sh\ncase $1 in c) limit=0.1;; *) limit={EPSILON};; esac\nsite=$1; shift\n"
        f"exec {sys.executable} -m gossamer federated answer --data {tmp_path}/$site.csv --card {tmp_path}/card.toml "
        f'--epsilon $limit --delta {DELTA} --run {tmp_path}/$site --accounts {tmp_path}/log "$@"\n'
    )
    (tmp_path / "answer").chmod(0o755)
    monkeypatch.setenv("GOSSAMER_ANSWER", f"{tmp_path}/answer {{site}}")
    job = FedJob("few", min_clients=len(NAMES))
    job.to_server(Ask("marginals", str(tmp_path / "card.toml"), str(tmp_path / "centre"), EPSILON, DELTA, wait=120))
    for name in NAMES:
        job.to(Answer(), name, tasks=["answer"])
    job.simulator_run(str(tmp_path / "flare"), threads=len(NAMES))
    assert [verify(tmp_path / name).ok for name in ("centre", "a", "b")] == [True] * 3
    assert not (tmp_path / "c" / "ledger.jsonl").exists()
    shutil.rmtree(tmp_path / "flare")
