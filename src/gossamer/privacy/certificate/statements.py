"""What a run promises, in words: pure functions of its ledger and of its settings (`config.json`).

So anyone who has both can build a certificate again and compare (`certificate.check`).
"""

import math
from typing import Any

from gossamer.privacy.accounting import federated
from gossamer.privacy.guarantee import RELATION_NAMES, Guarantee
from gossamer.privacy.ledger import NOISE_VERSION, PrivacyLedger

MODEL = "model.safetensors"

NO_PUBLIC: dict[str, Any] = {"kind": "none"}
"""The public records of a run that has none, as the settings name them."""

NO_UNITS: dict[str, Any] = {"matched": "none"}
"""What the settings say of units where each record is one."""

_MATCHED = {
    "none": "",
    "name": "by the name of the picture",
    "folder": "by the folder in which the picture lies",
    "position": "by position in the file",
}

_TOGETHER = "they are drawn together by one coin, and what they add to a release is bounded as a whole"
_ENFORCED = {"gs-wgan": "they all go to one critic, by one coin, and no other critic sees any of them"}
"""How a unit of many records moves a release no further than one of a single record, where it is not by `_TOGETHER`."""

_NOT_COVERED = (
    "metrics.json and attacks.json: they are computed on real records; publishing them, or choosing or stopping a run by "
    "them, is outside the guarantee",
    "checkpoint/: private state of the run, never to be handed out",
    "tensorboard/ and the times at which files were written: how long a step took depends on how many records were drawn",
    "the facts of the data card: they are assumptions that the curator declared public",
    "what others know already, and what follows from the population as a whole rather than from one unit's presence",
)

_ADJACENT = {
    "add-or-remove-one": "two data sets are compared that differ in one {unit}: it is there or it is not",
    "replace-one": "two data sets of the same size are compared that differ in one {unit}: it is exchanged for another",
}

_IN_DATA = {
    "add-or-remove-one": "was in the data",
    "replace-one": "was in the data, or another in its place,",
}
BEFORE_4 = {
    "statement": (_IN_DATA["replace-one"], "was in the data"),
    "adds_up": (" under this name", " on this data set"),
}
"""Words of today, and those of certificates of format 2 and 3, by entry."""

_TRUST = (
    "central: whoever ran this had the records as they are, and nothing here binds them. The promise is about everyone who "
    "has what was released and nothing else. It takes for granted that this program, unchanged, made the release, on a "
    "machine into which nobody else could look; the files cannot show that"
)

_SIDE_CHANNELS = (
    "time: how long a step took depends on how many records were drawn. Times of files, logs and the load of the machine "
    "are not covered and are not in a release",
    "arithmetic: noise is rounded so coarsely that its last bits tell nothing, and what rounding does to a record's own "
    "share is bounded; how a record changes the rounding of others is assumed to tell nothing",
    "refusals: what the program said to whoever ran it, for instance that a public picture is among the private ones, is "
    "not covered",
    "choices: to release, to withhold or to repeat a run after looking at its figures is not covered",
)

_NOT_PROMISED = (
    "that nothing can be learnt about anybody: what is so of the population can be concluded of everyone in it, and of "
    "those who are not in the data too",
    "anonymity in the sense of a law: the figures limit odds. Whether that is enough for a law is for those who apply it",
    "the same strength for a group: for two {unit}s together epsilon doubles and delta more than doubles, and so on",
    "anything about releases from the same records that are not counted here, among them all later ones",
    "that a sample is true of anybody, or that the samples are good for a purpose",
    "that what is declared, on the data card and here, is true",
)

_BUILT_IN = {
    "evolve": "the drawing program of this version of Gossamer, with {settings}",
    "teacher": "the drawing program of this version of Gossamer, digits and letters",
}
"""Methods with a public input of their own."""

_GLYPHS_TUNED = (
    "its numbers were chosen beside half of scikit-learn's digits; its way of drawing stems from a version that was tuned "
    "beside MNIST's training pictures. Results on those records lean on that"
)


def facts(ledger: PrivacyLedger, settings: dict[str, Any]) -> dict[str, Any]:
    """What a lawyer asks, as far as ledger and settings answer it: sentences, and the public inputs one by one."""
    unit, released = settings["card"]["unit"], ledger.promise()
    nothing = math.isinf(released.epsilon)
    entries = {
        "protects": "nobody: epsilon is infinity" if nothing else protects(settings),
        "adjacency": _ADJACENT[RELATION_NAMES[ledger.relation]].format(unit=unit),
        "data": _data(settings),
        "public_inputs": public_inputs(settings),
        "all_runs": settings.get("accounts"),
        "trust_model": federated.TRUST[settings["federated"]["role"]] if "federated" in settings else _TRUST,
        "side_channels": list(_SIDE_CHANNELS),
        "not_promised": [text.format(unit=unit) for text in _NOT_PROMISED],
    }
    if "federated" in settings and not nothing:
        entries["views"] = federated.views(settings, released)
    return entries


