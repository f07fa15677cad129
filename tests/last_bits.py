"""Doubles that numpy's sines made on another machine."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy._core._multiarray_umath import __cpu_features__

_TWO_UNITS = 2 * np.finfo(np.float64).eps  # in the last place
HAS_AVX512 = bool(__cpu_features__.get("AVX512_SKX") or __cpu_features__.get("X86_V4"))
"""Whether numpy computes sines here as where the fixtures were made: others may differ in the last bit."""


def assert_recomputed(found: pa.ChunkedArray, expected: pa.ChunkedArray) -> None:
    """Hold numbers to others to the bit where numpy can compute the same, else to their last bits."""
    if HAS_AVX512:
        assert found.equals(expected)
        return
    assert found.is_null().equals(expected.is_null())
    np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=_TWO_UNITS, atol=0)
