"""Computing a model again from the noisy answers of its run.

The run is repeated without a record. Where noise would be added, it gets the answers of the release (`privacy.random.answers`).
Methods have no part in it. If the model that comes out is the same bit for bit, then the model of the release follows from
these answers and from public inputs: settings, seed, public records and the program.
"""

import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from gossamer.data.source import Data
from gossamer.errors import GossamerError, LedgerDamaged, RequestError
from gossamer.files import ANSWERS, MODEL
from gossamer.kinds import kind_of
from gossamer.kinds.toys import stripes
from gossamer.methods.contract import State
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer, model_bytes
from gossamer.privacy.certificate.certificate import Checked, sha256
from gossamer.privacy.confined import Confined
from gossamer.privacy.guarantee import Plan
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.per_sample_gradients.rounding import full_precision
from gossamer.privacy.random.answers import MOST, Answers, Replay
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.contents import TRAINED_ON, drawn_on, model_tensors, samples_seed
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_plan import RunPlan
from gossamer.run.storage.versions import versions

TOLERANCE = 1e-5
"""By how much a number of a model may differ on another machine, relative to the largest of its tensor."""
_TYPES = {"deviations": "F64", "sizes": "I64", "values": "F64"}
_LARGEST = 8 * 3 * MOST + 2**16  # bytes of the file
_THREADS = {f"threads {count}": count for count in range(1, 1025)}
_SIGNER = "That the noise is honest rests on the signer."


def replayed(
    folder: Path, generator: Synthesizer | None, checked: Checked, public: Data | None
) -> tuple[str, list[str]]:
    """Compute the model of a folder that verifies again, and compare model and samples.

    Args:
        folder: a RUN or a release.
        generator: of the folder; None: it cannot be made here.
        checked: its settings and its ledger.
        public: the public records of the run, if it had any.

    Returns:
        What follows, and the files of which all follows.

    Raises:
        LedgerDamaged: if model or samples do not follow from the answers.
        RequestError: if `public` are not those of the run.
    """
    if generator is None or checked.ledger is None or not (folder / ANSWERS).is_file():
        raise LedgerDamaged(
            f"The run cannot be replayed. Either {ANSWERS} is missing: it would have more than {MOST:,} numbers, or answers "
            "were lost or need private records. Or the generator cannot be made here."
        )
    known, stated = DataSources.elsewhere("", public=public).read_public(generator.card)
    if stated != checked.settings["public"]:
        raise RequestError(
            "`public` must be the public records of the run, all of them and no other. The certificate names them."
        )
    asks = RunPlan.of(checked.settings, folder)
    made_by, threads = generator.certificate.versions, torch.get_num_threads()
    try:
        torch.set_num_threads(_THREADS.get(made_by.get(TRAINED_ON, "").rpartition(", ")[2], threads))
        answers, here = read_answers(folder / ANSWERS), {**versions(), TRAINED_ON: drawn_on()}
        state, ledger = repeated(generator.job, answers, checked.settings, known, plan=asks.plan)
    except GossamerError as error:
        raise LedgerDamaged(f"{ANSWERS}: {error}") from None
    except Exception as error:  # a stranger's numbers raise any error
        raise LedgerDamaged(f"{ANSWERS} leads to no model ({type(error).__name__}).") from None
    finally:
        torch.set_num_threads(threads)
    for own, noted in ((asks.look, checked.ledger.look), (asks.score, checked.ledger.score)):
        if own and noted:
            ledger.charge(own.query.mechanism.event)  # its answer is in the ledger
    if sorted(map(repr, ledger.charged)) != sorted(map(repr, checked.ledger.charged)):
        raise LedgerDamaged(f"{ANSWERS}: the run with these answers makes other queries than the ledger records.")
    net = state.released.cpu().eval()
    count = f"{sum(len(part) for part, _ in answers.parts):,} noisy numbers and the public inputs"
    if model_bytes(net) == (folder / MODEL).read_bytes():
        name = generator.samples.file
        if (folder / name).is_file() and not _is_drawn(folder / name, generator):
            raise LedgerDamaged(f"{name} is not what the replayed model draws with the seed of this release.")
        return f"Replayed: {MODEL} follows bit for bit. Nothing in it goes beyond {count}. {_SIGNER}", [MODEL, name]
    if here.items() <= made_by.items():
        raise LedgerDamaged(
            f"{MODEL} is not what {ANSWERS} leads to, with the same versions on the same kind of processor."
        )
    if not _near(load_file(folder / MODEL), net.state_dict()):
        raise LedgerDamaged(
            f"{MODEL} is not what {ANSWERS} leads to with the versions and the processor that are here."
        )
    return f"Replayed up to rounding: {MODEL} follows from {count}. Later digits are not checked. {_SIGNER}", []


def repeated(
    job: Job[Any, Any], answers: Answers, settings: dict[str, Any], public: Any = None, *, plan: Plan | None = None
) -> tuple[State, PrivacyLedger]:
    """The last state of a run with these answers, and its ledger. Reads no record.

    Args:
        job: the method with its settings.
        answers: noted.
        settings: its seed and its device.
        public: the public records.
        plan: all that the run reserved; None: the queries of the job.

    Raises:
        LedgerDamaged: if the run asks for other answers: for more, fewer, or of another size or noise.
    """
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan if plan is None else plan)
    rng = Rng(settings["seed"])
    rng.answers = taken = Replay(answers.parts)
    training = job.begin(rng, settings["device"])
    with full_precision():
        for _ in training.drive(Confined(stripes(0, card=job.card), ledger, rng), public):
            pass
    if taken.at < len(taken.parts):
        raise LedgerDamaged("the run asks for fewer answers.")
    return training.state, ledger


def read_answers(path: Path) -> Answers:
    """The answers of a file, which may be a stranger's. Raises LedgerDamaged: they are none."""
    with path.open("rb") as file:
        if path.stat().st_size > _LARGEST or model_tensors(file) != _TYPES:
            raise LedgerDamaged("it holds other tensors than answers.")
    return Answers.of(load_file(path))


def _near(stored: dict[str, Tensor], again: dict[str, Tensor]) -> bool:
    """Whether the tensors of a model are the same but for rounding."""
    return all(
        torch.equal(one, again[name])
        or (one.is_floating_point() and bool(((one - again[name]).abs() <= TOLERANCE * again[name].abs().max()).all()))
        for name, one in stored.items()
    )


def _is_drawn(path: Path, generator: Synthesizer) -> bool:
    """Whether a file holds just what the generator draws, to the last sample."""
    count = kind_of(generator.card).sample_count(path)
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(scratch) / path.name
        generator.samples.write(again, generator.stream(count, seed=samples_seed(generator.certificate)), count=count)
        return sha256(again) == sha256(path)
