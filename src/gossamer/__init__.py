"""Gossamer: from records that cannot be shared to a generator, samples and a certificate that can.

import gossamer

card = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
synthesizer = gossamer.fit("dpgan", data="mnist/", card=card, epsilon=10, delta=1e-5, out="RUN")
samples = synthesizer.sample(1_000, seed=0)
"""

from gossamer.data.card import DataCard
from gossamer.data.readers import read
from gossamer.data.records import Records
from gossamer.errors import GossamerError, PrivacyError, RequestError
from gossamer.estimate import Estimate
from gossamer.events import Event, Sink
from gossamer.methods import METHODS
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.certificate import Certificate
from gossamer.privacy.confined import Confined
from gossamer.privacy.gradients import PerRecordGradient
from gossamer.privacy.guarantee import Guarantee
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms import Bounds, PoissonGaussianSum
from gossamer.privacy.noise import Rng
from gossamer.run.evaluate import evaluate
from gossamer.run.fit import fit, resume
from gossamer.run.verify import release, verify

__all__ = [
    "METHODS",
    "Bounds",
    "Certificate",
    "Confined",
    "DataCard",
    "Estimate",
    "Event",
    "GossamerError",
    "Guarantee",
    "PerRecordGradient",
    "PoissonGaussianSum",
    "PrivacyError",
    "PrivacyLedger",
    "Records",
    "RequestError",
    "Rng",
    "Sink",
    "Synthesizer",
    "evaluate",
    "fit",
    "read",
    "release",
    "resume",
    "verify",
]
