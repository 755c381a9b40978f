"""Gossamer: from records that cannot be shared to a generator, samples and a certificate that can.

Example:
    import gossamer

    card = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
    synthesizer = gossamer.fit("dpgan", data="mnist/", card=card, epsilon=10, delta=1e-5, out="RUN")

    samples = synthesizer.sample(1_000, seed=0)
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from gossamer.data.card import DataCard as DataCard
    from gossamer.data.card_draft import draft_card as draft_card
    from gossamer.data.readers.read import read as read
    from gossamer.data.records import Records as Records
    from gossamer.data.samples.samples import Samples as Samples
    from gossamer.errors import BudgetError as BudgetError
    from gossamer.errors import BudgetExceeded as BudgetExceeded
    from gossamer.errors import BudgetLogError as BudgetLogError
    from gossamer.errors import CardError as CardError
    from gossamer.errors import ConfinedError as ConfinedError
    from gossamer.errors import DataError as DataError
    from gossamer.errors import GossamerError as GossamerError
    from gossamer.errors import Interrupted as Interrupted
    from gossamer.errors import LedgerDamaged as LedgerDamaged
    from gossamer.errors import PrivacyError as PrivacyError
    from gossamer.errors import RequestError as RequestError
    from gossamer.errors import RunFolderError as RunFolderError
    from gossamer.events import Event as Event
    from gossamer.events import Sink as Sink
    from gossamer.intervals import Estimate as Estimate
    from gossamer.methods import METHODS as METHODS
    from gossamer.methods.method import BaseConfig as BaseConfig
    from gossamer.methods.method import MaybeZero as MaybeZero
    from gossamer.methods.method import Method as Method
    from gossamer.methods.method import OnPrivate as OnPrivate
    from gossamer.methods.method import OnPublic as OnPublic
    from gossamer.methods.method import OnReleased as OnReleased
    from gossamer.methods.method import Run as Run
    from gossamer.methods.method import State as State
    from gossamer.methods.synthesizer import Synthesizer as Synthesizer
    from gossamer.privacy.certificate.certificate import Certificate as Certificate
    from gossamer.privacy.confined import Confined as Confined
    from gossamer.privacy.guarantee import Guarantee as Guarantee
    from gossamer.privacy.ledger import PrivacyLedger as PrivacyLedger
    from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum as PoissonGaussianSum
    from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient as PerRecordGradient
    from gossamer.privacy.queries import Bounds as Bounds
    from gossamer.privacy.random.noise import Rng as Rng
    from gossamer.run.evaluation.attack import AttackReport as AttackReport
    from gossamer.run.evaluation.attack import attack as attack
    from gossamer.run.evaluation.evaluate import Evaluation as Evaluation
    from gossamer.run.evaluation.evaluate import evaluate as evaluate
    from gossamer.run.release.release import release as release
    from gossamer.run.release.release import sign as sign
    from gossamer.run.release.verify import Verdict as Verdict
    from gossamer.run.release.verify import verify as verify
    from gossamer.run.training.fit import fit as fit
    from gossamer.run.training.plan import Request as Request
    from gossamer.run.training.plan import plan as plan
    from gossamer.run.training.progress import Terminal as Terminal
    from gossamer.run.training.resume import resume as resume

_NAMES = {
    # for data owners (docs/python.md)
    "gossamer.data.card": "DataCard",
    "gossamer.data.card_draft": "draft_card",
    "gossamer.data.readers.read": "read",
    "gossamer.data.records": "Records",
    "gossamer.data.samples.samples": "Samples",
    "gossamer.errors": "BudgetError BudgetExceeded BudgetLogError CardError ConfinedError DataError GossamerError Interrupted "
    "LedgerDamaged PrivacyError RequestError RunFolderError",
    "gossamer.intervals": "Estimate",
    "gossamer.events": "Event Sink",
    "gossamer.methods": "METHODS",
    "gossamer.methods.synthesizer": "Synthesizer",
    "gossamer.privacy.certificate.certificate": "Certificate",
    "gossamer.privacy.guarantee": "Guarantee",
    "gossamer.run.evaluation.attack": "AttackReport attack",
    "gossamer.run.evaluation.evaluate": "Evaluation evaluate",
    "gossamer.run.training.fit": "fit",
    "gossamer.run.training.plan": "Request plan",
    "gossamer.run.release.release": "release sign",
    "gossamer.run.training.progress": "Terminal",
    "gossamer.run.training.resume": "resume",
    "gossamer.run.release.verify": "Verdict verify",
    # for authors of methods
    "gossamer.methods.method": "BaseConfig MaybeZero Method OnPrivate OnPublic OnReleased Run State",
    "gossamer.privacy.confined": "Confined",
    "gossamer.privacy.per_sample_gradients.gradients": "PerRecordGradient",
    "gossamer.privacy.ledger": "PrivacyLedger",
    "gossamer.privacy.mechanisms.gaussian": "PoissonGaussianSum",
    "gossamer.privacy.queries": "Bounds",
    "gossamer.privacy.random.noise": "Rng",
}
_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # noqa: PLE0605 (each name is loaded when it is asked for)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
