"""Bytes indistinguishable from true random bits: AES-128 in counter mode on the processor, ChaCha20 on other devices.

This is the only secret source of the privacy core. `noise.py` says how these bytes are used.
"""

import os
import threading

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from torch import Tensor

from gossamer.errors import RequestError

SPARE = 15  # bytes that the cipher wants beyond what it writes
WORDS = 16  # of 32 bits, in a block of ChaCha20
_BLOCK = 16  # bytes of one AES block
_ONE_KEY = 1 << 35  # bytes under one key: half of what GCM allows
_BLOCKS = 1 << 31  # of ChaCha20 under one key: half of what a counter of 32 bits can count
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<i4").tolist()


class _Stream:
    """What both keystreams keep to: one thread asks, and no key serves two processes, or for ever.

    Without a fixed key, the key is operating-system entropy that only the stream holds. A forked process draws its own, so
    parent and child never share noise. A key that has given its most is replaced.
    key: for tests; None draws a fresh key.
    """

    def __init__(self, key: bytes | None) -> None:
        self._fixed = key
        self.seek(0)

    def seek(self, position: int) -> None:
        """Go to a place of the stream of a fixed key; without one, to the start of a fresh stream."""
        self._process, self._thread = os.getpid(), 0
        self.position = 0 if self._fixed is None else position
        self._begin()

    def _begin(self) -> None:
        """Take the fixed key, or a fresh one, and go to `position`."""
        raise NotImplementedError("each of the two streams has its own cipher")

    def _prepare(self, size: int, most: int) -> None:
        """Get ready for the next `size` places, where one key gives `most`.

        Raises:
            RequestError: if another thread has asked. Buffers are shared, so two would spoil each other's noise.
        """
        if self._fixed is None and (self._process != os.getpid() or self.position > most - size):
            self.seek(0)
        here = threading.get_ident()
        if self._thread not in (0, here):  # 0: none has asked yet
            raise RequestError(
                "two threads take random numbers from one Rng, which spoils them. Give each thread an Rng of its own."
            )
        self._thread = here


class Keystream(_Stream):
    """The bytes that AES-128 in counter mode gives under one key.

    Every 2^35 bytes have a key of their own. If AES is sound, the stream differs from true random bits only in that no block
    comes twice under one key. That shows after about 2^64 blocks, and 2^31 are used.
    Where the processor has AVX-512, the cipher is GCM: also counter mode, and OpenSSL is twice as fast there, elsewhere half.
    A place is a byte, and a key has 16 bytes.
    """

    _encryptor: CipherContext

    def __init__(self, key: bytes | None) -> None:
        self._buffer = np.empty(0, dtype=np.uint8)
        self._zeros = b""
        super().__init__(key)

    def _begin(self) -> None:
        if self._fixed is None:
            mode = modes.GCM(os.urandom(12)) if _wide_registers() else modes.CTR(os.urandom(_BLOCK))
            self._encryptor = Cipher(algorithms.AES(os.urandom(16)), mode).encryptor()
            return
        block, skip = divmod(self.position, _BLOCK)
        counter = modes.CTR(block.to_bytes(_BLOCK, "big"))
        self._encryptor = Cipher(algorithms.AES(self._fixed), counter).encryptor()
        self._encryptor.update(bytes(skip))

    def take(self, size: int) -> np.ndarray:
        """The next bytes. uint8 [size], a buffer that the next call overwrites."""
        if len(self._buffer) < size + SPARE:
            self._buffer = np.empty(size + SPARE, dtype=np.uint8)
        self.write(self._buffer.data, size)
        return self._buffer[:size]

    def write(self, buffer: memoryview, size: int) -> None:
        """The next bytes, into a buffer that holds `SPARE` more."""
        self._prepare(size, _ONE_KEY)
        if len(self._zeros) != size:
            self._zeros = bytes(size)
        self._encryptor.update_into(self._zeros, buffer)
        self.position += size

    def words(self, count: int) -> np.ndarray:
        """The next 64-bit words. uint64 [count], a buffer that the next call overwrites."""
        return self.take(8 * count).view(np.uint64)


def _wide_registers() -> bool:
    """Whether the processor has AVX-512, for which OpenSSL has code for GCM alone. It decides about speed only."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512"


class DeviceKeystream(_Stream):
    """The bytes that ChaCha20 gives under one key (RFC 8439, section 2.3), made where they are wanted.

    Plain operations on tensors of 32-bit integers, which wrap around as the algorithm asks. The bits are the same on every
    device. The counter has 64 bits, as in Bernstein's original: the words that the RFC calls counter and first word of the
    nonce. The rest of the nonce is zero, because no two streams share a key. Every 2^31 blocks have a key of their own.
    A place is a block, and a key has 32 bytes.
    """

    def _begin(self) -> None:
        key = np.frombuffer(os.urandom(32) if self._fixed is None else self._fixed, dtype="<i4")
        self._head = torch.tensor([*_CONSTANTS, *key.tolist()], dtype=torch.int32)[:, None]
        self._sent = self._head  # the same, where it was last wanted

    def write(self, out: Tensor) -> None:
        """Write the next blocks. out: int32 [WORDS, blocks], contiguous; word by word, block beside block."""
        blocks = out.shape[1]
        self._prepare(blocks, _BLOCKS)
        if self._sent.device != out.device:
            self._sent = self._head.to(out.device)
        counter = torch.arange(self.position, self.position + blocks, device=out.device)  # int64
        out[:12] = self._sent
        out[12] = counter & 0xFFFFFFFF
        out[13] = counter >> 32
        out[14:] = 0
        self.position += blocks
        first = out.clone()
        _rounds_(out)
        out += first


def _rounds_(state: Tensor) -> None:
    """The 20 rounds of ChaCha20, in place: of columns and of diagonals in turn. RFC 8439, section 2.3. int32 [16, blocks]"""
    a, b, c, d = state.view(4, 4, -1)
    for _ in range(10):
        _quarter_rounds_(a, b, c, d)
        b, c, d = b.roll(-1, 0), c.roll(-2, 0), d.roll(-3, 0)
        _quarter_rounds_(a, b, c, d)
        b, c, d = b.roll(1, 0), c.roll(2, 0), d.roll(3, 0)
    state[4:8], state[8:12], state[12:] = b, c, d


def _quarter_rounds_(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> None:
    """Four quarter rounds side by side, in place. RFC 8439, section 2.1. int32 [4, blocks] each"""
    for to, more, mixed, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        mixed.bitwise_xor_(to.add_(more))
        carried = (mixed >> 32 - bits).bitwise_and_((1 << bits) - 1)  # the shift copies the sign, which is masked out
        torch.add(carried, mixed, alpha=1 << bits, out=mixed)
