"""Gossamer: from records that cannot be shared to a generator, samples and a certificate that can.

import gossamer

card = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
synthesizer = gossamer.fit("dpgan", data="mnist/", card=card, epsilon=10, delta=1e-5, out="RUN")
samples = synthesizer.sample(1_000, seed=0)
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gossamer.data.card import DataCard as DataCard
    from gossamer.data.readers import read as read
    from gossamer.data.records import Records as Records
    from gossamer.errors import GossamerError as GossamerError
    from gossamer.errors import PrivacyError as PrivacyError
    from gossamer.errors import RequestError as RequestError
    from gossamer.estimate import Estimate as Estimate
    from gossamer.events import Event as Event
    from gossamer.events import Sink as Sink
    from gossamer.methods import METHODS as METHODS
    from gossamer.methods.synthesizer import Synthesizer as Synthesizer
    from gossamer.privacy.certificate import Certificate as Certificate
    from gossamer.privacy.confined import Confined as Confined
    from gossamer.privacy.gradients import PerRecordGradient as PerRecordGradient
    from gossamer.privacy.guarantee import Guarantee as Guarantee
    from gossamer.privacy.ledger import PrivacyLedger as PrivacyLedger
    from gossamer.privacy.mechanisms import Bounds as Bounds
    from gossamer.privacy.mechanisms import PoissonGaussianSum as PoissonGaussianSum
    from gossamer.privacy.noise import Rng as Rng
    from gossamer.run.evaluate import evaluate as evaluate
    from gossamer.run.fit import fit as fit
    from gossamer.run.fit import resume as resume
    from gossamer.run.verify import release as release
    from gossamer.run.verify import verify as verify

_HOMES = {
    "gossamer.data.card": ("DataCard",),
    "gossamer.data.readers": ("read",),
    "gossamer.data.records": ("Records",),
    "gossamer.errors": ("GossamerError", "PrivacyError", "RequestError"),
    "gossamer.estimate": ("Estimate",),
    "gossamer.events": ("Event", "Sink"),
    "gossamer.methods": ("METHODS",),
    "gossamer.methods.synthesizer": ("Synthesizer",),
    "gossamer.privacy.certificate": ("Certificate",),
    "gossamer.privacy.confined": ("Confined",),
    "gossamer.privacy.gradients": ("PerRecordGradient",),
    "gossamer.privacy.guarantee": ("Guarantee",),
    "gossamer.privacy.ledger": ("PrivacyLedger",),
    "gossamer.privacy.mechanisms": ("Bounds", "PoissonGaussianSum"),
    "gossamer.privacy.noise": ("Rng",),
    "gossamer.run.evaluate": ("evaluate",),
    "gossamer.run.fit": ("fit", "resume"),
    "gossamer.run.verify": ("release", "verify"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)  # noqa: PLE0605 (each name is loaded when it is asked for)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
