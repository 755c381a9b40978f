"""Computing a model again from the noisy answers of its run.

The run is repeated without a record. Where noise would be added, it gets the answers of the release (`privacy.random.answers`).
No method knows of it. If the model that comes out is the same bit for bit, the model of the release is a function of the
answers and of public inputs: settings, seed, public records, and the program.
"""

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from dp_accounting import DpEvent
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from gossamer.data.source import Data
from gossamer.errors import GossamerError, LedgerDamaged, PrivacyError, RequestError
from gossamer.kinds.toys import stripes
from gossamer.methods.contract import State
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer, model_bytes
from gossamer.privacy.certificate.certificate import sha256
from gossamer.privacy.certificate.statements import MODEL
from gossamer.privacy.confined import Confined
from gossamer.privacy.device_check import present
from gossamer.privacy.ledger import PrivacyLedger, merge
from gossamer.privacy.per_sample_gradients.rounding import full_precision
from gossamer.privacy.random.answers import MOST, Answers, Replay
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.contents import model_tensors, samples_seed
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import ANSWERS

TOLERANCE = 1e-5
"""By how much a number of a model may differ on another machine, relative to the largest of its tensor."""
_TYPES = {"deviations": "F64", "sizes": "I64", "values": "F64"}
_LARGEST = 8 * 3 * MOST + 2**16  # bytes of the file
_MISSING = (
    f"{ANSWERS} is missing, so the run cannot be replayed. A release has it if its answers have at most {MOST:,} numbers, "
    "none of them was lost in a crash, and all public inputs can be had by others."
)


@dataclass(frozen=True)
class Replayed:
    """What came out.

    Args:
        problem: why the model does not follow from the answers; empty: it does.
        exact: whether it does bit for bit.
        note: what follows, for the reader.
    """

    problem: str = ""
    exact: bool = False
    note: str = ""


def compute_again(
    folder: Path, generator: Synthesizer, settings: dict[str, Any], ledger: PrivacyLedger, public: Data | None
) -> Replayed:
    """Compute the model of a folder that verifies again, and compare.

    Args:
        folder: a RUN or a release.
        generator: of the folder.
        settings: of its run.
        ledger: of its run.
        public: the public records of the run, if it had any.

    Raises:
        RequestError: if `public` are not those of the run, or this machine lacks its device.
    """
    if not (folder / ANSWERS).is_file():
        return Replayed(_MISSING)
    known, stated = DataSources.elsewhere("", public=public).read_public(generator.card)
    if stated != settings["public"]:
        raise RequestError("`public` must be the public records of the run, which the certificate names: all, and no other.")
    device = str(present(settings["device"]))
    try:
        answers = read_answers(folder / ANSWERS)
        state, charged = repeated(generator.job, answers, seed=settings["seed"], device=device, public=known)
        if merge(charged) != merge(ledger.charged):
            return Replayed(f"{ANSWERS}: the run with these answers makes other queries than the ledger records.")
    except GossamerError as error:
        return Replayed(f"{ANSWERS}: {error}.")
    except Exception as error:  # a stranger's numbers raise any error
        return Replayed(f"{ANSWERS}: the run cannot be repeated with these answers ({type(error).__name__}).")
    return _compared(folder / MODEL, state.released.cpu().eval(), answers)


def repeated(
    job: Job[Any, Any], answers: Answers, *, seed: int, device: str = "cpu", public: Any = None
) -> tuple[State, list[tuple[DpEvent, int]]]:
    """The last state of a run with these answers, and what it charged. Reads no record.

    Raises:
        PrivacyError: if the run asks for other answers: for more, fewer, or of another size or noise.
    """
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    rng = Rng(seed)
    rng.answers = taken = Replay(answers.parts)
    training = job.begin(rng, device)
    with full_precision():
        for _ in training.drive(Confined(stripes(0, card=job.card), ledger, rng), public):
            pass
    if taken.at < len(taken.parts):
        raise PrivacyError(f"the run asks for {taken.at:,} answers of {len(taken.parts):,}")
    return training.state, [(event, used) for (event, _), used in zip(ledger.plan, ledger.used, strict=True)]


def read_answers(path: Path) -> Answers:
    """The answers of a file, which may be a stranger's. Raises LedgerDamaged: they are none."""
    try:
        with path.open("rb") as file:
            if path.stat().st_size > _LARGEST or model_tensors(file) != _TYPES:
                raise ValueError("it holds other tensors")
        return Answers.of(load_file(path))
    except (LedgerDamaged, ValueError, SafetensorError) as error:
        raise LedgerDamaged(f"it does not hold answers ({error})") from None


def _compared(path: Path, net: torch.nn.Module, answers: Answers) -> Replayed:
    """Compare a model file with what the answers lead to."""
    stored, again = load_file(path), net.state_dict()
    numbers = f"{sum(len(part) for part, _ in answers.parts):,} noisy numbers in {len(answers.parts):,} answers"
    if model_bytes(net) == path.read_bytes():
        return Replayed(
            exact=True,
            note=f"Replayed: {MODEL} follows bit for bit from {numbers} and the public inputs. Nothing in it goes beyond "
            "these. That their noise is honest rests on the signer.",
        )
    same = stored.keys() == again.keys() and all(_near(stored[name], again[name].cpu()) for name in stored)
    if not same:
        return Replayed(
            f"{MODEL} is not what {ANSWERS} leads to here. If other versions or another processor made it, replay it there."
        )
    return Replayed(
        note=f"Replayed up to rounding: {MODEL} follows from {numbers} and the public inputs. Each of its numbers differs by "
        f"at most {TOLERANCE:g} of the largest in its tensor. What later digits hold is not checked. That the noise is honest "
        "rests on the signer."
    )


def _near(stored: Tensor, again: Tensor) -> bool:
    if stored.shape != again.shape or not stored.is_floating_point():
        return torch.equal(stored, again)
    scale = again.abs().max() if again.numel() else 0.0
    return bool(((stored - again).abs() <= TOLERANCE * scale).all())


def same_samples(path: Path, generator: Synthesizer, count: int) -> bool:
    """Whether a file holds just what the generator draws, to the last sample."""
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(scratch) / path.name
        drawn = generator.stream(count, seed=samples_seed(generator.certificate))
        generator.samples.write(again, drawn, count=count)
        return sha256(again) == sha256(path)
