"""Operations that write down what they saw: the first half of the fast clipped sum.

While a loss runs, a `Tape` replaces every operation that uses a weight of the network by a taped form. The backward pass of
that form returns the gradient of its input only. It writes down the pair from which the gradient of the weight follows: a, the
input, and b, the gradient of the output. `clipping` turns the pairs into norms and clipped sums.

A tape does not guess: `unknown` finds uses of a weight that it did not see, in the autograd graph. The clipped sum then takes
its slow form. Layers and functions for which a record has no gradient of its own are refused by name, with the remedy. Messages
name layers and functions, never a number that depends on records.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from gossamer.errors import RequestError
from gossamer.privacy.per_sample_gradients.convolution import Convolution, Planes
from gossamer.privacy.per_sample_gradients.ghost import Call, Layer
from gossamer.privacy.per_sample_gradients.layers import Affine, Embedding, Linear

CHECKPOINTING = "activation checkpointing"
Found: TypeAlias = tuple[Layer, Tensor, Tensor | None, Tensor | None]
"""A layer, its input, weight and bias."""
Knows: TypeAlias = Callable[[Tensor | None, Tensor | None], bool]
"""Whether the tape knows a weight and a bias."""


class TapeError(Exception):
    """The tape does not know how this network uses a weight. The message says which."""


class _Taped(torch.autograd.Function):
    """An operation whose backward pass returns the gradient of its input and writes a and b into its `Call`."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, a: Tensor, weight: Tensor | None, bias: Tensor | None, tape: "Tape", call: Call
    ) -> Tensor:
        del anchor  # it requires a gradient, so that the backward pass comes here even if nothing else does
        ctx.save_for_backward(a, weight)  # autograd then checks that they were not changed in place
        ctx.tape, ctx.call = tape, call
        out = call.layer.forward(a, weight, bias)
        # Autograd has to forget that this output may be a view, or no activation could change it in place.
        return torch.ops.aten._unsafe_view(out, out.shape) if out._is_view() else out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, b: Tensor) -> tuple[Tensor | None, ...]:
        a, weight = ctx.saved_tensors
        call: Call = ctx.call
        call.a, call.b = a.detach(), b
        if ctx.tape.recording:
            ctx.tape.inner_gradient = True
        gradient = call.layer.input_gradient(b, weight, a) if ctx.needs_input_grad[1] else None
        return None, gradient, None, None, None, None


