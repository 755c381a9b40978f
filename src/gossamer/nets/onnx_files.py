"""Encoders from a file: `onnx:FILE`, or `onnx:FILE#OUTPUT`. The file holds a network and no code.

Beside it is a TOML file of the same name, net.toml for net.onnx, that says how pictures are scaled:

    side = 224                     # height and width, or [least, most]
    channels = 3
    mean = [0.485, 0.456, 0.406]   # of pixels in [0, 1]; taken off
    std = [0.229, 0.224, 0.225]    # then divided by
    licence = "Apache-2.0"         # optional, as trained_on and unit_length
    trained_on = "ImageNet-1k"
"""

from typing import Any

import torch
from torch import Tensor

from gossamer.errors import RequestError, did_you_mean
from gossamer.nets.files import as_tensor, installed, read_facts, relative
from gossamer.plugins import NOT_KNOWN

CODE = "onnxruntime"
"""The module that runs the network."""
_NEEDED = ("side", "channels", "mean", "std")
_OPTIONAL = ("licence", "trained_on", "unit_length")


class OnnxEncoder:
    """uint8 [n, channels, side, side] to one output of the network, float32 [n, width].

    Args:
        model: content of the ONNX file.
        about: content of the TOML file.
        output: name of the output; empty: the only one.
        where: name of the file, for messages.

    Raises:
        RequestError: if the content is not of that form, or there is no such output.
    """

    def __init__(self, model: bytes, about: bytes, output: str, where: str) -> None:
        facts = _facts(about, where)
        self.side = tuple(facts["side"]) if isinstance(facts["side"], list) else facts["side"]
        self.channels = facts["channels"]
        self.licence, self.trained_on = (facts.get(fact, NOT_KNOWN) for fact in ("licence", "trained_on"))
        self.unit_length = facts.get("unit_length", True)
        self._mean, self._std = (torch.tensor(facts[name])[:, None, None] for name in ("mean", "std"))
        self._content = {"model": model, "about": about}
        self._session = _session(model, where)
        inputs, outputs = self._session.get_inputs(), [each.name for each in self._session.get_outputs()]
        if len(inputs) != 1:
            raise RequestError(f"{where} has {len(inputs)} inputs. Export a network whose only input is the pictures.")
        if output not in outputs and (output or len(outputs) > 1):
            wrong = f"has no output {output!r}." if output else "has several outputs."
            raise RequestError(
                f"{where} {wrong}{did_you_mean(output, outputs)} Name one of {', '.join(outputs)} as onnx:{where}#OUTPUT."
            )
        self._input, self._output = inputs[0].name, output or outputs[0]
        count = inputs[0].shape[0] if inputs[0].shape else 1
        self.batch = count if isinstance(count, int) and count > 0 else 1

    def __call__(self, pictures: Tensor) -> Tensor:
        """See the class."""
        scaled = (pictures.cpu().float() / 255 - self._mean) / self._std
        (rows,) = self._session.run([self._output], {self._input: scaled.numpy()})
        found = torch.from_numpy(rows)
        return found.flatten(1) if found.ndim > 2 and found[0, 0].numel() == 1 else found

    def state_dict(self) -> dict[str, Tensor]:
        """The bytes of both files, so that their digest is that of its weights."""
        return {name: as_tensor(content) for name, content in self._content.items()}


def load(reference: str) -> OnnxEncoder:
    """The encoder of FILE or FILE#OUTPUT.

    Raises:
        RequestError: if a file is missing or of another form, the path is absolute, or onnxruntime is not installed.
    """
    name, _, output = reference.partition("#")
    file = relative("onnx", name)
    about = file.with_suffix(".toml")
    for path in (file, about):
        if not path.is_file():
            raise RequestError(
                f"onnx:{name} needs the file {path}, which is not there. An encoder is an .onnx file with a .toml beside it."
            )
    return OnnxEncoder(file.read_bytes(), about.read_bytes(), output, name)


def _session(model: bytes, where: str) -> Any:
    """The network, ready to run on the processor. From bytes: then no other file is read."""
    onnxruntime = installed(CODE, "An ONNX encoder needs onnxruntime. Install it with: pip install 'gossamer[onnx]'")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    options.log_severity_level = 3  # errors
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes have no common base
        text = " ".join(str(error).split())
        raise RequestError(
            f"{where} cannot be read as an ONNX network ({text[:300]}). Export it as one file."
        ) from error


def _facts(about: bytes, where: str) -> dict[str, Any]:
    """The content of the TOML file. Raises RequestError: it has other keys or values."""
    facts = read_facts(about, f"The .toml beside {where}", _NEEDED, _OPTIONAL)
    for name in ("mean", "std"):
        numbers = facts[name]
        fits = isinstance(numbers, list) and len(numbers) == facts["channels"]
        if not fits or not all(type(number) in (int, float) and (number > 0 or name == "mean") for number in numbers):
            raise RequestError(
                f"The .toml beside {where} has {name} = {numbers}. Give one number for each of {facts['channels']} channels."
            )
    return facts
