"""The README of a release, written from its certificate alone. `readme.txt` is its text."""

import math
from collections.abc import Container

from gossamer.kinds import kind_of
from gossamer.methods import METHODS
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.privacy.certificate.declarations import ATTACKS, CHOICES, in_words, questions
from gossamer.privacy.certificate.statements import ANSWERS
from gossamer.run.release.contents import TABLES, sample_set
from gossamer.run.release.standalone_loader import has_soft_labels
from gossamer.run.report.templates import template


def readme(
    certificate: Certificate,
    *,
    samples: int,
    no_loader: str,
    classifies: bool = False,
    remark: str = "",
    more: Container[str] = (),
) -> str:
    """Write the page, as Markdown.

    Args:
        certificate: of the release.
        samples: number of synthetic records in samples.npz, or samples.csv of a table.
        no_loader: why there is no load.py; empty: there is a load.py.
        classifies: whether the release has a classifier, whose probabilities load.py returns.
        remark: what the model says about its classes, see `Synthesizer.remark`.
        more: further files of the release: the noisy tables behind the generator, and the noisy answers.
    """
    facts, known = certificate.facts, in_words(certificate.declared)
    return template("readme.txt", "gossamer.run.release").render(
        certificate=certificate,
        card=certificate.card,
        facts=facts,
        kind=kind_of(certificate.card),
        method=METHODS[certificate.method].title,
        known=known,
        unknown=[name for name in questions(facts["public_inputs"]) if name not in known],
        no_loader=no_loader,
        classifies=classifies,
        remark=remark,
        soft=has_soft_labels(certificate),
        samples=samples,
        file=sample_set(certificate),
        tables=TABLES in more,
        replayable=ANSWERS in more,
        finite=math.isfinite(float(certificate.guarantee["epsilon"])),
        uncounted=CHOICES["settings_chosen"]["uncounted"],
        attacks=ATTACKS,
    )