class Tape(TorchFunctionMode):
    """While it is entered, operations that use a parameter of the module are taped. Calls name parameters by position."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.names = [name for name, _ in module.named_parameters()]
        self.position = {id(p): i for i, p in enumerate(module.parameters()) if p.requires_grad}
        self.calls: list[Call] = []
        self.anchor = torch.zeros((), requires_grad=True)
        self.recording = False
        self.inner_gradient = False
        self._open = ExitStack()
        self.keep_outputs = False  # if set, `outputs` holds the output of every call, and its version when it was made
        self.outputs: list[tuple[Tensor, int]] = []

    def __enter__(self) -> Self:
        self.recording = True
        # A checkpointed part runs again in the backward pass, untaped, and would hand back other tensors than were saved.
        self._open.enter_context(torch.autograd.graph.disable_saved_tensors_hooks(CHECKPOINTING))
        super().__enter__()  # type: ignore[no-untyped-call]  # torch gives it no types
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.recording = False
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]  # torch gives it no types
        self._open.close()
        if isinstance(error, RuntimeError) and str(error) == CHECKPOINTING:
            raise TapeError(CHECKPOINTING) from None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Replace an operation that uses a watched parameter by its taped form."""
        del types
        named = dict(kwargs or {})
        check_function(func, args, named)
        if (recorder := _KNOWN.get(func)) is not None:
            args = (named.pop("input"), *args) if "input" in named else args
            if (found := recorder(self.knows, *args, **named)) is not None:
                return self.use(*found)
        return func(*args, **named)

    def knows(self, weight: Tensor | None, bias: Tensor | None) -> bool:
        """Whether a watched parameter is among the two, and nothing else there needs a gradient."""
        learning = [t for t in (weight, bias) if t is not None and t.requires_grad]
        return bool(learning) and all(id(t) in self.position for t in learning)

    def use(self, layer: Layer, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Run the layer, taped."""
        call = Call(layer, self.position.get(id(weight)), self.position.get(id(bias)))
        given = [a, *(None if t is None else t.detach() for t in (weight, bias))]
        if layer.autocasts and torch.is_autocast_enabled(a.device.type):
            dtype = torch.get_autocast_dtype(a.device.type)
            given = [None if t is None else t.to(dtype) for t in given]
        self.calls.append(call)
        out: Tensor = _Taped.apply(self.anchor, *given, self, call)  # type: ignore[no-untyped-call]  # torch gives it no types
        if self.keep_outputs:
            self.outputs.append((out.detach(), out._version))
        return out

    def backward(self, root: Tensor, *others: Tensor, keep: bool = False) -> tuple[Tensor | None, ...]:
        """Fill in the calls that root depends on. root: one number. Gives the gradients of `others`."""
        for call in self.calls:
            call.a = call.b = None
        if not root.requires_grad:
            return (None,) * len(others)
        gradients = torch.autograd.grad(root, [*others, self.anchor], retain_graph=keep, allow_unused=True)
        return gradients[:-1]

    def unknown(self, root: Tensor) -> str | None:
        """What keeps the tape from being the whole story: the first use of a parameter that it did not see, by name."""
        if self.inner_gradient:
            return "a gradient taken inside the loss"
        for node, child in edges(root):
            if id(getattr(child, "variable", None)) in self.position:
                return f"the use of '{self.names[self.position[id(child.variable)]]}' by {node.name()}"
            if child.name() == "CheckpointFunctionBackward":
                return CHECKPOINTING
        return None


def edges(root: Tensor) -> Iterator[tuple[Any, Any]]:
    """Every (node, node behind it) of the autograd graph under root, each pair once."""
    seen = {root.grad_fn}
    waiting = [root.grad_fn] if root.grad_fn is not None else []
    while waiting:
        node = waiting.pop()
        for child, _ in node.next_functions:
            if child is None:
                continue
            yield node, child
            if child not in seen:
                seen.add(child)
                waiting.append(child)


# --- functions of torch that the tape knows, and the layer that each becomes ---------------------------------------
#
# Each takes a test whether the tape knows a weight and a bias, and then torch's own arguments. Those of a function that is
# written in Python come by name, but for the first two. It returns the layer and its inputs; None: torch's function stays in
# place.


def _linear(knows: Knows, a: Tensor, weight: Tensor, bias: Tensor | None = None) -> Found | None:
    if a.dim() < 2 or weight.dim() != 2 or not knows(weight, bias):  # a weight of one row may come as a vector
        return None
    return Linear(), a, weight, bias


def _convolution(*names: str) -> Callable[..., Found | None]:
    """A convolution, transposed where it has an output padding. names: of its settings, in torch's order."""

    def found(
        knows: Knows, a: Tensor, weight: Tensor, bias: Tensor | None = None, *settings: Any, **named: Any
    ) -> Found | None:
        spatial = weight.dim() - 2
        if a.dim() != weight.dim() or not knows(weight, bias):
            return None
        given = _DEFAULTS | dict(zip(names, settings, strict=False)) | named
        transposed, groups = "output_padding" in names, given.pop("groups")
        if isinstance(given["padding"], str):
            reach = _several(given["dilation"], spatial)
            a, given["padding"] = _padded(a, given["padding"], weight.shape[2:], reach)
        op = Convolution(groups=groups, transposed=transposed, **{k: _several(v, spatial) for k, v in given.items()})
        if spatial == 2 and groups == 1 and not transposed and _constant(a):
            size, kernel = (a.shape[2], a.shape[3]), (weight.shape[2], weight.shape[3])
            return Planes(op, kernel, size), a[:, :, 0, 0].contiguous(), weight, bias
        return op, a, weight, bias

    return found


_DEFAULTS = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1}
"""Of all convolutions."""


