#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arrays of NumPy, or tensors of PyTorch on a GPU, to Stiletto and back without a copy.

Usage: exchange.py BRIDGE numpy|torch, where BRIDGE is the library made of bridge.cpp. Ends with 77, which ctest
shows as skipped, where the other library is missing.
"""
import ctypes
import sys

NAME, USED = b"dltensor", b"used_dltensor"
api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Result:
    """What the bridge returns, as Python's protocol wants it."""

    def __init__(self, pointer, device):
        self.pointer, self.device = pointer, device

    def __dlpack__(self, **_):
        return api.PyCapsule_New(self.pointer, NAME, None)

    def __dlpack_device__(self):
        return self.device


class Bridge:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.bridge_problem.restype = ctypes.c_char_p
        for name in ("bridge_compute", "bridge_negate"):
            function = getattr(self.library, name)
            function.restype = ctypes.c_void_p
            function.argtypes = [ctypes.c_void_p, ctypes.c_longlong]

    def call(self, name, array, stream=-1):
        capsule = array.__dlpack__()
        tensor = api.PyCapsule_GetPointer(capsule, NAME)
        result = getattr(self.library, name)(tensor, stream)
        if not result:
            raise RuntimeError(self.library.bridge_problem().decode())
        api.PyCapsule_SetName(capsule, USED)  # the tensor is not the capsule's any more
        return Result(result, array.__dlpack_device__())


def with_numpy(bridge):
    import numpy as np

    for dtype in ("int8", "int32", "int64", "float16", "float32", "float64"):
        base = np.arange(48).reshape(4, 3, 4).astype(dtype)
        for view in (base, base.T, base[::2, ::-1], base[:, :, 1:3], base[2, 1, 3:4].reshape(())):
            result = np.from_dlpack(bridge.call("bridge_compute", view))
            assert result.dtype == view.dtype and result.shape == view.shape, (dtype, result.dtype, result.shape)
            np.testing.assert_array_equal(result, view * 2 + 1)
    x = np.arange(12, dtype="float32").reshape(3, 4)
    same = np.from_dlpack(bridge.call("bridge_negate", x[:, ::2]))
    assert np.shares_memory(same, x)
    np.testing.assert_array_equal(x, [[0, 1, -2, 3], [-4, 5, -6, 7], [-8, 9, -10, 11]])
    try:
        bridge.call("bridge_compute", np.zeros(3, dtype="complex64"))
        raise AssertionError("complex numbers were taken")
    except RuntimeError as error:
        assert "has no dtype here" in str(error), error
    return np.__version__


def with_torch(bridge):
    import torch
    from torch.utils.dlpack import from_dlpack

    def call(name, tensor):
        stream = torch.cuda.current_stream().cuda_stream if tensor.is_cuda else -1
        result = bridge.call(name, tensor, stream)
        return from_dlpack(result.__dlpack__())

    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    for device in devices:
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            base = torch.arange(4096, device=device).reshape(64, 64).to(dtype) % 61
            for view in (base, base.T, base[:, :32]):
                result = call("bridge_compute", view)
                assert result.dtype == dtype and result.device == base.device, (result.dtype, result.device)
                torch.testing.assert_close(result, view * 2 + 1, rtol=0, atol=0)
            before = base.clone()
            same = call("bridge_negate", base)
            assert same.data_ptr() == base.data_ptr()
            torch.testing.assert_close(base, -before, rtol=0, atol=0)
    if "cuda" in devices:  # what is queued on a stream of PyTorch's is waited for
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for i in range(20):
                x = torch.zeros(1 << 22, device="cuda")
                torch.cuda._sleep(20_000_000)
                x += i
                y = call("bridge_compute", x)
                assert float(y[-1]) == 2 * i + 1, (i, float(y[-1]))
                stream.synchronize()
    return torch.__version__ + " on " + ", ".join(devices)


def main():
    path, other = sys.argv[1:]
    try:
        version = {"numpy": with_numpy, "torch": with_torch}[other](Bridge(path))
    except ModuleNotFoundError as error:
        print(f"SKIPPED: python3 has no {error.name}; install it for the exchange of arrays with {other}")
        return 77
    print(f"arrays went to {other} {version} and back")
    return 0


if __name__ == "__main__":
    sys.exit(main())
