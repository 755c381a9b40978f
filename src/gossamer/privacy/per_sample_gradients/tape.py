"""Operations that write down what they saw: the first half of the fast clipped sum.

While a loss runs, a `Tape` replaces every operation that uses a weight of the network by a taped form. The backward pass of
that form returns the gradient of its input only. It writes down the pair from which the gradient of the weight follows: a, the
input, and b, the gradient of the output. `ghost` turns the pairs into norms and clipped sums.

A tape does not guess: `unknown` finds uses of a weight that it did not see, in the autograd graph. The clipped sum then takes
its slow form.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from gossamer.privacy.per_sample_gradients.functions import KNOWN_FUNCTIONS
from gossamer.privacy.per_sample_gradients.refusals import check_function
from gossamer.privacy.per_sample_gradients.uses import Call, Layer

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
        kwargs = kwargs or {}
        check_function(func, args, kwargs)
        if (recorder := KNOWN_FUNCTIONS.get(func)) is not None:
            recorded = recorder(self.knows, *args, **kwargs)
            if recorded is not None:
                return self.use(*recorded)
        return func(*args, **kwargs)

    def knows(self, weight: Tensor | None, bias: Tensor | None) -> bool:
        """Whether a watched parameter is among the two, and nothing else there needs a gradient."""
        learning = [t for t in (weight, bias) if t is not None and t.requires_grad]
        return bool(learning) and all(id(t) in self.position for t in learning)

    def use(self, layer: Layer, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Run the layer, taped."""
        call = Call(layer, self._find(weight), self._find(bias))
        if layer.autocasts and torch.is_autocast_enabled(a.device.type):
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


def _cast(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if tensor is None else tensor.to(dtype)


def _detached(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach()