def _several(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """One number for each spatial dimension."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * count if len(numbers) == 1 else numbers


def _padded(
    a: Tensor, padding: str, kernel: Sequence[int], dilation: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...]]:
    """Padding by name as numbers; where "same" needs more on one side than on the other, the input is padded."""
    total = [0 if padding == "valid" else d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    if all(t % 2 == 0 for t in total):
        return a, tuple(t // 2 for t in total)
    sides = [side for t in reversed(total) for side in (t // 2, t - t // 2)]
    return F.pad(a, sides), (0,) * len(total)


def _constant(a: Tensor) -> bool:
    """Whether planes were made by `expand` over height and width, and need no gradient."""
    height, width = a.shape[2:]
    expanded = (height == 1 or a.stride(2) == 0) and (width == 1 or a.stride(3) == 0)
    return height * width > 1 and expanded and not a.requires_grad


def _embedding(knows: Knows, a: Tensor, weight: Tensor, padding_idx: int | None, **more: Any) -> Found | None:
    changes = more["max_norm"] is not None or more["scale_grad_by_freq"] or more["sparse"]
    if a.dim() < 1 or changes or not knows(weight, None):
        return None
    padding = padding_idx if padding_idx is None or padding_idx >= 0 else padding_idx + len(weight)
    return Embedding(padding), a, weight, None


def _normalised(function: Callable[..., Tensor]) -> Callable[..., Found | None]:
    """By layer, root mean square or group."""

    def found(knows: Knows, a: Tensor, by: int | Sequence[int], **named: Any) -> Found | None:
        """By: the number of groups, or the dimensions that are normalised."""
        weight, bias = named["weight"], named.get("bias")
        shape = (a.shape[1],) + (1,) * (a.dim() - 2) if isinstance(by, int) else tuple(by)
        if a.dim() <= len(shape) or not knows(weight, bias):
            return None
        return Affine(shape), function(a, by, eps=named["eps"]), weight, bias

    return found


_KNOWN: dict[Callable[..., Any], Callable[..., Found | None]] = {
    F.linear: _linear,
    **dict.fromkeys(
        (F.conv1d, F.conv2d, torch.conv1d, torch.conv2d), _convolution("stride", "padding", "dilation", "groups")
    ),
    **dict.fromkeys(
        (F.conv_transpose1d, F.conv_transpose2d, torch.conv_transpose1d, torch.conv_transpose2d),
        _convolution("stride", "padding", "output_padding", "groups", "dilation"),
    ),
    F.embedding: _embedding,
    **{function: _normalised(function) for function in (F.layer_norm, F.rms_norm, F.group_norm)},
}


# --- what is refused ------------------------------------------------------------------------------------------------

_BATCH_NORM = (
    "normalises over the batch, so no record has a gradient of its own that could be clipped. Use GroupNorm or no "
    "normalisation in a network that is trained on records."
)
_DROPOUT = (
    "takes its mask from torch's common random stream, so removing one record changes the masks of those behind it. Draw "
    "the mask by rng.secret_generator(), as part of the batch, or call eval() on the layer."
)
_REFUSED_FUNCTIONS: dict[Callable[..., Any], str] = {
    F.batch_norm: _BATCH_NORM,
    **dict.fromkeys((F.dropout, F.dropout1d, F.dropout2d, F.alpha_dropout, F.feature_alpha_dropout), _DROPOUT),
}


def check_module(module: nn.Module) -> None:
    """Refuse layers for which a record has no gradient of its own.

    Raises:
        RequestError: naming the layer and the remedy.
    """
    for name, layer in module.named_modules():
        if problem := _problem_of(layer):
            where = f"layer '{name}' ({type(layer).__name__})" if name else type(layer).__name__
            raise RequestError(f"{where} {problem}")


def _problem_of(layer: nn.Module) -> str:
    """What is wrong with a layer, and the remedy; empty: nothing."""
    if isinstance(layer, nn.modules.batchnorm._BatchNorm) and (layer.training or layer.running_mean is None):
        return _BATCH_NORM
    if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.training and layer.track_running_stats:
        return "keeps averages of records in its buffers. Set track_running_stats=False, or use GroupNorm."
    if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.training and layer.p > 0:
        return _DROPOUT
    if layer.training and type(layer).__name__ in ("SpectralNorm", "_SpectralNorm"):
        return (
            "takes a step of its power iteration on every call, so the network changes with the number of physical batches. "
            "Call eval() on it before gradients are taken."
        )
    return ""


def check_function(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse the call of a function for the same reason.

    Raises:
        RequestError: naming the function and the remedy.
    """
    if function not in _REFUSED_FUNCTIONS:
        return
    call = inspect.signature(function).bind(*args, **kwargs)
    call.apply_defaults()
    if call.arguments["training"] and call.arguments.get("p", 1) > 0:
        raise RequestError(f"{function.__name__} {_REFUSED_FUNCTIONS[function]}")
