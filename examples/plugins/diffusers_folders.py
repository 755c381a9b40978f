"""Autoencoders and picture generators from a folder on disk, in the format of diffusers: `diffusers_folders:FOLDER`.

Copy this file into the folder where you work. Then `gossamer fit moments --autoencoder diffusers_folders:vae` reads the folder
vae. Weights are read from safetensors files only, and no code from the folder runs. An autoencoder is the folder of an
AutoencoderKL or an AutoencoderTiny. A generator is the folder of a text-to-image pipeline that also does image-to-image.
Beside the folder is a TOML file of the same name, sd.toml for sd::

    side = 512                                     # height and width of pictures
    prompts = ["a scan of bone", "a scan of skin"] # of a generator: for each class in order
    steps = 20                                     # of a generator, optional, as guidance
    guidance = 5.0
    licence = "MIT"                                # optional, as trained_on
    trained_on = "LAION-5B"

An autoencoder needs no such file; without `side`, it takes pictures as they are.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.errors import RequestError
from gossamer.nets.files import as_tensor, installed, read_facts, relative
from gossamer.plugins import NOT_KNOWN, described

_AUTOENCODERS = ("AutoencoderKL", "AutoencoderTiny")
_LIBRARIES = (None, "diffusers", "transformers")
"""What a part of a pipeline may be from."""
_Rule = tuple[str, Callable[[Any], bool]]
_COUNT: _Rule = "a whole number above 0", lambda value: type(value) is int and value > 0
_TEXT: _Rule = "text", lambda value: isinstance(value, str)
_TEXTS: _Rule = "a list of texts", lambda value: isinstance(value, list) and value != [] and all(map(_TEXT[1], value))
_NUMBER: _Rule = "a number of at least 0", lambda value: type(value) in (int, float) and value >= 0
_FACTS = {"side": _COUNT, "licence": _TEXT, "trained_on": _TEXT}
_OF_GENERATORS = {"prompts": _TEXTS, "steps": _COUNT, "guidance": _NUMBER}


class DiffusersAutoencoder:
    """Mean of the posterior of an AutoencoderKL, or the latents of an AutoencoderTiny, in the unit that the folder states.

    Args:
        net: the network, a `torch.nn.Module` of diffusers.
        facts: content of the TOML file.
        files: SHA-256 of all files.
    """

    def __init__(self, net: Any, facts: Mapping[str, Any], files: bytes) -> None:
        self.net, self._files = net, files
        config: Mapping[str, Any] = net.config
        self.side, self.channels = facts.get("side", 0), config["in_channels"]
        self.licence, self.trained_on = (facts.get(fact, NOT_KNOWN) for fact in ("licence", "trained_on"))
        self._scale, self._shift = config.get("scaling_factor") or 1.0, config.get("shift_factor") or 0.0

    def encode(self, pictures: Tensor) -> Tensor:
        """uint8 [n, channels, H, W] to latents float32 [n, c, h, w]. Nothing is drawn at random."""
        encoded = self.net.encode(pictures.float() / 127.5 - 1)
        latents: Tensor = encoded.latent_dist.mode() if hasattr(encoded, "latent_dist") else encoded.latents
        return (latents - self._shift) * self._scale

    def decode(self, latents: Tensor) -> Tensor:
        """Latents float32 [n, c, h, w] to pictures uint8 [n, channels, H, W]."""
        pictures = self.net.decode(latents / self._scale + self._shift).sample
        return _to_uint8((pictures + 1) / 2)

    def state_dict(self) -> dict[str, Tensor]:
        """Digests of the files and of the weights as they are now, so that a change of either is a change of its weights."""
        return {"files": as_tensor(self._files), "network": as_tensor(_digest_of(self.net))}


class DiffusersGenerator:
    """A text-to-image pipeline, and the image-to-image pipeline of the same parts. See `PluginGenerator` for the functions.

    Each picture has a call of its own, whose randomness comes from its seed alone.

    Args:
        draw: the text-to-image pipeline.
        change: the image-to-image pipeline.
        facts: content of the TOML file.
        files: SHA-256 of all files.
    """

    def __init__(self, draw: Any, change: Any, facts: Mapping[str, Any], files: bytes) -> None:
        self._draw, self._change, self._files = draw, change, files
        self._prompts, self._side, self._steps = facts["prompts"], facts["side"], facts.get("steps", 50)
        self._more = {"guidance_scale": facts["guidance"]} if "guidance" in facts else {}
        self.classes = len(self._prompts)
        self.licence, self.trained_on = (facts.get(fact, NOT_KNOWN) for fact in ("licence", "trained_on"))

    def random(self, labels: Tensor, shape: tuple[int, ...], seeds: Tensor) -> Tensor:
        """Pictures from the prompts of their classes."""
        size = {"height": self._side, "width": self._side}
        pairs = zip(labels.tolist(), seeds.tolist(), strict=True)
        return torch.cat([self._one(self._draw, label, seed, shape, **size) for label, seed in pairs])

    def vary(self, images: Tensor, labels: Tensor, degree: float, seeds: Tensor) -> Tensor:
        """The same pictures after `degree` of the noise, and back. At 0 they stay as they are."""
        if degree == 0:
            return images
        shape, strength = tuple(images.shape[1:]), max(degree, 1 / self._steps)
        wide = F.interpolate(images.float() / 255, (self._side, self._side), mode="bilinear", antialias=True)
        wide = wide.clamp(0, 1).expand(-1, 3, -1, -1)
        each = zip(wide.split(1), labels.tolist(), seeds.tolist(), strict=True)
        return torch.cat([self._one(self._change, y, seed, shape, image=x, strength=strength) for x, y, seed in each])

    def run_on(self, device: torch.device) -> None:
        """Move the networks to a device. The noise comes from the processor, so it is the same on any."""
        for pipeline in (self._draw, self._change):
            pipeline.to(device)

    def state_dict(self) -> dict[str, Tensor]:
        """The digest of the files."""
        return {"files": as_tensor(self._files)}

    def _one(self, pipeline: Any, label: int, seed: int, shape: tuple[int, ...], **more: Any) -> Tensor:
        """One picture of the shape, uint8 [1, C, H, W]."""
        given = {**more, **self._more, "prompt": self._prompts[label], "num_inference_steps": self._steps}
        found = pipeline(**given, generator=torch.Generator().manual_seed(seed), output_type="pt").images
        pictures = F.interpolate(found.float().cpu(), shape[1:], mode="bilinear", antialias=True)
        return _to_uint8(pictures if shape[0] == pictures.shape[1] else pictures.mean(1, keepdim=True))


def __getattr__(path: str) -> DiffusersAutoencoder | DiffusersGenerator:
    """The autoencoder or the generator of a folder, by its path.

    Raises:
        RequestError: if the folder is missing or of another form, its path is absolute, or diffusers is not installed.
    """
    if path.startswith("__"):
        raise AttributeError(path)
    folder = relative("diffusers_folders", path)
    if code := next(iter(sorted(folder.rglob("*.py"))), None):
        raise RequestError(f"{code} is code. Gossamer runs no code from a folder of weights: remove it.")
    if (folder / "model_index.json").is_file():
        return _generator(folder)
    if (folder / "config.json").is_file():
        return _autoencoder(folder)
    raise RequestError(
        f"{path} is no folder of diffusers: it has no model_index.json, as a pipeline has, and no config.json, "
        "as an autoencoder has. Save it with save_pretrained."
    )


def _autoencoder(folder: Path) -> DiffusersAutoencoder:
    kind = _json(folder / "config.json").get("_class_name")
    if kind not in _AUTOENCODERS:
        raise RequestError(f"{folder} is of the class {kind}. Name the folder of an {' or an '.join(_AUTOENCODERS)}.")
    facts = _facts(folder, _FACTS, ())
    net = _read(folder, getattr(_diffusers(), str(kind)))
    return DiffusersAutoencoder(net, facts, _digest(folder))


def _generator(folder: Path) -> DiffusersGenerator:
    facts, diffusers = _facts(folder, _FACTS | _OF_GENERATORS, ("side", "prompts")), _diffusers()
    for name, part in _json(folder / "model_index.json").items():
        own = name == "_class_name" and isinstance(part, str)
        if not own and isinstance(part, list) and (name == "_class_name" or not _is_known(part[0], diffusers)):
            raise RequestError(
                f"{folder} needs code for {name}. Take a pipeline whose parts are all of diffusers or transformers."
            )
    pipeline = _read(folder, diffusers.DiffusionPipeline)
    try:
        draw = diffusers.AutoPipelineForText2Image.from_pipe(pipeline)
        change = diffusers.AutoPipelineForImage2Image.from_pipe(pipeline)
    except Exception as error:  # errors of diffusers have no common base, and no record was read yet
        raise RequestError(
            f"{folder} does not do text-to-image and image-to-image ({described(error)[:300]}). Name another pipeline."
        ) from error
    for each in (draw, change):
        each.set_progress_bar_config(disable=True)
    return DiffusersGenerator(draw, change, facts, _digest(folder))


def _is_known(library: object, diffusers: Any) -> bool:
    """Whether parts of a pipeline may be from a library: one of the two, or a pipeline of diffusers."""
    return library in _LIBRARIES or hasattr(getattr(diffusers, "pipelines", None), str(library))


def _diffusers() -> Any:
    return installed(
        "diffusers", "A folder of diffusers needs this package. Install it with: pip install diffusers transformers"
    )


def _read(folder: Path, kind: Any) -> Any:
    """The network or the pipeline of a folder: nothing is downloaded, and no pickle is read."""
    try:
        return kind.from_pretrained(str(folder), local_files_only=True, use_safetensors=True)
    except Exception as error:  # errors of diffusers have no common base, and no record was read yet
        raise RequestError(
            f"{folder} cannot be read by diffusers ({described(error)[:300]}). Save it with "
            "save_pretrained(FOLDER, safe_serialization=True)."
        ) from error


def _facts(folder: Path, rules: Mapping[str, _Rule], needed: tuple[str, ...]) -> dict[str, Any]:
    """The content of the TOML file. Raises RequestError: it has other keys or values."""
    file = folder.parent / f"{folder.name}.toml"
    content = file.read_bytes() if file.is_file() else b""
    facts = read_facts(content, str(file), needed, [name for name in rules if name not in needed])
    for name, value in facts.items():
        form, fits = rules[name]
        if not fits(value):
            raise RequestError(f"{file} has {name} = {value!r}. Give {form}.")
    return facts


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RequestError(f"{file} cannot be read ({error}).") from error
    if not isinstance(content, dict):
        raise RequestError(f"{file} is no table of names and values. Save the folder with save_pretrained.")
    return content


def _digest(folder: Path) -> bytes:
    """SHA-256 of names and contents of all files in a folder, and of the TOML file."""
    digest, beside = hashlib.sha256(), folder.parent / f"{folder.name}.toml"
    for path in [*sorted(folder.rglob("*")), beside]:
        if path.is_file():
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            name = "" if path == beside else path.relative_to(folder).as_posix()
            digest.update(f"{name}\0{content}\n".encode())
    return digest.digest()


def _digest_of(net: nn.Module) -> bytes:
    """SHA-256 of the weights of a network, one tensor at a time."""
    digest = hashlib.sha256()
    for name, tensor in sorted(net.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.digest()


def _to_uint8(pictures: Tensor) -> Tensor:
    """Pictures in [0, 1] as uint8; what is not finite is black."""
    return (pictures.nan_to_num(nan=0.0).clamp(0, 1) * 255).round().byte()
