#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every code of the narrow formats, and what is rounded to them, against ml_dtypes.

Usage: against_ml_dtypes.py BRIDGE, where BRIDGE is the library made of bridge.cpp. Ends with 77, which ctest shows
as skipped, where NumPy or ml_dtypes is missing.
"""
import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../.deps/ml_dtypes"))
try:
    import numpy as np
    import ml_dtypes
except ImportError as error:
    print(f"SKIPPED: the narrow formats were not compared with ml_dtypes ({error}); scripts/test.sh installs it")
    sys.exit(77)

TYPES = {
    "int8": np.int8,
    "uint8": np.uint8,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e8m0": ml_dtypes.float8_e8m0fnu,
    "float4_e2m1": ml_dtypes.float4_e2m1fn,
}
ENCODED = ("float8_e4m3", "float8_e5m2", "float4_e2m1")


def packed(values):
    """Two codes of float4 to a byte, the first in the low half; ml_dtypes has a byte for each."""
    codes = values.view(np.uint8)
    return codes[0::2] | codes[1::2] << 4


def unpacked(data):
    return np.stack((data & 15, data >> 4), axis=1).reshape(-1)


class Bridge:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.bridge_problem.restype = ctypes.c_char_p
        self.library.bridge_cast.restype = ctypes.c_bool
        self.library.bridge_cast.argtypes = [ctypes.c_void_p, ctypes.c_char_p] * 2 + [ctypes.c_longlong]

    def cast(self, values, source, target):
        data = packed(values) if source == "float4_e2m1" else np.ascontiguousarray(values)
        out = np.empty(len(values) // 2, np.uint8) if target == "float4_e2m1" else np.empty(len(values), TYPES[target])
        if not self.library.bridge_cast(data.ctypes.data, source.encode(), out.ctypes.data, target.encode(), len(values)):
            raise RuntimeError(self.library.bridge_problem().decode())
        return unpacked(out).view(TYPES[target]) if target == "float4_e2m1" else out


def all_codes(name):
    return np.arange(16 if name == "float4_e2m1" else 256, dtype=np.uint8).view(TYPES[name])


def bits(values):
    return values.view(f"u{values.itemsize}")


def expect(actual, expected, source, inputs):
    """Equal codes, but for those of NaN."""
    both_nan = np.isnan(actual.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    wrong = np.flatnonzero((bits(actual) != bits(expected)) & ~both_nan)
    assert wrong.size == 0, f"{wrong.size} of {len(inputs)}, the first: {source} {inputs[wrong[0]]!r} gave " \
        f"{actual[wrong[0]]} in {actual.dtype} and {expected[wrong[0]]} by ml_dtypes"


def interesting(name):
    """Values and midpoints of the narrow formats have 5 bits at most, so what is rounded where is decided by the upper
    16 bits of a wider format and by whether the others are all 0. Patterns of 16 bits are complete for float16 and
    bfloat16; with some for the lower bits they are, in float32 and float64, every code's value, every midpoint, their
    neighbours on both sides, numbers that another format in between would round to a midpoint, those beyond the range,
    subnormals, infinities and NaNs."""
    upper = np.arange(1 << 16, dtype=np.uint64)
    if name in ("int8", "uint8"):
        return np.arange(256, dtype=np.uint8).view(TYPES[name])
    if name in ("float16", "bfloat16"):
        return upper.astype(np.uint16).view(TYPES[name])
    if name == "float32":
        lower = (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
        return np.concatenate([upper << 16 | low for low in lower]).astype(np.uint32).view(np.float32)
    lower = (0, 1, 1 << 20, 1 << 47, (1 << 48) - (1 << 20), (1 << 48) - 1)
    return np.concatenate([upper << 48 | low for low in lower]).view(np.float64)


def nearest(values, target):
    """The nearest of ml_dtypes's values, of two the one with the even code: for float64, which ml_dtypes itself rounds
    twice, through float32."""
    codes = all_codes(target)
    positive = codes[: len(codes) // 2].astype(np.float64)
    positive = positive[np.isfinite(positive)]
    midpoints = (positive[1:] + positive[:-1]) / 2
    below, above = (np.searchsorted(midpoints, abs(values), side) for side in ("left", "right"))
    code = np.where(below % 2 == 0, below, above) + np.signbit(values) * (len(codes) // 2)
    return code.astype(np.uint8).view(TYPES[target])


def rounded(values, target):
    """By ml_dtypes. It makes NaN or infinity of what is beyond the range of float8, where the rule here is to saturate:
    what was clamped before is not beyond it. Of NaN float4 has none: ml_dtypes makes -0, and the rule here is 6."""
    largest = float(ml_dtypes.finfo(TYPES[target]).max)
    if values.dtype.kind in "iu":
        values = values.astype(np.float32)
    if values.dtype == np.float64:
        result = nearest(np.clip(values, -largest, largest), target)
        single = values == values.astype(np.float32)  # rounded once
        expect(result[single], np.clip(values[single], -largest, largest).astype(TYPES[target]), "float64", values[single])
    else:
        result = np.clip(values.astype(np.float32), -largest, largest).astype(TYPES[target])
    nan = np.isnan(values.astype(np.float64))
    result[nan] = 6 if target == "float4_e2m1" else np.nan
    return result


def main():
    bridge = Bridge(sys.argv[1])
    count = 0
    for source in ENCODED + ("float8_e8m0",):
        values = all_codes(source)
        for target in ("float16", "bfloat16", "float32", "float64"):
            if source == "float8_e8m0" and target == "float16":  # most are beyond its range
                continue
            expect(bridge.cast(values, source, target), values.astype(TYPES[target]), source, values)
            count += len(values)
    for target in ENCODED:
        for source in TYPES:
            values = all_codes(source) if source in ENCODED + ("float8_e8m0",) else interesting(source)
            expect(bridge.cast(values, source, target), rounded(values, target), source, values)
            count += len(values)
    print(f"{count} casts agree with ml_dtypes {ml_dtypes.__version__}")
    return 0


if __name__ == "__main__":
    np.seterr(over="ignore", invalid="ignore")
    sys.exit(main())
