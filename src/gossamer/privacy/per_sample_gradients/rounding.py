"""What rounding can do to a clipped sum, how it is kept out of the guarantee, and in which precision products are computed.

A record whose norm is computed too small would add more than max_norm. So every squared norm that clipping sees is an *upper
bound*: the computed one, plus all that rounding can have taken from it. With e for machine epsilon, a sum of products of two
vectors x and y is off by at most

    k e / 2 |x| |y|,    k the number of roundings that a product goes through,

in any order of summation, with fused multiplication or without (Higham 2002, "Accuracy and Stability of Numerical Algorithms",
section 3.1). Let a record meet a weight at T positions, with inputs u_t and output gradients b_t. Its gradient G is the
sum of the b_t outer u_t. If nothing cancelled, |G|^2 would be S = (sum over t of |u_t| |b_t|)^2.

- A Gram sum is off |G|^2 by at most k e / 2 S. Here k counts the roundings of both Gram matrices and of the sum over
  positions. Long products are cut into pieces of `PRODUCTS` numbers, so that k grows by one for each further piece. Where a
  record has few positions (`FEW`), the matrices are in double precision.
- What is really added comes from another call, in another order: T positions, one addition per use of the weight, the product
  with the factor. It is off G by less than (T + 1) e sqrt(S) in norm, and an instantiated gradient by less than that again.
- Squares of the smallest numbers vanish: `UNDERFLOW`.

`raised` adds these up. Where S is about T |G|^2, the norm grows by a tenth of a per cent. A record whose terms cancel almost
completely is clipped harder than it needs, never less. Other gradients are formed and then added as they are: kept, of
rank one, a whole unit, the slow form. They need none of this: their norms have a relative error only (`square_norms`).

**What the bounds allow for.** Relative errors stay below 600 machine epsilons of a norm. They come from sums of squares
in pieces of `SQUARES`, and from the factor. So bounds are divided by 1 + `SLACK` machine epsilons: 1.001 in float32.

**Narrow products.** All of this holds for any u_t and b_t of single precision, whatever they came from. So a forward and
backward pass in TF32 or bfloat16 needs no other margin. The pairs that it leaves *define* the gradient, and norm
and sum take the same pairs. `full_precision` keeps both from taking other numbers, or products in ten bits.

**What is assumed.** Where a record joins a sum, the terms of *others* are rounded in another way. No bound per record can cover
that, and its worst case is too large to include. In measured sums of 128 to 2,048 records it changed the length of the
whole movement by at most 3e-5 of max_norm. That is well inside the slack. `FLOOR` keeps one record's part in it small:
its terms, before they cancel, are at most 512 max_norm long. Matrix products and convolutions are assumed to add up
products. GPU libraries that transform convolutions (Winograd, Fourier) have such an error with another constant.

**In which precision.** A run may ask for less than single precision in the forward pass of a loss and in the gradients of its
inputs. Two contexts keep that apart from what bounds privacy:

- `lowered`, around a forward and backward pass. What the tape then holds is rounded, and defines the gradient.
- `full_precision`, around norms and sums, whatever a caller has switched on.

The rounded pair of a record must not depend on the rest of the batch. Otherwise one record more would change the gradients of
the others, by a last bit of bfloat16. Libraries choose how they add up by the size of a batch. So in narrow precision, and on
a GPU in any precision, all physical batches have one size (`one_size`).
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

Precision: TypeAlias = Literal["fp32", "tf32", "bf16"]
"""Of products in forward and backward passes: single precision; the same with 10 bits on GPUs that have it; bfloat16."""

SLACK = 8192.0  # of a bound, in machine epsilons
FLOOR = 32.0  # a squared norm is never taken to be below this many machine epsilons of S
PRODUCTS = 512  # numbers that one call of a Gram matrix sums
FEW = 4  # positions up to which a Gram matrix costs nothing, and is taken in double precision
SQUARES = 1024  # squares that one norm sums
BELOW = 1 - 1e-6  # of a bound, for vectors whose norm is taken in double precision and which are then added as they are
UNDERFLOW = 2.0**40  # more numbers than a pair holds; the square of each may have lost as much as the smallest number


def charged(bound: float, dtype: torch.dtype) -> float:
    """The bound that records are clipped to, so that what they add stays within `bound` after rounding."""
    return bound / (1 + SLACK * torch.finfo(dtype).eps)


def shortened(vectors: Tensor, max_norm: float) -> Tensor:
    """Each vector scaled to an L2 norm of at most `max_norm`; one that is not finite becomes zero. [n, D], at least float32.

    Norm and product in double precision: all that rounding can add is the last bit of each number.
    """
    wide: Tensor = vectors.detach().double()
    wide = torch.where(wide.isfinite().all(1, keepdim=True), wide, 0.0)
    norm = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    factor = torch.where(norm > BELOW * max_norm, BELOW * max_norm / norm, 1.0)
    wide *= factor
    return wide.to(torch.promote_types(vectors.dtype, torch.float32))


def square_norms(rows: Tensor) -> Tensor:
    """[n] float64, squared L2 norms of rows [n, D] that are added as they are; high by what underflow may have lost."""
    n, size = rows.shape
    whole = size - size % SQUARES
    total = torch.zeros(n, dtype=torch.float64, device=rows.device)
    if whole:
        pieces = rows[:, :whole].unflatten(1, (-1, SQUARES))
        total += torch.linalg.vector_norm(pieces, dim=2).double().square().sum(1)
    if whole < size:
        total += torch.linalg.vector_norm(rows[:, whole:], dim=1).double().square()
    return total + size * torch.finfo(rows.dtype).tiny


def gram(features: Tensor) -> Tensor:
    """[m, T, T], inner products of the columns of features [m, F, T], off by at most `roundings(F, T)` roundings."""
    if features.shape[2] <= FEW:
        features = features.double()
    first, *others = features.chunk(-(-features.shape[1] // PRODUCTS), dim=1)
    total = first.transpose(1, 2) @ first
    for piece in others:
        total += piece.transpose(1, 2) @ piece
    return total


def roundings(features: int, positions: int) -> int:
    """Roundings on the longest way through `gram`; none that count in double precision."""
    if positions <= FEW:
        return 0
    return min(features, PRODUCTS) + -(-features // PRODUCTS)


def paired(u_gram: Tensor, b_gram: Tensor, dtype: torch.dtype, steps: int) -> Tensor:
    """[m] float64, upper bounds of squared norms from the Gram matrices of u and b, [m, T, T].

    Args:
        u_gram: of u.
        b_gram: of b.
        dtype: of u and b.
        steps: roundings in one entry of either matrix, together.
    """
    squares = (u_gram * b_gram).sum(1).double().sum(1)
    u, b = (products.diagonal(dim1=1, dim2=2).sqrt() for products in (u_gram, b_gram))
    return raised(squares, u, b, dtype, steps + u_gram.shape[1] + 1)


def instantiated(u: Tensor, b: Tensor) -> Tensor:
    """[m] float64, upper bounds of squared norms from u [m, columns, T] and b [m, rows, T], by forming the gradients."""
    squares = square_norms((b @ u.transpose(1, 2)).flatten(1))
    lengths = torch.linalg.vector_norm(u, dim=1), torch.linalg.vector_norm(b, dim=1)
    return raised(squares, *lengths, u.dtype, 0)


def raised(squares: Tensor, u: Tensor, b: Tensor, dtype: torch.dtype, steps: int) -> Tensor:
    """[m] float64: squares, raised to bound what a weight-gradient call adds.

    `squares` has computed squared norms, [m]; a norm that is not finite, of either sign, stays so. `u` and `b` are
    |u_t| and |b_t| of the T positions that the norms come from, [m, T]. The call adds up in `dtype`. `steps` counts the
    roundings on the longest way to `squares`.
    """
    kind = torch.finfo(dtype)
    # Products that overflow below zero are no norm of zero.
    squares = torch.where(squares.isfinite(), squares, torch.nan)
    terms = (u * b).sum(1).double()
    lost = UNDERFLOW * kind.tiny * sum(torch.linalg.vector_norm(t, dim=1).double().square() for t in (u, b))
    norm: Tensor = (squares.double().clamp(min=0) + (steps / 2 + FLOOR) * kind.eps * terms.square() + lost).sqrt()
    return (norm + 2 * (u.shape[1] + 1) * kind.eps * terms).square()


@contextmanager
def lowered(precision: Precision, device: torch.device | str) -> Iterator[None]:
    """Forward and backward pass in this precision, while it is entered. A CPU has no TF32.

    "fp32" on a GPU is float32 for products too: PyTorch takes TF32 in convolutions where nothing is said.
    """
    kind = torch.device(device).type
    with ExitStack() as stack:
        if kind == "cuda":
            stack.enter_context(_same_every_time())
        if precision == "bf16":
            stack.enter_context(torch.autocast(kind, torch.bfloat16))
        elif kind == "cuda":
            stack.enter_context(_float32_products(gpu="tf32" if precision == "tf32" else "ieee"))
        yield


def one_size(precision: Precision, device: torch.device) -> bool:
    """Whether all physical batches are filled up to one size, so that no record changes how others are computed.

    Not in single precision on a CPU: what the size of a batch changes there is within the slack of the bounds.
    On an H200 it was 2 % of max_norm for 500 records, where PyTorch had taken TF32 (docs/gpu.md).
    """
    return precision != "fp32" or device.type != "cpu"


@contextmanager
def full_precision() -> Iterator[None]:
    """Products of float32 numbers in float32, on every device, and the same every time, while it is entered.

    TF32 on a GPU, bfloat16 inside a matrix product of the CPU, and autocast bound nothing (`docs/proofs.md`, condition 13).
    """
    with ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        stack.enter_context(_float32_products(gpu="ieee", processor="ieee"))
        stack.enter_context(_same_every_time())
        yield


def _same_every_time() -> AbstractContextManager[None]:
    """Convolutions that give the same bits every time, while it is entered.

    Others add up in the order in which parts of the GPU are done. On an H100 in bfloat16 that moved the gradients of 95 records
    by 5e-3 of max_norm from one call to the next (docs/gpu.md).
    """
    return _as_set([(torch.backends.cudnn, "deterministic", True)])


@contextmanager
def _float32_products(*, gpu: str, processor: str | None = None) -> Iterator[None]:
    """How products of float32 numbers are computed; None: as before."""
    backends: Any = torch.backends
    if not hasattr(backends.cuda.matmul, "fp32_precision"):  # torch before 2.9
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if gpu == "tf32" else "highest")
        try:
            with _as_set([(backends.cudnn, "allow_tf32", gpu == "tf32")]):
                yield
        finally:
            torch.set_float32_matmul_precision(before)
        return
    places = [(backends.cuda.matmul, gpu), (backends.cudnn.conv, gpu)]
    if processor is not None:
        places += [(backends.mkldnn.matmul, processor), (backends.mkldnn.conv, processor)]
    with _as_set([(place, "fp32_precision", precision) for place, precision in places]):
        yield


@contextmanager
def _as_set(settings: Sequence[tuple[Any, str, object]]) -> Iterator[None]:
    """Attributes of PyTorch's backends with other values, while it is entered. settings: object, attribute, value of each."""
    before = [(place, name, getattr(place, name)) for place, name, _ in settings]
    for place, name, value in settings:
        setattr(place, name, value)
    try:
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)
