"""Operations that write down what they saw: the first half of the fast clipped sum.

While a loss runs, a `Tape` replaces every operation that uses a weight of the network by a taped form. The backward pass of
that form returns the gradient of its input only. It writes down the pair from which the gradient of the weight follows: a, the
input, and b, the gradient of the output. `clipping` turns the pairs into norms and clipped sums.

A tape does not guess: `unknown` finds uses of a weight that it did not see, in the autograd graph. The clipped sum then takes
its slow form. Layers and functions for which a record has no gradient of its own are refused by name, with the remedy. Messages
name layers and functions, never a number that depends on records.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from gossamer.privacy.per_sample_gradients.composed import CELLS, STEPS, attention, one_step, recurrent
from gossamer.privacy.per_sample_gradients.convolution import Convolution, Planes
from gossamer.privacy.per_sample_gradients.ghost import Call, Layer, Place
from gossamer.privacy.per_sample_gradients.layers import Copies, Embedding, Linear
from gossamer.privacy.per_sample_gradients.refused import check_function

CHECKPOINTING = "activation checkpointing"
Rule: TypeAlias = Callable[..., Any]
"""A function of torch, taped: called with the tape and with torch's own arguments. None: torch's function stays in place."""


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
        self.module = module
        self.wholes = {id(p): Place.of_all(i, p.shape) for i, p in enumerate(module.parameters()) if p.requires_grad}
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
            if (out := recorder(self, *args, **named)) is not None:
                return out
        return func(*args, **named)

    def linear(self, a: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """A linear map inside a larger function."""
        out: Tensor = self.__torch_function__(F.linear, (), (a, weight, bias))
        return out

    def learns(self, t: Any) -> bool:
        """Whether it is a watched parameter, or a view of one."""
        return isinstance(t, Tensor) and t.requires_grad and (id(t) in self.wholes or id(_base(t)) in self.wholes)

    def place(self, t: Tensor | None) -> Place | None:
        """Where a weight lies in a watched parameter; None: nowhere, or it does not hold each number once."""
        if t is None or not t.requires_grad:
            return None
        if (place := self.wholes.get(id(t))) is not None:
            return place
        base = _base(t)
        if base is None or (place := self.wholes.get(id(base))) is None or t.dtype != base.dtype:
            return None
        found = place.viewed(t.shape, t.stride(), int(t.storage_offset() - base.storage_offset()))
        return found if base.is_contiguous() else None

    def knows(self, weight: Tensor | None, bias: Tensor | None) -> bool:
        """Whether a watched parameter is among the two, and nothing else there needs a gradient."""
        learning = [t for t in (weight, bias) if t is not None and t.requires_grad]
        return bool(learning) and all(self.place(t) is not None for t in learning)

    def copies(self, t: Tensor, beside: Tensor, dims: int) -> Tensor | None:
        """A weight once for each row of another tensor, [n, ...] of so many dimensions; None: it is no such weight."""
        if t.dim() == dims and (len(t) == 1 or t.stride(0) == 0):  # it has a dimension for the rows
            t = t[0]
        if t.dim() >= dims or not self.knows(t, None):
            return None
        return self.use(Copies(), torch.zeros(len(beside), device=t.device), t[(None,) * (dims - 1 - t.dim())], None)

    def use(self, layer: Layer, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Run the layer, taped."""
        call = Call(layer, self.place(weight), self.place(bias))
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
            if (used := self.wholes.get(id(getattr(child, "variable", None)))) is not None:
                names = [name for name, _ in self.module.named_parameters()]
                return f"the use of '{names[used.number]}' by {node.name()}"
            if type(child).__name__ == "CheckpointFunctionBackward":
                return CHECKPOINTING
        return None


def _base(t: Tensor) -> Tensor | None:
    """What it is a view of, if its gradient goes there. One of a view that `no_grad` made does not."""
    return t._base if t._is_view() and t.grad_fn is not None else None


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
# Each is a `Rule`. Arguments of a function that is written in Python come by name, but for the first two.


def _linear(tape: Tape, a: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if a.dim() < 2 or weight.dim() != 2 or not tape.knows(weight, bias):  # a weight of one row may come as a vector
        return None
    return tape.use(Linear(), a, weight, bias)


def _product(tape: Tape, a: Tensor, weight: Tensor) -> Tensor | None:
    """A @ weight."""
    return _linear(tape, a, weight.mT) if weight.dim() == 2 and not tape.learns(a) else None


def _beside(function: Callable[..., Tensor]) -> Rule:
    """A function of numbers that are beside each other, in tensors that are broadcast."""

    def found(tape: Tape, *args: Any, **named: Any) -> Tensor | None:
        others = [t for t in args if isinstance(t, Tensor) and t.dim() and not tape.learns(t)]
        if not others or len(others) == len(args):
            return None
        most = max(others, key=Tensor.dim)
        given = [tape.copies(_narrow(t), most, most.dim()) if tape.learns(t) else t for t in args]
        return None if any(t is None for t in given) else function(*given, **named)

    return found


def _narrow(t: Tensor) -> Tensor:
    """What was expanded, before it was."""
    return t[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in t.stride())]