def protects(settings: dict[str, Any]) -> str:
    """Whose contribution is protected, and how much of it may belong to one person."""
    unit = settings["card"]["unit"]
    if unit == "record":
        return "one record. Whoever has several records is protected for each of them, and not for all of them together"
    how = _how(settings)
    return f"one {unit} with all records of that {unit}, however many: {how}"


def _how(settings: dict[str, Any]) -> str:
    """How a unit of many records moves a release no further than one of a single record."""
    if "federated" in settings:
        return federated.ENFORCED
    return "; in the start, ".join(dict.fromkeys(_ENFORCED.get(method, _TOGETHER) for method in _methods(settings)))


def public_inputs(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Each public input, with its digest where it has one, and what is known of how it came to be."""
    public = settings["public"]
    inputs: list[dict[str, Any]] = []
    if public["kind"] == "records":
        about = {"records": public["count"], "sha256": public.get("sha256", "")}
        declared = {"origin": "as declared under public_records", "tuned": "as declared under public_tuned"}
        inputs.append({"what": public["name"], **about, **declared})
    if public["kind"] == "share":
        tuned = "they are records of the same kind, of people who gave up their protection"
        inputs.append({"what": _made_public(settings), "origin": "the same data set", "tuned": tuned})
    for method in _methods(settings):
        if method not in _BUILT_IN:
            continue
        description = _BUILT_IN[method].format(settings=_drawing(settings["config"]))
        inputs.append(
            {"what": description, "origin": "part of the program; no record enters it", "tuned": _GLYPHS_TUNED}
        )
    return inputs


def _methods(settings: dict[str, Any]) -> list[str]:
    """The method and, where it has one, that of its start."""
    start = settings["config"].get("start", "")
    return [settings["method"], *([start] if start else [])]


def _drawing(config: dict[str, Any]) -> str:
    if "drawing" in config:
        return f"the setting drawing = {config['drawing']}"
    return (
        f"the settings {config['start_settings']}" if config.get("start_settings") else "the settings it has by itself"
    )


def _data(settings: dict[str, Any]) -> str:
    title = settings["card"].get("title") or settings["card"].get("data_set") or "the records"
    return (
        f"{title}. Whoever ran this keeps a digest of the records in private, under the word that config.json calls 'run'. It "
        "is not given here, because a digest confirms to anybody who guesses the records that the guess is right"
    )


def statement(ledger: PrivacyLedger, settings: dict[str, Any], best: dict[str, Any]) -> str:
    """The first paragraph: the figure, whom it protects, and whom it does not."""
    if ledger.reasons:
        return f"No formal guarantee: epsilon is infinity, because {'; '.join(ledger.reasons)}."
    guarantee = Guarantee.from_json({key: best[key] for key in ("epsilon", "delta", "relation", "unit")})
    if math.isinf(guarantee.epsilon):
        return "No formal guarantee: epsilon is infinity, because this run was trained without noise."
    unit, part, made_public = guarantee.unit, "", ""
    if settings["public"]["kind"] == "share":
        part = " of the protected part"
        made_public = f" NOT protected: {_made_public(settings)}."
    second = federated.statement(settings) if "federated" in settings else ""
    return (
        f"Differentially private: {guarantee}. Whether any one {unit}{part} {_IN_DATA[best['relation']]} changes the chance of "
        f"any outcome by at most a factor e^epsilon, up to delta.{made_public} Bound by the {best['accountant']} accountant "
        f"for the whole reserved plan.{second}"
    )


def covered(best: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """What the guarantee is about, and how many records a unit may have."""
    if math.isinf(float(best["epsilon"])):
        return [f"nothing: {MODEL} and its samples may reveal any record"]
    unit, whose = best["unit"], ""
    if settings["public"]["kind"] == "share":
        whose = f", for the {unit}s of the protected part"
    about = [f"{MODEL}, and any number of samples drawn from it{whose}"]
    if "federated" in settings and settings["federated"]["role"] == federated.CLIENT:
        about = [
            f"all that this client sent: the rows of its answers. {MODEL}, made of them and of others', and its samples"
        ]
    if unit == "record":
        return about
    how = _how(settings)
    return [*about, f"each {unit} with all records of that {unit}, however many: {how}"]


def not_covered(settings: dict[str, Any]) -> list[str]:
    """What the guarantee is not about; those who are not protected come first."""
    public = settings["public"]
    match public["kind"]:
        case "records":
            whose = [f"the public records, {public['name']}, and whether anyone in them is also among the private ones"]
        case "share":
            whose = [f"{_made_public(settings)}: the generator may reveal anything about them"]
        case _:
            whose = []
    return [*whose, *_NOT_COVERED]


def public_data(settings: dict[str, Any]) -> str:
    """The public records of the run, in one phrase."""
    public = settings["public"]
    match public["kind"]:
        case "records":
            return f"{public['name']} ({public['count']:,} records, not protected)"
        case "share":
            return f"{_made_public(settings)}; not protected"
        case _:
            return "none"


def adds_up(settings: dict[str, Any]) -> str:
    """Say that budgets add up, and which earlier runs the budget log had when the run began. The log itself is private."""
    accounts = settings.get("accounts")
    text = "Every other run on the same records adds to this figure, whoever made it."
    if accounts is None:
        return f"{text} This run was entered in no account book."
    count = accounts["earlier_runs"]
    if count == 0:
        return f"{text} When this run began, its account book held no earlier run under this name."
    sum_ = Guarantee.from_json(accounts["together"])
    runs = "one earlier run" if count == 1 else f"{count:,} earlier runs"
    return f"{text} When this run began, its account book held {runs} under this name: together with this one, {sum_}."


def assumptions(settings: dict[str, Any], *, proved: bool) -> list[str]:
    """What a run takes for granted; with a guarantee, also what its proof does."""
    card, public = settings["card"], settings["public"]
    unit, prior = card["unit"], card["label_prior"]
    prior = prior if prior == "uniform" else ", ".join(f"{share:g}" for share in prior)
    protected = "protected " if public["kind"] == "share" else ""
    names = f" ({', '.join(card['class_names'])})" if card.get("class_names") else ""
    facts = [
        f"declared size: {card['declared_size']:,} {protected}{unit}s",
        f"shape {' x '.join(map(str, card['shape']))}, {card['classes']} classes{names}, label prior {prior}",
        f"one {unit} is one entry of the data: nobody is in it under two names",
    ]
    if names:
        facts.append("the names of the classes tell nothing of any one record: each would be there without it")
    if card.get("resize", "squash") != "squash":
        facts.append(f"pictures of other proportions than the shape were made to fit: {card['resize']}")
    if card.get("invert"):
        facts.append("dark and light were exchanged as the records were read, and samples are as the records then were")
    if (ends := card.get("pixel_range", "stored")) != "stored":
        black, white = (f"{end:g}" if isinstance(end, float) else str(end) for end in ends)
        facts.append(
            f"pixels that are not of 8 bits were scaled: {black} became black, {white} white, and what lies beyond either the "
            "nearer of the two"
        )
    if card.get("missing_label") == "drop":
        facts.append(
            "a record without a label was left out, which follows from that record alone; the declared size counts the others"
        )
    if how := _MATCHED[settings.get("units", NO_UNITS)["matched"]]:
        facts.append(f"the {unit} of each record is the one that the curator names, matched {how}")
    if card.get("missing_unit") == "own":
        facts.append(f"a record without an id is a {unit} of its own")
    if public["kind"] == "records":
        seen = "checked: no picture, pixel by pixel, stands in both"
        if "federated" in settings:
            seen = "which the server cannot check"
        facts.append(
            f"no public record is among the private ones ({seen}), and the public "
            f"ones were chosen without looking at those; the promise is for {unit}s none of whose records is public"
        )
    if public["kind"] == "share":
        facts.append(
            f"who was given up follows from each {unit} alone: from the hash of {_hashed(settings)} under the public key "
            f"{public['salt']!r}, and from nobody else; the number is expected, not counted"
        )
    if "federated" in settings:
        facts += federated.assumptions(settings)
    ciphers = "AES-128 turns" if settings.get("device", "cpu") == "cpu" else "AES-128 and ChaCha20 turn"
    entropy = (
        f"the machine's operating system gives true entropy, and {ciphers} it into noise and coins that cannot be told from "
        "true ones; the proofs are about real numbers: what rounding does to a record's own share and to the noise is bounded, "
        "how a record changes the rounding of others is assumed to tell nothing"
    )
    return [*facts, entropy] if proved else facts


def noise(ledger: PrivacyLedger) -> str:
    """Which noise the queries had, for the assumptions. Certificates of format 2 and 3 do not have it."""
    if ledger.noise == [NOISE_VERSION]:
        return f"the noise is of version {NOISE_VERSION}"
    later = "" if ledger.noise == [1] else f", and later queries had version {NOISE_VERSION}"
    return (
        f"the noise is of version 1{later}. In a long run, noised sums of version 1 may show a record with a chance larger "
        'than delta: see "The precision of the noise" in docs/guarantees.md of Gossamer'
    )


def _made_public(settings: dict[str, Any]) -> str:
    """Those who were made public, by their expected number: the declared size is that of the others."""
    share, stays = settings["public"]["share"], settings["card"]["declared_size"]
    expected = round(stays * share / (1 - share))
    about = f"about {share:.3g} of all ({expected:,} expected)"
    return f"the {settings['card']['unit']}s given up as public, {about}, picked by a hash of {_hashed(settings)}"


def _hashed(settings: dict[str, Any]) -> str:
    unit = settings["card"]["unit"]
    if unit == "record":
        return "each record's own pixels"
    without = " (of the pixels, where there is none)" if settings["card"].get("missing_unit") == "own" else ""
    return f"each {unit}'s own id{without}"
