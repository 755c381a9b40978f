"""Gossamer: from records that cannot be shared to a generator, samples and a certificate that can.

Example:
    import gossamer

    card = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
    synthesizer = gossamer.fit("dpgan", data="mnist/", card=card, epsilon=10, delta=1e-5, out="RUN")

    samples = synthesizer.sample(1_000, seed=0)
"""

from typing import TYPE_CHECKING

from gossamer.lazy import exported, reexports

if TYPE_CHECKING:
    from gossamer import attacks as attacks
    from gossamer import data as data
    from gossamer import errors as errors
    from gossamer import methods as methods
    from gossamer import metrics as metrics
    from gossamer import plugins as plugins
    from gossamer import privacy as privacy
    from gossamer.data.card import DataCard as DataCard
    from gossamer.data.columns.column import Column as Column
    from gossamer.data.records import Records as Records
    from gossamer.data.samples.samples import Samples as Samples
    from gossamer.data.source import Source as Source
    from gossamer.data.sources.pictures.read import read as read
    from gossamer.data.split import split as split
    from gossamer.data.tables.card import TableCard as TableCard
    from gossamer.data.tables.check import check_card as check_card
    from gossamer.data.tables.samples import TableSamples as TableSamples
    from gossamer.kinds.draft import draft_card as draft_card
    from gossamer.run.budget.budget import budget as budget
    from gossamer.run.budget.budget import discard as discard
    from gossamer.run.engine import Engine as Engine
    from gossamer.run.evaluation.attack import attack as attack
    from gossamer.run.evaluation.evaluate import evaluate as evaluate
    from gossamer.run.recommend.recommend import recommend as recommend
    from gossamer.run.release.release import release as release
    from gossamer.run.release.release import sign as sign
    from gossamer.run.release.verify import verify as verify
    from gossamer.run.synthesizer import Synthesizer as Synthesizer
    from gossamer.run.synthesizer import fit as fit
    from gossamer.run.synthesizer import resume as resume
    from gossamer.run.training.plan import plan as plan
    from gossamer.run.training.progress import Process as Process
else:
    _NAMES = reexports(__name__, __file__)
    __all__, __getattr__, __dir__ = exported(__name__, _NAMES)
