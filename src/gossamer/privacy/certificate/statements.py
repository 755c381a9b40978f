"""The sentences of a certificate: pure functions of a run's ledger and of its settings (`config.json`).

So anyone who has both files can build a certificate again and compare (`certificate.check`).

The file is long because one format numbers all sentences: a change of one is a change of the format.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gossamer.errors import LedgerDamaged
from gossamer.files import MODEL
from gossamer.privacy.accounting import federated
from gossamer.privacy.certificate import sites
from gossamer.privacy.guarantee import RELATION_NAMES, Guarantee
from gossamer.privacy.ledger import NOISE_VERSION, PrivacyLedger

CHOICES = "choices"
"""The entry of config.json with the jobs of which a look chooses one: what the settings say of method, config and methods."""

NO_PUBLIC: dict[str, Any] = {"kind": "none"}
"""The public records of a run that has none, as the settings name them."""

NO_UNITS: dict[str, Any] = {"matched": "none"}
"""What the settings say about units where each record is a unit."""

_MATCHED = {
    "none": "",
    "name": "by the name of the picture",
    "folder": "by the folder of the picture",
    "position": "by position in the file",
    "pattern": "by a pattern in the file name of the picture",
    "dicom": "by a hash of an element in the head of its DICOM file",
    "column": "by a column of the table, which is no column of the samples",
    "keys": "by the keys of the tables, which are not learnt",
}

NOISE = f"the noise is of version {NOISE_VERSION}"
_BY_PLUGIN = "the plug-in {name} says how their joint contribution is bounded, and Gossamer did not review it"

_PLUGIN = {
    "method": "{what} reads records only in the queries of its plan, and bounds each as it states. It states whether its "
    "release contains public pictures",
    "encoder": "{what} treats each picture by itself, as a test on public pictures shows. It has learnt from no private "
    "record",
    "autoencoder": "{what} treats each picture by itself, as a test on public pictures shows. It has learnt from no private "
    "record",
    "generator": "{what} has learnt from no private record",
}
"""What is assumed of a plug-in."""

_PRETRAINED = ("encoder", "autoencoder", "generator")
"""Plug-ins that are public inputs of a run."""

_NOT_COVERED = (
    "metrics.json and attacks.json: they are computed on real records without noise. To publish them, or to use them to "
    "choose or stop a run, is outside the guarantee",
    "checkpoint/: the private state of the run, never to be published",
    "the times of files: the duration of a step depends on how many records were sampled",
    "the facts of the data card: the data owner declared them public",
    "the fact that the run began: so the data are not empty, and no record has a value, class or id that the card refuses, "
    "because it is missing or not declared",
    "what others know already, and what is true of the population whether or not a unit is in the data",
)

_ADJACENT = {
    "add-or-remove-one": "two data sets that differ in one {unit}: one has it, the other does not",
    "replace-one": "two data sets of the same size that differ in one {unit}: it is exchanged for another",
}

_CHANGE = {
    "add-or-remove-one": "Whether one {unit} was in the data",
    "replace-one": "An exchange of one {unit} for another",
}

_TRUST = (
    "Central model: the person who ran this had the original records, and the guarantee does not restrict that person. The "
    "guarantee is against everyone who has the release and nothing else. It assumes that this program made the release, "
    "unchanged, on a machine that no one else could look into. The files cannot show that."
)

_REFUSALS = {"shape": "a public picture is among the private ones", "column": "the card does not allow a value"}
"""What a refusal may say of private records, by the fact of the card that it concerns."""

_SIDE_CHANNELS = (
    "Time. The duration of a step depends on how many records were sampled. Times of files, logs and the load of the machine "
    "are not covered. A release does not contain them.",
    "Arithmetic. The noise is rounded so coarsely that its last bits reveal nothing. The proof bounds how rounding changes a "
    "record's own contribution. It assumes that the effect of a record on the rounding of other records reveals nothing.",
    "Refusals. A message to the person who ran this is not covered, for example that {refusal}.",
    "Choices. To release, withhold or repeat a run after looking at its figures is not covered.",
)

_NOT_PROMISED = (
    "That nothing can be learnt about anyone. What is true of the population can be concluded about everyone, even about "
    "people who are not in the data.",
    "Anonymity in the sense of a law. The figures limit odds. Whether that satisfies a law is a legal question.",
    "The same strength for a group. For two {unit}s together, epsilon doubles and delta more than doubles, and so on.",
    "Anything about releases from the same records that are not counted here, including all later ones.",
    "That a sample is true of any person, or that the samples suit a purpose.",
    "That the declared entries are true, on the data card and here.",
)


def chosen(settings: dict[str, Any], ledger: PrivacyLedger) -> dict[str, Any]:
    """The settings of a run with the job that its look chose, if it has one. Raises LedgerDamaged: there is no such job."""
    choices = settings.get(CHOICES, [{}])
    if not isinstance(choices, list) or ledger.choice >= len(choices) or not isinstance(choices[ledger.choice], dict):
        raise LedgerDamaged("the ledger has a look with a choice that config.json does not have.")
    return {**settings, **choices[ledger.choice]}


def facts(ledger: PrivacyLedger, settings: dict[str, Any]) -> dict[str, Any]:
    """Answer what a lawyer asks, as far as ledger and settings can: sentences, and each public input."""
    unit, released = settings["card"]["unit"], ledger.promise()
    refusal = " or that ".join(_REFUSALS[fact] for fact in settings["card"] if fact in _REFUSALS)
    nothing = math.isinf(released.epsilon)
    entries = {
        "protects": "nobody: epsilon is infinity" if nothing else protects(settings),
        "adjacency": _ADJACENT[RELATION_NAMES[ledger.relation]].format(unit=unit),
        "data": _data(settings),
        "public_inputs": public_inputs(settings),
        "contains_public": _how_contained(settings),
        "all_runs": settings.get("accounts"),
        "trust_model": ({**federated.TRUST, **sites.TRUST}).get(role_of(settings), _TRUST),
        "side_channels": [text.format(refusal=refusal) for text in _SIDE_CHANNELS],
        "not_promised": [text.format(unit=unit) for text in _NOT_PROMISED],
    }
    if role_of(settings) in federated.TRUST and not nothing:
        entries["views"] = federated.views(settings, released)
    return entries


def role_of(settings: Mapping[str, Any]) -> str:
    """What a run is in a federation: `federated.SERVER`, `federated.CLIENT`, `sites.CENTRE` or `sites.SITE`; empty: nothing."""
    return str(settings.get("federated", {}).get("role", ""))


def protects(settings: dict[str, Any]) -> str:
    """Say whose contribution is protected, and how much of it may belong to one person."""
    unit = settings["card"]["unit"]
    if unit == "record":
        return "one record. A person with several records is protected for each record, not for all of them together"
    return f"one {unit} with all records of that {unit}: {_how(settings)}"


def _how(settings: dict[str, Any]) -> str:
    """Say how the contribution of a unit with many records is bounded like that of a single record."""
    if role_of(settings) in federated.TRUST:
        return federated.ENFORCED
    others = {entry["name"] for entry in _plugins(settings, "method")}
    return "; in the starting generator, ".join(
        dict.fromkeys(
            _BY_PLUGIN.format(name=method["name"]) if method["name"] in others else method["bounds_units"]
            for method in settings["methods"]
        )
    )


def public_inputs(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """List each public input, with its digest where it has one, and what is known about its origin."""
    public = settings["public"]
    inputs: list[dict[str, Any]] = []
    if public["kind"] == "records":
        about = {"records": public["count"], "sha256": public.get("sha256", "")}
        declared = {"origin": "as declared under public_records", "tuned": "as declared under public_tuned"}
        inputs.append({"what": public["name"], **about, **declared})
    if public["kind"] == "share":
        tuned = "they are records of the same kind"
        inputs.append({"what": _made_public(settings), "origin": "the same data set", "tuned": tuned})
    authors = {
        entry["name"]: f"part of {plugin(entry)}, as its author states" for entry in _plugins(settings, "method")
    }
    for method in settings["methods"]:
        if method["own_input"] and not (public["kind"] != "none" and method["releases_public"]):
            inputs.append({**method["own_input"], "origin": authors.get(method["name"], "part of the program")})
    for entry in _plugins(settings, *_PRETRAINED):
        about = {fact: entry[fact] for fact in ("source", "weights", "licence")}
        origin = f"trained on: {entry['trained_on']} (as its author states)"
        inputs.append({"what": plugin(entry), **about, "origin": origin, "tuned": "as declared under pretrained"})
    return inputs


def _contained(settings: dict[str, Any]) -> str:
    """Say that the release contains the public records; empty: it does not."""
    how = _how_contained(settings)
    return f". {MODEL} contains these pictures as they are, and {how}" if how else ""


def _how_contained(settings: dict[str, Any]) -> str:
    """Say how the release contains the public records, as the method words it; empty: it does not, or there are none."""
    how = "" if settings["public"]["kind"] == "none" else str(settings["methods"][0]["releases_public"])
    return f"{how} (as the author of the plug-in states)" if how and _plugins(settings, "method") else how


def _plugins(settings: dict[str, Any], *kinds: str) -> list[dict[str, str]]:
    """The plug-ins of these kinds that the run used."""
    return [entry for entry in settings.get("plugins", []) if entry["kind"] in kinds]


def plugin(entry: Mapping[str, str]) -> str:
    """Name a plug-in."""
    if entry["package"] == "not known":
        return f"the {entry['kind']} {entry['name']} (of no package)"
    return f"the {entry['kind']} {entry['name']} ({entry['package']} {entry['version']})"


def _data(settings: dict[str, Any]) -> str:
    title = settings["card"].get("title") or settings["card"].get("data_set") or "the records"
    return (
        f"{title}. The data owner keeps a digest of the records in a private file, under the id 'run' of config.json. The "
        "digest is not given here: with it, anyone who guesses the records can confirm the guess"
    )


def statement(ledger: PrivacyLedger, settings: dict[str, Any], best: dict[str, Any]) -> str:
    """Write the first paragraph: the guarantee, whom it protects, and whom it does not."""
    if ledger.reasons:
        return f"No formal guarantee: epsilon is infinity, because {'; '.join(ledger.reasons)}."
    guarantee = Guarantee.from_json(best)
    if math.isinf(guarantee.epsilon):
        return "No formal guarantee: epsilon is infinity, because this run was trained without noise."
    unit, made_public = guarantee.unit, ""
    if settings["public"]["kind"] == "share":
        unit = f"protected {unit}"
        made_public = f" NOT protected: {_made_public(settings)}."
    role, second = role_of(settings), ""
    if role in federated.TRUST:
        second = federated.statement(settings)
    elif role:
        second = sites.statement(ledger, settings)
    for entry in _plugins(settings, "method"):
        second += f" This bound assumes that {plugin(entry)} is right. Gossamer did not review it."
    return (
        f"Differentially private: {guarantee}. {_CHANGE[best['relation']].format(unit=unit)} changes the probability of any "
        f"outcome by at most a factor of e^epsilon, plus delta.{made_public} The {best['accountant']} accountant computed "
        f"this bound, for all planned queries.{second}"
    )


def covered(best: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """List what the guarantee covers, and how a unit with several records is treated."""
    if math.isinf(float(best["epsilon"])):
        return [f"nothing: {MODEL} and its samples may reveal any record"]
    unit, whose = best["unit"], ""
    if settings["public"]["kind"] == "share":
        whose = f", for every {unit} that was not made public"
    about = [f"{MODEL}, and any number of its samples{whose}"]
    if (role := role_of(settings)) in (federated.CLIENT, sites.SITE):
        sent = f"everything that this {role} sent: {'the rows of its' if role == federated.CLIENT else 'all its noisy'} answers"
        about = [f"{sent}. So {MODEL}, trained with them, and its samples"]
    if unit == "record":
        return about
    return [*about, f"each {unit} with all records of that {unit}: {_how(settings)}"]


def not_covered(settings: dict[str, Any]) -> list[str]:
    """List what the guarantee does not cover; first those who are not protected."""
    public = settings["public"]
    if public["kind"] == "none":
        return [*_NOT_COVERED]
    if public["kind"] == "share":
        return [f"{_made_public(settings)}. The generator may reveal anything about them", *_NOT_COVERED]
    whose = f"the public records, {public['name']}, and whether someone in them is also in the private records"
    return [whose + _contained(settings), *_NOT_COVERED]


def public_data(settings: dict[str, Any]) -> str:
    """Name the public records of the run, in one phrase."""
    public = settings["public"]
    named = [f"{plugin(entry)}, trained on: {entry['trained_on']}" for entry in _plugins(settings, *_PRETRAINED)]
    if public["kind"] == "records":
        named.insert(0, f"{public['name']} ({public['count']:,} records, not protected){_contained(settings)}")
    if public["kind"] == "share":
        named.insert(0, f"{_made_public(settings)}; not protected")
    return "; ".join(named) or "none"


def adds_up(settings: dict[str, Any]) -> str:
    """Say that budgets add up, and which earlier runs the budget log had when the run began. The log itself is private."""
    accounts = settings.get("accounts")
    text = "Every other run on the same records adds to this figure, whoever makes it."
    if accounts is None:
        return f"{text} No budget log counts this run."
    count = accounts["earlier_runs"]
    if accounts.get("unnamed"):
        return (
            f"{text} These records had no name: they were in memory, and the card has no data_set. So no earlier run could be "
            "recognised by name, and none is counted here. The data owner's budget log also compares a digest of the records. "
            "It recognises the same records only, not a version with one record more. What it found is private."
        )
    if count == 0:
        return f"{text} When this run began, its budget log held no earlier run under this name."
    sum_ = Guarantee.from_json(accounts["together"])
    runs = "one earlier run" if count == 1 else f"{count:,} earlier runs"
    return f"{text} When this run began, its budget log held {runs} under this name. Together with this run: {sum_}."


def assumptions(settings: dict[str, Any], *, proved: bool) -> list[str]:
    """List what a run assumes; with a guarantee, also what its proof assumes."""
    card, public, role = settings["card"], settings["public"], role_of(settings)
    unit = card["unit"]
    protected = "protected " if public["kind"] == "share" else ""
    (record,) = _record(card)  # a card with none or two is damaged
    facts = [
        f"declared size: {card['declared_size']:,} {protected}{unit}s",
        record,
        "a record that is in the data twice counts as two records"
        if unit == "record"
        else f"each {unit} has one id in the data, under which all records of that {unit} are",
    ]
    facts += _declared(card)
    if how := _matched(settings):
        facts.append(f"the data owner names the {unit} of each record, matched {how}")
    if engine := settings.get("units", NO_UNITS).get("counted_by"):
        facts.append(f"{engine} counts the rows exactly, and two ids are one {unit} if their bytes are equal")
    if card.get("missing_unit") == "own":
        facts.append(f"a record without an id counts as a {unit} of its own")
    if public["kind"] == "records":
        seen = "checked: no picture is in both, pixel by pixel"
        if role in (federated.SERVER, sites.CENTRE):
            seen = f"which the {role} cannot check"
        facts.append(
            f"no public record is among the private records ({seen}). The public records were chosen without looking at the "
            f"private ones. The guarantee is for every {unit} without a public record"
        )
    if public["kind"] == "share":
        facts.append(
            f"whether a {unit} was made public depends on that {unit} alone: on the hash of {_hashed(settings)} under the "
            f"public key {public['salt']!r}. The number of those made public is expected, not counted"
        )
    facts += [_PLUGIN[entry["kind"]].format(what=plugin(entry)) for entry in settings.get("plugins", [])]
    if role in federated.TRUST:
        facts += federated.assumptions(settings)
    elif role == sites.CENTRE:
        facts += sites.assumptions(settings)
    ciphers = "AES-128 turns" if settings.get("device", "cpu") == "cpu" else "AES-128 and ChaCha20 turn"
    entropy = (
        f"the operating system provides true entropy, and {ciphers} it into noise and random choices that cannot be told from "
        "true ones. The proofs are about real numbers. They bound how rounding changes a record's own contribution and the "
        "noise. They assume that the effect of a record on the rounding of other records reveals nothing"
    )
    return [*facts, entropy] if proved else facts


_DECLARED: dict[str, tuple[Any, str]] = {
    "class_names": (
        [],
        "the names of the classes reveal nothing about any one record: they would be the same without it",
    ),
    "resize": ("squash", "pictures of other proportions were made to fit the shape: {}"),
    "invert": (False, "dark and light were exchanged when the records were read, and the samples have them exchanged"),
    "window": (False, "each DICOM file was scaled by the display window that it declares, and by no other file"),
    "pixel_range": (
        "stored",
        "pixels that are not of 8 bits were scaled: {} became black, {} became white, and values beyond them became the nearer "
        "of the two",
    ),
    "missing_label": (
        "refuse",
        "records without a label were left out, which depends on each record alone. The declared size counts the others",
    ),
}
"""Facts of a card that are said if they are not the usual ones, which stand first."""


def _record(card: dict[str, Any]) -> Iterator[str]:
    """What one record is, by the facts that the card has: a shape and classes, or columns."""
    if shape := card.get("shape"):
        prior = card["label_prior"]
        prior = prior if prior == "uniform" else ", ".join(f"{share:g}" for share in prior)
        names = f" ({', '.join(card['class_names'])})" if card.get("class_names") else ""
        yield f"shape {' x '.join(map(str, shape))}, {card['classes']} classes{names}, label prior {prior}"
    if columns := card.get("column"):
        label = f"with the label {card['label']}" if card["label"] else "without a label"
        yield f"{len(columns)} column{'s' * (len(columns) != 1)}, {label}"
    if tables := card.get("table"):
        yield "; ".join(
            f"table {name}{_link(table)} with {len(table['column'])} columns" for name, table in tables.items()
        )


def _link(table: Mapping[str, Any]) -> str:
    """How a table is linked with the one above."""
    if not table.get("parent"):
        return ""
    order = f" in the order of {table['order']}" if table.get("order") else ""
    return f", at most {table['max_rows']} rows for each row of {table['parent']}{order},"


def _declared(card: dict[str, Any]) -> Iterator[str]:
    """What else the card declares: a sentence for each fact that is not the usual one, and for each column."""
    for fact, (usual, sentence) in _DECLARED.items():
        if (value := card.get(fact) or usual) != usual:
            values = value if isinstance(value, list) else [value]
            yield sentence.format(*(f"{each:g}" if isinstance(each, float) else each for each in values))
    for name, table in card.get("table", {}).items():
        yield from (f"table {name}: {said}" for said in _declared({"label": "", "drop": {}, **table}))
    if columns := card.get("column"):
        yield (
            "names, kinds, bounds, bins and lists of values of the columns were declared without looking at the records. "
            "They would be the same without any one record"
        )
        yield from map(_column, columns)
        if card["drop"]:
            yield f"left out of the table: {', '.join(f'{name} ({why})' for name, why in card['drop'].items())}"
        yield "columns that the card does not name were not learnt"


def _matched(settings: dict[str, Any]) -> str:
    """How records and units are matched. A key of samples may have the name of the column of the units."""
    how = settings.get("units", NO_UNITS)["matched"]
    if how == "column" and any(column["kind"] == "key" for column in settings["card"]["column"]):
        return "by a column of the table, which is not learnt"
    return _MATCHED[how]


_OUTSIDE = {
    "refuse": "another value was refused as a mistake, so the run would not have begun",
    "clip": "a value beyond the bounds became the nearer bound",
    "other": 'another value became "other"',
}
"""What became of a value that a column does not declare."""


def _column(column: dict[str, Any]) -> str:
    """What is declared of a column."""
    name, kind = column["name"], column["kind"]
    if kind == "key":
        return f"column {name}: not learnt; samples have running numbers in it"
    if kind == "derived":
        if "formula" in column:
            return f"column {name}: not learnt; in samples it is {column['formula']}"
        if "mapping" not in column:
            return f"column {name}: not learnt; in samples it is a copy of column {column['follows']}"
        mapping = f"{len(column['mapping'])} values that were declared without looking at the records"
        follows = column["follows"]
        follows = follows if isinstance(follows, str) else " and ".join(follows)
        return f"column {name}: not learnt; in samples it follows from column {follows}, by {mapping}"
    if kind in ("category", "boolean"):
        values = f"{len(column['values'])} declared values" if kind == "category" else "true or false"
    else:
        ends = column.get("bounds") or [column["edges"][0], column["edges"][-1]]
        bins = f"at most {column['bins']} bins" if "bounds" in column else f"{len(column['edges']) - 1} declared bins"
        kind = "time" if kind == "datetime" else kind
        kind += f", after column {column['after']} by an amount" if "after" in column else ""
        values = f"{kind} from {ends[0]} to {ends[1]} in {bins}{' of a constant factor' * column.get('log', False)}"
        values += f", in the zone {column['zone']}" if column.get("zone") else ""
    apart = [*(["zero"] if column.get("zero") else []), *map(str, column.get("special", ()))]
    words = f" (also written {', '.join(column.get('missing_words', ()))})" if column.get("missing_words") else ""
    apart += [f"a missing value{words}"] if column.get("missing") else []
    own = f", and codes of their own for {', '.join(apart)}" if apart else ""
    rules = [f"; missing where column {column['missing_with']} is"] if "missing_with" in column else []
    for other, value, *known in column.get("only", ()):
        beside = " or ".join(text or "missing" for text in known)
        rules.append(f"; only {beside} where column {other} is {value or 'missing'}")
    return f"column {name}: {values}{own}; {_OUTSIDE[column['outside']]}{''.join(rules)}"


def _made_public(settings: dict[str, Any]) -> str:
    """Name the units that were made public, with their expected number. The declared size counts the other units."""
    share, stays = settings["public"]["share"], settings["card"]["declared_size"]
    expected = round(stays * share / (1 - share))
    about = f"about {share:.3g} of all ({expected:,} expected)"
    return f"the {settings['card']['unit']}s that were made public, {about}, picked by a hash of {_hashed(settings)}"


def _hashed(settings: dict[str, Any]) -> str:
    unit = settings["card"]["unit"]
    if unit == "record":
        return "each record's own pixels"
    without = " (of the pixels, where there is none)" if settings["card"].get("missing_unit") == "own" else ""
    return f"each {unit}'s own id{without}"
