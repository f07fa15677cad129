"""Deflate streams that are read from within a byte on: blocks without content fill it up to the bit.

zlib has a function for that (`inflatePrime`), which Python does not hand out. A block without content may
stand before any other, and changes nothing. One by the fixed code has 10 bits; one with a code of its own can
have 91. So there are such blocks for every number of bits in a byte. The format: RFC 1951.
"""

from __future__ import annotations

_ORDER = (
    16,
    17,
    18,
    0,
    8,
    7,
    9,
    6,
    10,
    5,
    11,
    4,
    12,
    3,
    13,
    2,
    14,
    1,
)  # of the lengths of the lengths' codes


def _bits(number: int, count: int) -> list[int]:
    return [number >> at & 1 for at in range(count)]


_FIXED = [0, *_bits(1, 2), *_bits(0, 7)]  # not the last block, of the fixed code; its end
_OWN = [
    *(0, *_bits(2, 2), *_bits(0, 5), *_bits(0, 5), *_bits(len(_ORDER) - 4, 4)),
    *(bit for code in _ORDER for bit in _bits(int(code in (1, 18)), 3)),  # 1 is written as 0, and 18 as 1
    *(1, *_bits(138 - 11, 7), 1, *_bits(117 - 11, 7)),  # the bytes 0 to 254 have no code,
    *(0, 0, 0),  # 255, the end of the block and one distance have one of a bit each
    1,  # the end of the block
]
_BEFORE = {bits: (_OWN if bits % 2 else []) for bits in range(8)}
for _wanted, _blocks in _BEFORE.items():
    while len(_blocks) % 8 != _wanted:
        _blocks = [*_blocks, *_FIXED]
    _BEFORE[_wanted] = _blocks


def primed(first: int, bits: int) -> bytes:
    """Bytes to inflate in place of one whose lower bits belong to what stands before.

    Parameters
    ----------
    first : int
        The byte.
    bits : int
        How many of its bits are left out: 1 to 7, the lowest ones.
    """
    before = _BEFORE[bits]
    number = sum(bit << at for at, bit in enumerate(before)) | first >> bits << len(before)
    return number.to_bytes(len(before) // 8 + 1, "little")
