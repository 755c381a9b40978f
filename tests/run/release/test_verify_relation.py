"""A run that is certified under another relation than its settings are accounted for does not verify."""

import json
from pathlib import Path

import numpy as np
import pytest

from gossamer.data.card import DataCard
from gossamer.files import CERTIFICATE, CONFIG, LEDGER, MODEL
from gossamer.privacy import ledger as ledgers
from gossamer.privacy.certificate.certificate import Certificate, sha256
from gossamer.privacy.guarantee import RELATIONS
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit

CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=12)


@pytest.mark.parametrize(
    ("draw", "honest", "other"),
    [
        pytest.param("secret", "replace-one", "add-or-remove-one", marks=pytest.mark.slow),
        ("paper", "add-or-remove-one", "replace-one"),
    ],
)
@pytest.mark.filterwarnings("ignore:Nearly every picture is one shade")
def test_a_certificate_of_another_relation_does_not_verify(tmp_path: Path, draw: str, honest: str, other: str) -> None:
    """Its accountants know the plan under both, and ledger and certificate agree: the settings alone show it."""
    np.savez(tmp_path / "data.npz", images=np.zeros((12, 28, 28), np.uint8), labels=np.arange(12) % 2)
    run = tmp_path / "run"
    fit(
        "gs-wgan", data=tmp_path / "data.npz", card=CARD, out=run, accounts=tmp_path / "accounts", noise_multiplier=40.0,
        delta=1e-3, draw=draw, critics=3, steps=4, batch_size=2, critic_steps=1, critic_batch_size=2, visits=1, width=2,
        latent_size=4, warm_steps=0, generator="dcgan",
    )  # fmt: skip
    assert verify(run).ok
    last, lines = "0" * 32, ""
    for line in map(json.loads, (run / LEDGER).read_text().splitlines()):
        del line["hash"]
        if "open" in line:
            assert line["open"]["relation"] == honest
            line["open"]["relation"] = other
        last = ledgers.chain(last, line)
        lines += json.dumps({**line, "hash": last}) + "\n"
    (run / LEDGER).write_text(lines)
    ledger, stated = PrivacyLedger.load(run / LEDGER), json.loads((run / CERTIFICATE).read_text())
    assert ledger.relation is RELATIONS[other]
    Certificate.build(
        ledger, json.loads((run / CONFIG).read_text()), model_sha256=sha256(run / MODEL), versions=stated["versions"],
        created=stated["created"],
    ).save(run)  # fmt: skip
    assert verify(run).problems == [
        f"config.json: these settings are accounted for under {honest}, and line 1 of ledger.jsonl says {other}."
    ]
