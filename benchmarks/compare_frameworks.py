#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch (eager and torch.compile) and JAX on the workloads of gpu_benchmarks.cpp.

Same shapes, random normal data, a warm-up, then the median of batches; PyTorch is timed with CUDA events, JAX
with the clock around a batch, which includes its host time. What is not installed is left out and said.

    python3 benchmarks/compare_frameworks.py [--batches 9] [--json FILE]
"""

import argparse
import importlib.util
import json
import statistics
import sys
import time

# name, kind, dtype, m, n, k: as gpu_workload.hpp
WORKLOADS = [
    ("W1 tanh(x·w / 20)", "tanh_product", "float32", 64, 32, 48),
    ("W2 gelu_tanh(x·w + b), n = 1024", "gelu_product", "bfloat16", 1024, 1024, 1024),
    ("W2 gelu_tanh(x·w + b), n = 4096", "gelu_product", "bfloat16", 4096, 4096, 4096),
    ("W2 gelu_tanh(x·w + b), n = 8192", "gelu_product", "bfloat16", 8192, 8192, 8192),
    ("W6 silu(x·w)·(x·v)", "gated_product", "bfloat16", 4096, 11008, 4096),
    ("W9 x·y + z", "multiply_add", "bfloat16", 8192, 8192, 0),
]


def operand_shapes(kind, m, n, k):
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


def measure_torch(batches):
    import torch
    import torch.nn.functional as F

    torch.backends.cuda.matmul.allow_tf32 = True  # as cuDNN multiplies float32
    functions = {
        "tanh_product": lambda x, w: torch.tanh(x @ w / 20),
        "gelu_product": lambda x, w, b: F.gelu(x @ w + b, approximate="tanh"),
        "gated_product": lambda x, w, v: F.silu(x @ w) * (x @ v),
        "multiply_add": lambda x, y, z: x * y + z,
    }
    columns = {"torch eager": {}, "torch.compile": {}}
    for name, kind, dtype, m, n, k in WORKLOADS:
        operands = [
            torch.randn(shape, device="cuda", dtype=torch.float32).to(getattr(torch, dtype))
            for shape in operand_shapes(kind, m, n, k)
        ]
        for column, f in (
            ("torch eager", functions[kind]),
            ("torch.compile", torch.compile(functions[kind])),
        ):

            def batch(calls, f=f):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                for _ in range(calls):
                    f(*operands)
                end.record()
                end.synchronize()
                return 1e3 * begin.elapsed_time(end) / calls

            f(*operands)
            columns[column][name] = median_of_batches(batch, batches)
            print(f"  {column}: {name}: {columns[column][name]:.1f} µs", flush=True)
    return columns


def measure_jax(batches):
    import jax
    import jax.numpy as jnp

    functions = {
        "tanh_product": lambda x, w: jnp.tanh(x @ w / 20),
        "gelu_product": lambda x, w, b: jax.nn.gelu(x @ w + b, approximate=True),
        "gated_product": lambda x, w, v: jax.nn.silu(x @ w) * (x @ v),
        "multiply_add": lambda x, y, z: x * y + z,
    }
    column = {}
    for name, kind, dtype, m, n, k in WORKLOADS:
        keys = jax.random.split(jax.random.key(1), 3)
        operands = [
            jax.random.normal(key, shape, jnp.float32).astype(dtype)
            for key, shape in zip(keys, operand_shapes(kind, m, n, k))
        ]
        f = jax.jit(functions[kind])

        def batch(calls):
            start = time.perf_counter()
            for _ in range(calls):
                result = f(*operands)
            result.block_until_ready()
            return 1e6 * (time.perf_counter() - start) / calls

        f(*operands).block_until_ready()
        column[name] = median_of_batches(batch, batches)
        print(f"  JAX: {name}: {column[name]:.1f} µs", flush=True)
    return {"JAX": column}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=9)
    parser.add_argument("--json", help="write the measurements there, too")
    options = parser.parse_args()
    columns = {}
    for module, measure in (("torch", measure_torch), ("jax", measure_jax)):
        if importlib.util.find_spec(module) is None:
            print(f"{module} is not installed and left out")
            continue
        columns.update(measure(max(options.batches, 7)))
    if not columns:
        sys.exit("neither torch nor jax is installed")
    print("\n| work, µs per call | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, *_ in WORKLOADS:
        print(f"| {name} | " + " | ".join(f"{c[name]:.1f}" for c in columns.values()) + " |")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(columns, file, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