def _joined(tape: Tape, parts: Sequence[Tensor], *args: Any, **named: Any) -> Tensor | None:
    """Weights that were expanded over the records, beside activations."""
    if not any(map(tape.learns, parts)):
        return None
    given: list[Any] = [tape.copies(t, t, t.dim()) if tape.learns(t) else t for t in parts]
    return None if any(t is None for t in given) else torch.cat(given, *args, **named)


def _by_channel(t: Tensor, a: Tensor) -> Tensor:
    """[C] beside a, [n, C, ...]."""
    return t[(..., *(None,) * (a.dim() - 2))]


def _prelu(tape: Tape, a: Tensor, weight: Tensor) -> Tensor | None:
    """One slope, or one for each channel."""
    if a.dim() < 2 or not tape.knows(weight, None):
        return None
    slopes = tape.copies(_by_channel(weight, a), a, a.dim())
    return None if slopes is None else torch.where(a > 0, a, a * slopes)


def _convolution(*names: str) -> Rule:
    """A convolution, transposed where it has an output padding. names: of its settings, in torch's order."""

    def found(
        tape: Tape, a: Tensor, weight: Tensor, bias: Tensor | None = None, *settings: Any, **named: Any
    ) -> Tensor | None:
        spatial = weight.dim() - 2
        if a.dim() != weight.dim() or not tape.knows(weight, bias):
            return None
        given = _DEFAULTS | dict(zip(names, settings, strict=False)) | named
        transposed, groups = "output_padding" in names, given.pop("groups")
        if isinstance(given["padding"], str):
            reach = _several(given["dilation"], spatial)
            a, given["padding"] = _padded(a, given["padding"], weight.shape[2:], reach)
        op = Convolution(groups=groups, transposed=transposed, **{k: _several(v, spatial) for k, v in given.items()})
        if spatial == 2 and groups == 1 and not transposed and _constant(a):
            size, kernel = (a.shape[2], a.shape[3]), (weight.shape[2], weight.shape[3])
            return tape.use(Planes(op, kernel, size), a[:, :, 0, 0].contiguous(), weight, bias)
        return tape.use(op, a, weight, bias)

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


def _embedding(tape: Tape, a: Tensor, weight: Tensor, padding_idx: int | None, **more: Any) -> Tensor | None:
    changes = more["max_norm"] is not None or more["scale_grad_by_freq"] or more["sparse"]
    if a.dim() < 1 or changes or not tape.knows(weight, None):
        return None
    padding = padding_idx if padding_idx is None or padding_idx >= 0 else padding_idx + len(weight)
    return tape.use(Embedding(padding), a, weight, None)


def _normalised(function: Callable[..., Tensor]) -> Rule:
    """By layer, root mean square or group."""

    def found(tape: Tape, a: Tensor, by: int | Sequence[int], **named: Any) -> Any:
        """By: the number of groups, or the dimensions that are normalised."""
        weight, bias = named["weight"], named.get("bias")
        dims = 0 if isinstance(by, int) else len(by)
        if not tape.knows(weight, bias) or a.dim() <= (dims or 1):
            return None
        y = function(a, by, eps=named["eps"])
        if not dims:
            weight, bias = (None if t is None else _by_channel(t, a) for t in (weight, bias))
        if weight is None or bias is None:
            return _beside(torch.mul)(tape, y, weight) if bias is None else _beside(torch.add)(tape, y, bias)
        return _beside(torch.addcmul)(tape, bias, y, weight)

    return found


def _composed(function: Callable[..., Any]) -> Rule:
    """A larger function, whose linear maps are taped."""
    return lambda tape, *args, **named: function(tape.linear, *args, **named)


_BESIDE = [
    getattr(home, name)
    for home in (torch, Tensor)
    for name in ("add", "add_", "sub", "sub_", "mul", "mul_", "div", "where", "maximum", "minimum")
    if hasattr(home, name)
]
_KNOWN: dict[Callable[..., Any], Rule] = {
    F.linear: _linear,
    **dict.fromkeys((torch.matmul, Tensor.matmul, torch.mm, Tensor.mm), _product),
    **{function: _beside(function) for function in _BESIDE},
    **dict.fromkeys((torch.cat, torch.concat), _joined),
    torch.prelu: _prelu,
    F.multi_head_attention_forward: _composed(attention),
    **{function: _composed(partial(recurrent, step)) for function, step in STEPS.items()},
    **{function: _composed(partial(one_step, step)) for function, step in CELLS.items()},
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
