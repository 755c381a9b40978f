"""What a release says in words, written from its certificate alone: the README, and what catalogues and registries ask for.

The texts are readme.txt, croissant.txt and registry.txt. What nobody can compute is what the data owner declared. Nothing else
takes its place.
"""

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from gossamer.errors import RequestError
from gossamer.files import ANSWERS
from gossamer.kinds import kind_of
from gossamer.methods import METHODS
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.privacy.certificate.declarations import ATTACKS, CHOICES, in_words, questions
from gossamer.run.release.contents import TABLES, sample_set
from gossamer.run.release.standalone_loader import has_soft_labels
from gossamer.run.report.templates import template

CROISSANT = "croissant.json"
_NEEDED = ("made_by", "intended_use", "region")
"""Declarations without which the registry takes no entry."""


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
    return template("readme.txt", __package__).render(
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


def croissant(certificate: Certificate, sums: Mapping[str, str]) -> str:
    """Describe a release for catalogues of data sets: Croissant 1.1 with its fields for responsible AI, in JSON-LD.

    Args:
        certificate: of the release.
        sums: the SHA-256 of each other file, by its name.
    """
    file = sample_set(certificate)
    score = certificate.figures.get("score", {}).get("statement")
    facts = _facts(certificate)
    return template("croissant.txt", __package__).render(
        sums=sorted(sums.items()),
        file=file,
        tables=[*_tables(certificate, file)] if file in sums else [],
        uses=[use for use in (facts["known"].get("intended_use"), score) if use],
        **facts,
    )


def registry_entry(certificate: Certificate) -> str:
    """Write an entry of tier 3 of the Differential Privacy Deployments Registry, in YAML.

    Raises:
        RequestError: if there is no guarantee to register, or what only the data owner knows is not declared.
    """
    facts = _facts(certificate)
    if math.isinf(float(certificate.guarantee["epsilon"])):
        raise RequestError("`registry`: a release without a guarantee is no deployment of differential privacy.")
    if missing := [name for name in _NEEDED if name not in facts["known"]]:
        raise RequestError(
            f"`registry`: the registry asks for {', '.join(missing)}, which only you know. Declare them."
        )
    words = (facts["title"], facts["known"]["made_by"], certificate.created[:4])
    return template("registry.txt", __package__).render(
        slug="_".join(re.sub(r"\W+", "_", word.lower()) for word in words).replace("_", "-"),
        facts=certificate.facts,
        **facts,
    )


def _facts(certificate: Certificate) -> dict[str, Any]:
    """What both texts say."""
    kind, title = kind_of(certificate.card), certificate.card.get("title") or certificate.card.get("data_set")
    method = METHODS[certificate.method].title
    return {
        "certificate": certificate,
        "kind": kind,
        "title": f"Synthetic records: {title}" if title else "Synthetic records",
        "description": f"A generator of {kind.described(certificate.card)}, and its samples. Method: {method}.",
        "known": in_words(certificate.declared),
    }


def _tables(certificate: Certificate, file: str) -> Iterator[dict[str, Any]]:
    """The tables that the samples are: the file of each, its columns, and keys of other tables that it refers to."""
    card = certificate.card
    if alone := card.get("column"):
        yield {
            "name": "samples",
            "file": file,
            "inside": "",
            "key": "",
            "columns": [*_columns(certificate, alone, "column ")],
        }
    for name, facts in card.get("table", {}).items():
        keys = {facts.get("key", ""): {}, facts.get("parent_key", ""): {"of": facts.get("parent")}}
        own = [{"name": key, "kind": "integer", "about": key, **more} for key, more in keys.items() if key]
        columns = [*own, *_columns(certificate, facts["column"], f"table {name}: column ")]
        yield {"name": name, "file": f"{name}.csv", "inside": file, "key": facts.get("key", ""), "columns": columns}


def _columns(certificate: Certificate, columns: Iterable[Any], begin: str) -> Iterator[dict[str, Any]]:
    """The columns of a table, each with the sentence that the certificate has of it. begin: of such sentences."""
    for column in columns:
        said = (line for line in certificate.assumptions if line.startswith(f"{begin}{column['name']}: "))
        yield {**column, "about": next(said, column["name"])}
