"""Operations that write down what they saw: the first half of the fast clipped sum.

A `Tape` stands between a network and torch while a loss runs. Wherever an operation uses a weight of the network it puts a
taped twin in its place. The backward pass of the twin returns the gradient of its input only, and writes down the pair
from which the gradient of the weight follows: a, the input, and b, the gradient of the output. No weight gradient is
computed in that pass. `norms` turns the pairs into norms and clipped sums.

What the tape does not know it does not guess at: `unknown` walks the autograd graph, and a weight that was used by any
other way shows there. The clipped sum then takes its slow form.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from gossamer.privacy.operations import Affine, Call, Convolution, Embedding, Linear, Operation, Planes
from gossamer.privacy.refusals import REFUSED_FUNCTIONS

CHECKPOINTING = "activation checkpointing"


class TapeError(Exception):
    """The tape does not know how this network uses a weight. The message says which."""


class _Taped(torch.autograd.Function):
    """An operation whose backward pass returns the gradient of its input and writes a and b into its `Call`."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, a: Tensor, weight: Tensor | None, bias: Tensor | None, tape: "Tape", call: Call
    ) -> Tensor:
        del anchor  # it requires a gradient, so that the backward pass comes here even if nothing else does
        ctx.save_for_backward(a, weight)  # autograd then checks that nobody has changed them in place
        ctx.tape, ctx.call = tape, call
        out = call.op.forward(a, weight, bias)
        # Nothing else holds what this output may be a view of; autograd has to forget that, or no activation could
        # change it in place.
        return torch.ops.aten._unsafe_view(out, out.shape) if out._is_view() else out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, b: Tensor) -> tuple[Tensor | None, ...]:
        a, weight = ctx.saved_tensors
        call: Call = ctx.call
        call.a, call.b = a.detach(), b
        if ctx.tape.recording:
            ctx.tape.inner_gradient = True
        gradient = call.op.input_gradient(b, weight, a) if ctx.needs_input_grad[1] else None
        return None, gradient, None, None, None, None


