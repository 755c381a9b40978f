"""The keystream of other devices, bit for bit: ChaCha20 as RFC 8439 and `cryptography` have it."""

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from gossamer.privacy.random import keystream
from gossamer.privacy.random.keystream import WORDS, DeviceKeystream

KEY = bytes(range(32))


def taken(stream: DeviceKeystream, blocks: int) -> bytes:
    """The next blocks as the RFC writes them: block after block, words in little endian."""
    room = torch.full((WORDS, blocks), -1, dtype=torch.int32)
    stream.write(room)
    return room.t().contiguous().numpy().astype("<i4").tobytes()


def referee(key: bytes, block: int) -> bytes:
    """The same block by `cryptography`, whose nonce holds the counter first."""
    nonce = block.to_bytes(8, "little") + bytes(8)
    return Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor().update(bytes(64))


def test_a_quarter_round_is_that_of_the_rfc() -> None:
    """RFC 8439, section 2.1.1. Four stand side by side; they do not touch one another."""
    before, after = (0x11111111, 0x01020304, 0x9B8D6F43, 0x01234567), (0xEA2A92F4, 0xCB1CF8CE, 0x4581472E, 0x5881C4BB)
    rows = [torch.tensor([word, 0], dtype=torch.int64).to(torch.int32).repeat(4, 1) for word in before]
    keystream._quarter_rounds_(*rows)
    assert [(row & 0xFFFFFFFF).tolist() for row in (each.long() for each in rows)] == [
        [[word, 0]] * 4 for word in after
    ]


def test_a_block_is_that_of_the_rfc() -> None:
    """RFC 8439, section 2.3.2, whose nonce is not zero: the rounds, and the sum with the state before them."""
    words = [*keystream._CONSTANTS, *torch.frombuffer(bytearray(KEY), dtype=torch.int32).tolist()]
    state = torch.tensor([*words, 1, 0x09000000, 0x4A000000, 0], dtype=torch.int32)[:, None]
    mixed = state.clone()
    keystream._rounds_(mixed)
    assert (mixed + state).flatten().numpy().astype("<i4").tobytes().hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


def test_the_stream_of_the_zero_key_is_that_of_the_rfc() -> None:
    """RFC 8439, appendix A.1, test vectors 1 and 2."""
    found = taken(DeviceKeystream(bytes(32)), 2).hex()
    assert found == (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )


@pytest.mark.parametrize("start", [0, 1, 2**31 - 2, 2**32 - 2, 2**40 + 3])
def test_the_stream_is_that_of_another_implementation(start: int) -> None:
    """Where the counter has 31, 32 and more bits too, and however the reads are split."""
    stream = DeviceKeystream(KEY)
    stream.seek(start)
    found = taken(stream, 1) + taken(stream, 4) + taken(stream, 2)
    assert found == b"".join(referee(KEY, start + i) for i in range(7))
    assert stream.position == start + 7


def test_a_fresh_stream_has_a_key_of_its_own_and_a_fork_another(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = keystream.os.urandom
    monkeypatch.setattr(keystream.os, "urandom", lambda size: asked.append(size) or real(size))
    one, two, fixed = DeviceKeystream(None), DeviceKeystream(None), DeviceKeystream(KEY)
    heads = {taken(one, 1), taken(two, 1)}
    fixed.seek(5)
    monkeypatch.setattr(keystream.os, "getpid", lambda: -1)
    heads.add(taken(one, 1))
    assert asked == [32] * 3 and len(heads) == 3 and one.position == 1
    assert taken(fixed, 1) == referee(KEY, 5)


def test_a_key_serves_so_many_blocks_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keystream, "_BLOCKS", 4)
    stream = DeviceKeystream(None)
    pieces = [taken(stream, 3) for _ in range(3)]
    assert len(set(pieces)) == 3 and stream.position == 3


def test_the_key_goes_where_the_room_is() -> None:
    """Away and back: no mixing of devices, and the stream goes on."""
    stream = DeviceKeystream(KEY)
    stream.write(torch.empty(WORDS, 3, dtype=torch.int32, device="meta"))
    assert taken(stream, 1) == referee(KEY, 3)
