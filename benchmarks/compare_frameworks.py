#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch (eager and torch.compile) and JAX on the workloads of gpu_workloads.cpp.

Same shapes, random normal data, a warm-up, then the median of batches; PyTorch is timed with CUDA events, JAX
with the clock around a batch, which includes its host time, and on attention's backward pass its forward pass.
PyTorch's columns use cuDNN's attention, those of flash the flash kernels. What is not installed is left out and said.

    python3 benchmarks/compare_frameworks.py [--batches 9] [--only W3] [--json FILE]
"""

import argparse
import contextlib
import importlib.util
import json
import statistics
import sys
import time

# name, kind, dtype, sizes: as gpu_workloads.cpp. Sizes of products are m, n, k (of multiply_add rows and columns),
# of attention batch, seq, causal, of norms rows and columns, of convolutions n, c, k, extent, window, padding.
WORKLOADS = [
    ("W1 tanh(x·w / 20)", "tanh_product", "float32", (64, 32, 48)),
    *((f"W2 gelu_tanh(x·w + b), n = {n}", "gelu_product", "bfloat16", (n, n, n)) for n in (1024, 4096, 8192)),
    ("W6 silu(x·w)·(x·v)", "gated_product", "bfloat16", (4096, 11008, 4096)),
    ("W9 x·y + z", "multiply_add", "bfloat16", (8192, 8192, 0)),
    *(
        (
            f"W3 attention {way}, {'causal' if causal else 'dense'}, b{batch} s{seq}",
            f"attention_{way}",
            "bfloat16",
            (batch, seq, causal),
        )
        for way in ("forward", "backward")
        for batch, seq in ((8, 2048), (2, 8192))
        for causal in (False, True)
    ),
    *(
        (f"W4 {norm} of 16384 × {n}", norm, "bfloat16", (16384, n))
        for norm in ("rms_norm", "layer_norm")
        for n in (1024, 4096, 8192)
    ),
    *(
        (f"W5 relu(conv(x, w) + b), n{n} c{c} k{k} {e}×{e}, {w}×{w}", "convolution", "float16", (n, c, k, e, w, p))
        for n, c, k, e, w, p in ((32, 256, 256, 28, 3, 1), (32, 64, 64, 56, 3, 1), (32, 512, 2048, 14, 1, 0))
    ),
]
HEADS, HEAD_DIM = 32, 128


def operand_shapes(kind, sizes):
    """Attention is (batch, seq, heads, head_dim) in memory, images and filters are channels-last."""
    if kind.startswith("attention"):
        batch, seq, _ = sizes
        return [(batch, seq, HEADS, HEAD_DIM)] * (4 if kind.endswith("backward") else 3)
    if kind in ("rms_norm", "layer_norm"):
        rows, n = sizes
        return [(rows, n)] + [(n,)] * (2 if kind == "layer_norm" else 1)
    if kind == "convolution":
        n, c, k, extent, window, _ = sizes
        return [(n, extent, extent, c), (k, window, window, c), (k,)]
    m, n, k = sizes
    return {
        "tanh_product": [(m, k), (k, n)],
        "gelu_product": [(m, k), (k, n), (n,)],
        "gated_product": [(m, k), (k, n), (k, n)],
        "multiply_add": [(m, n)] * 3,
    }[kind]


def median_of_batches(run_batch, batches):
    """run_batch(calls) gives microseconds per call; batches take about 20 ms."""
    once = max(run_batch(20), 1.0)
    calls = min(max(int(20000 / once), 5), 4000)
    run_batch(calls)
    return statistics.median(run_batch(calls) for _ in range(batches))


def torch_function(kind, sizes):
    import torch.nn.functional as F

    if kind == "attention_forward":
        causal = sizes[-1]
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    if kind == "rms_norm":
        return lambda x, scale: F.rms_norm(x, scale.shape, scale, 1e-5)
    if kind == "layer_norm":
        return lambda x, scale, bias: F.layer_norm(x, scale.shape, scale, bias, 1e-5)
    if kind == "convolution":
        padding = sizes[-1]
        return lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=padding))
    return {
        "tanh_product": lambda x, w: (x @ w / 20).tanh(),
        "gelu_product": lambda x, w, b: F.gelu(x @ w + b, approximate="tanh"),
        "gated_product": lambda x, w, v: F.silu(x @ w) * (x @ v),
        "multiply_add": lambda x, y, z: x * y + z,
    }[kind]


def torch_operands(kind, dtype, sizes):
    import torch

    operands = [
        torch.randn(shape, device="cuda", dtype=torch.float32).to(getattr(torch, dtype))
        for shape in operand_shapes(kind, sizes)
    ]
    if kind.startswith("attention"):
        return [operand.transpose(1, 2) for operand in operands]
    if kind == "convolution":
        return [operand.permute(0, 3, 1, 2) if operand.dim() == 4 else operand for operand in operands]
    return operands


def torch_backward(operands, sizes, compiled):
    """The backward pass alone of a forward call that has been made."""
    import torch

    d_out, *inputs = operands
    inputs = [operand.detach().requires_grad_() for operand in inputs]
    forward = torch_function("attention_forward", sizes)
    out = (torch.compile(forward) if compiled else forward)(*inputs)
    return lambda: torch.autograd.grad(out, inputs, d_out, retain_graph=True)


def torch_call(kind, sizes, operands, compiled):
    import torch

    if kind == "attention_backward":
        return torch_backward(operands, sizes, compiled)
    function = torch_function(kind, sizes)
    if compiled:
        torch._dynamo.reset()  # each workload has its own code, not one with dynamic shapes
        function = torch.compile(function)
    return lambda: function(*operands)


def torch_columns(kind):
    """Column, backend of attention, compiled or not."""
    from torch.nn.attention import SDPBackend

    if not kind.startswith("attention"):
        return [("torch eager", None, False), ("torch.compile", None, True)]
    cudnn, flash = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION
    return [
        ("torch eager", cudnn, False),
        ("torch.compile", cudnn, True),
        ("torch eager, flash", flash, False),
        ("torch.compile, flash", flash, True),
    ]


def time_torch(call, batches):
    import torch

    def batch(calls):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end) / calls

    call()
    return median_of_batches(batch, batches)


def measure_torch(batches, chosen):
    import torch
    import torch._functorch.config
    from torch.nn.attention import sdpa_kernel

    torch.backends.cuda.matmul.allow_tf32 = True  # as cuDNN multiplies float32
    torch.backends.cudnn.benchmark = True
    torch._functorch.config.donated_buffer = False  # which a compiled backward pass called twice does not allow
    columns = {}
    for name, kind, dtype, sizes in chosen:
        operands = torch_operands(kind, dtype, sizes)
        for column, backend, compiled in torch_columns(kind):
            try:
                with contextlib.nullcontext() if backend is None else sdpa_kernel(backend):
                    with torch.set_grad_enabled(kind.endswith("backward")):
                        took = time_torch(torch_call(kind, sizes, operands, compiled), batches)
            except Exception as error:  # a backend that this build or GPU lacks has no figure
                print(f"  {column}: {name}: {error}", flush=True)
                continue
            columns.setdefault(column, {})[name] = took
            print(f"  {column}: {name}: {took:.1f} µs", flush=True)
        del operands
    return columns


def jax_attention(causal):
    import jax

    return lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation="cudnn")


def jax_function(kind, sizes):
    import jax
    import jax.numpy as jnp

    def attention_backward(d_out, q, k, v):  # with the forward pass, which JAX has no way to leave out
        return jax.vjp(jax_attention(sizes[-1]), q, k, v)[1](d_out)

    def rms_norm(x, scale):
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * scale).astype(x.dtype)

    def layer_norm(x, scale, bias):
        wide = x.astype(jnp.float32)
        centred = wide - wide.mean(-1, keepdims=True)
        inv_std = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return (centred * inv_std * scale + bias).astype(x.dtype)

    def convolution(x, w, b):
        y = jax.lax.conv_general_dilated(
            x, w, (1, 1), [(sizes[-1], sizes[-1])] * 2, dimension_numbers=("NHWC", "OHWI", "NHWC")
        )
        return jax.nn.relu(y + b)

    if kind == "attention_forward":
        return jax_attention(sizes[-1])
    return {
        "attention_backward": attention_backward,
        "rms_norm": rms_norm,
        "layer_norm": layer_norm,
        "convolution": convolution,
        "tanh_product": lambda x, w: jnp.tanh(x @ w / 20),
        "gelu_product": lambda x, w, b: jax.nn.gelu(x @ w + b, approximate=True),
        "gated_product": lambda x, w, v: jax.nn.silu(x @ w) * (x @ v),
        "multiply_add": lambda x, y, z: x * y + z,
    }[kind]


def time_jax(function, operands, batches):
    import jax

    def batch(calls):
        start = time.perf_counter()
        for _ in range(calls):
            result = function(*operands)
        jax.block_until_ready(result)
        return 1e6 * (time.perf_counter() - start) / calls

    jax.block_until_ready(function(*operands))
    return median_of_batches(batch, batches)


def measure_jax(batches, chosen):
    import jax
    import jax.numpy as jnp

    column = {}
    for name, kind, dtype, sizes in chosen:
        shapes = operand_shapes(kind, sizes)
        keys = jax.random.split(jax.random.key(1), len(shapes))
        operands = [
            jax.random.normal(key, shape, jnp.float32).astype(dtype) for key, shape in zip(keys, shapes)
        ]
        try:
            column[name] = time_jax(jax.jit(jax_function(kind, sizes)), operands, batches)
        except Exception as error:
            print(f"  JAX: {name}: {error}", flush=True)
            continue
        print(f"  JAX: {name}: {column[name]:.1f} µs", flush=True)
    return {"JAX": column}


def print_table(columns, chosen):
    print("\n| work, µs per call | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, *_ in chosen:
        cells = (f"{c[name]:.1f}" if name in c else "" for c in columns.values())
        print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=9)
    parser.add_argument("--json", help="write the measurements there, too")
    parser.add_argument("--only", default="", help="a part of the names of the workloads to measure")
    options = parser.parse_args()
    chosen = [work for work in WORKLOADS if options.only in work[0]]
    columns = {}
    for module, measure in (("torch", measure_torch), ("jax", measure_jax)):
        if importlib.util.find_spec(module) is None:
            print(f"{module} is not installed and left out")
            continue
        columns.update(measure(max(options.batches, 7), chosen))
    if not columns:
        sys.exit("neither torch nor jax is installed")
    print_table(columns, chosen)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(columns, file, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