class Tape(TorchFunctionMode):
    """While it is entered, operations that use one of the parameters are taped.

    Args:
        module: the network whose parameters are watched; calls name them by position.
    """

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
        """Put the taped twin in the place of an operation that uses a watched parameter."""
        del types
        kwargs = kwargs or {}
        if (refuse := REFUSED_FUNCTIONS.get(func)) is not None:
            refuse(*args, **kwargs)
        if (handler := _HANDLERS.get(func)) is not None:
            result = handler(self, *args, **kwargs)
            if result is not None:
                return result
        return func(*args, **kwargs)

    def knows(self, weight: Tensor | None, bias: Tensor | None) -> bool:
        """Whether a watched parameter is among the two, and nothing else there needs a gradient."""
        given = [t for t in (weight, bias) if t is not None and t.requires_grad]
        return bool(given) and all(id(t) in self.position for t in given)

    def use(self, op: Operation, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Run the operation, taped."""
        call = Call(op, self._find(weight), self._find(bias))
        if isinstance(op, (Linear, Convolution, Planes)) and torch.is_autocast_enabled(a.device.type):
            dtype = torch.get_autocast_dtype(a.device.type)
            a, weight, bias = a.to(dtype), _cast(weight, dtype), _cast(bias, dtype)
        self.calls.append(call)
        out: Tensor
        out = _Taped.apply(self.anchor, a, _detached(weight), _detached(bias), self, call)  # type: ignore[no-untyped-call]  # torch gives it no types
        if self.keep_outputs:
            self.outputs.append((out.detach(), out._version))
        return out

    def _find(self, tensor: Tensor | None) -> int | None:
        return None if tensor is None else self.position.get(id(tensor))

    def backward(self, root: Tensor, *others: Tensor, keep: bool = False) -> tuple[Tensor | None, ...]:
        """Fill in the calls that root depends on. root: one number. Gives the gradients of `others`."""
        for call in self.calls:
            call.a = call.b = None
        if not root.requires_grad:
            return (None,) * len(others)
        found = torch.autograd.grad(root, [*others, self.anchor], retain_graph=keep, allow_unused=True)
        return found[:-1]

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


def _cast(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if tensor is None else tensor.to(dtype)


def _detached(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach()


# What each function becomes. A handler takes the function's own arguments and returns None to leave it alone.


def _linear(tape: Tape, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:  # noqa: A002  # torch's name
    if input.dim() < 2 or not tape.knows(weight, bias):
        return None
    return tape.use(Linear(), input, weight, bias)


def _convolution(
    tape: Tape,
    input: Tensor,  # noqa: A002  # torch's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor | None:
    spatial = weight.dim() - 2
    if input.dim() != weight.dim() or not tape.knows(weight, bias):
        return None
    step, reach = _several(stride, spatial), _several(dilation, spatial)
    if isinstance(padding, str):
        input, edge = _padded(input, padding, weight.shape[2:], reach)  # noqa: A001  # torch's name
    else:
        edge = _several(padding, spatial)
    op = Convolution(step, edge, reach, groups, output_padding=(0,) * spatial)
    if spatial == 2 and groups == 1 and _constant(input):
        size, kernel = (input.shape[2], input.shape[3]), (weight.shape[2], weight.shape[3])
        return tape.use(Planes(op, kernel, size), input[:, :, 0, 0].contiguous(), weight, bias)
    return tape.use(op, input, weight, bias)


def _convolution_transposed(
    tape: Tape,
    input: Tensor,  # noqa: A002  # torch's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor | None:
    spatial = weight.dim() - 2
    if input.dim() != weight.dim() or not tape.knows(weight, bias):
        return None
    step, edge, reach, outer = (_several(v, spatial) for v in (stride, padding, dilation, output_padding))
    return tape.use(Convolution(step, edge, reach, groups, True, outer), input, weight, bias)


def _embedding(
    tape: Tape,
    input: Tensor,  # noqa: A002  # torch's name
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor | None:
    del norm_type
    if input.dim() < 1 or max_norm is not None or scale_grad_by_freq or sparse or not tape.knows(weight, None):
        return None
    padding = padding_idx if padding_idx is None or padding_idx >= 0 else padding_idx + len(weight)
    return tape.use(Embedding(padding), input, weight, None)


def _layer_norm(
    tape: Tape,
    input: Tensor,  # noqa: A002  # torch's name
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor | None:
    if input.dim() <= len(normalized_shape) or not tape.knows(weight, bias):
        return None
    plain = F.layer_norm(input, list(normalized_shape), None, None, eps)
    return tape.use(Affine(tuple(normalized_shape)), plain, weight, bias)


def _rms_norm(
    tape: Tape,
    input: Tensor,  # noqa: A002  # torch's name
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor | None:
    if input.dim() <= len(normalized_shape) or not tape.knows(weight, None):
        return None
    plain = F.rms_norm(input, list(normalized_shape), None, eps)
    return tape.use(Affine(tuple(normalized_shape)), plain, weight, None)


def _group_norm(
    tape: Tape,
    input: Tensor,  # noqa: A002  # torch's name
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor | None:
    if not tape.knows(weight, bias):
        return None
    plain = F.group_norm(input, num_groups, None, None, eps)
    return tape.use(Affine((input.shape[1],) + (1,) * (input.dim() - 2)), plain, weight, bias)


def _several(value: int | Sequence[int], count: int) -> tuple[int, ...]:
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


_HANDLERS: dict[Callable[..., Any], Callable[..., Tensor | None]] = {
    F.linear: _linear,
    F.conv1d: _convolution,
    F.conv2d: _convolution,
    torch.conv1d: _convolution,
    torch.conv2d: _convolution,
    F.conv_transpose1d: _convolution_transposed,
    F.conv_transpose2d: _convolution_transposed,
    torch.conv_transpose1d: _convolution_transposed,
    torch.conv_transpose2d: _convolution_transposed,
    F.embedding: _embedding,
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
    F.group_norm: _group_norm,
}
