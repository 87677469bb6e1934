#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stiletto, PyTorch (eager and torch.compile) and JAX on the same workloads, in turn, in one run.

Same shapes and types, random-normal data. A batch is as many calls as take about --batch milliseconds, each of which
allocates its result, and a wait for the last one, by the clock: what a call costs the host is part of it. In every
round each side runs one batch; a column has the median of its batches and the median of the rounds' ratios to
Stiletto's (above 1: Stiletto is faster). On attention's backward pass JAX's time includes the forward pass. PyTorch uses
cuDNN's attention, in the columns of flash the flash kernels. What is not installed is left out and said, and with
--seconds what there was no time for.

    python3 benchmarks/compare_frameworks.py --device cuda [--batches 7] [--only W3] [--seconds 140] [--json FILE]

Stiletto's side is the program stiletto_timed_calls, which is looked for in the current folder and in build/*/benchmarks,
or named by --stiletto.
"""

import argparse
import contextlib
import glob
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

# name, kind, dtype, sizes as timed_calls.cpp takes them. Of products m, n, k; of attention batch, seq, causal, heads,
# head_dim; of norms rows and columns; of convolutions n, c, k, extent, window, padding, channels-last.
GPU_WORKLOADS = [
    ("W1 tanh(x·w / 20)", "tanh_product", "float32", (64, 32, 48)),
    *((f"W2 gelu_tanh(x·w + b), n = {n}", "gelu_product", "bfloat16", (n, n, n)) for n in (1024, 4096, 8192)),
    ("W6 silu(x·w)·(x·v)", "gated_product", "bfloat16", (4096, 11008, 4096)),
    ("W9 x·y + z", "multiply_add", "bfloat16", (8192, 8192)),
    *(
        (
            f"W3 attention {way}, {'causal' if causal else 'dense'}, b{batch} s{seq}",
            f"attention_{way}",
            "bfloat16",
            (batch, seq, causal, 32, 128),
        )
        for way in ("forward", "backward")
        for batch, seq in ((8, 2048), (2, 8192))
        for causal in (0, 1)
    ),
    *(
        (f"W4 {norm} of 16384 × {n}", norm, "bfloat16", (16384, n))
        for norm in ("rms_norm", "layer_norm")
        for n in (1024, 4096, 8192)
    ),
    *(
        (f"W5 relu(conv(x, w) + b), n{n} c{c} k{k} {e}×{e}, {w}×{w}", "convolution", "float16", (n, c, k, e, w, p, 1))
        for n, c, k, e, w, p in ((32, 256, 256, 28, 3, 1), (32, 64, 64, 56, 3, 1), (32, 512, 2048, 14, 1, 0))
    ),
]
CPU_WORKLOADS = [
    *((f"C1 gelu_tanh(x·w + b), n = {n}", "gelu_product", "float32", (n, n, n)) for n in (512, 1024)),
    ("C1 attention, b2 s512 h8 d64", "attention_forward", "float32", (2, 512, 0, 8, 64)),
    ("attention, causal, b2 s512 h8 d64", "attention_forward", "float32", (2, 512, 1, 8, 64)),
    ("attention backward, b2 s512 h8 d64", "attention_backward", "float32", (2, 512, 0, 8, 64)),
    ("C1 relu(conv(x, w) + b), n8 c64 k64 56×56, 3×3", "convolution", "float32", (8, 64, 64, 56, 3, 1, 0)),
    ("C1 relu(conv(x, w) + b), channels-last", "convolution", "float32", (8, 64, 64, 56, 3, 1, 1)),
    ("rms_norm of 4096 × 1024", "rms_norm", "float32", (4096, 1024)),
    ("layer_norm of 4096 × 1024", "layer_norm", "float32", (4096, 1024)),
    ("softmax of 4096 × 1024", "softmax", "float32", (4096, 1024)),
    ("x·y + z of 4096 × 4096", "multiply_add", "float32", (4096, 4096)),
]


def operand_shapes(kind, sizes):
    """Attention is (batch, seq, heads, head_dim) in memory; the channels of images lie last where they say so."""
    if kind.startswith("attention"):
        batch, seq, _, heads, head_dim = sizes
        return [(batch, seq, heads, head_dim)] * (4 if kind.endswith("backward") else 3)
    if kind == "convolution":
        n, c, k, extent, window, _, last = sizes
        if last:
            return [(n, extent, extent, c), (k, window, window, c), (k,)]
        return [(n, c, extent, extent), (k, c, window, window), (k,)]
    if kind in ("rms_norm", "layer_norm", "softmax", "multiply_add"):
        rows, n = sizes
        vectors = {"rms_norm": 1, "layer_norm": 2}.get(kind, 0)
        return [(rows, n)] * (3 if kind == "multiply_add" else 1) + [(n,)] * vectors
    m, n, k = sizes
    return {
        "tanh_product": [(m, k), (k, n)],
        "gelu_product": [(m, k), (k, n), (n,)],
        "gated_product": [(m, k), (k, n), (k, n)],
    }[kind]


# Each side has columns(kind), the names of its columns, and prepare(column, kind, dtype, sizes), a function that runs a
# batch of so many calls and gives microseconds per call. What it cannot do it throws.


class Stiletto:
    def __init__(self, device, program):
        self.process = subprocess.Popen([program, device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if not answer:
            raise RuntimeError(f"stiletto_timed_calls ended with status {self.process.wait()}")
        if answer.startswith("refused"):
            raise RuntimeError(answer)
        return answer

    def columns(self, kind):
        return ["Stiletto"]

    def prepare(self, column, kind, dtype, sizes):
        self.ask(f"prepare {kind} {dtype} {' '.join(str(int(s)) for s in sizes)}")
        return lambda calls: float(self.ask(f"run {calls}"))


class Torch:
    def __init__(self, device):
        import torch
        import torch._functorch.config

        self.device = device
        torch.backends.cuda.matmul.allow_tf32 = True  # as cuDNN multiplies float32
        torch.backends.cudnn.benchmark = True
        torch._functorch.config.donated_buffer = False  # which a compiled backward pass called twice does not allow

    def columns(self, kind):
        if not kind.startswith("attention"):
            return ["torch eager", "torch.compile"]
        if self.device == "cpu":
            return ["torch eager", "torch.compile"]
        return ["torch eager", "torch eager, flash"]

    def attention_backend(self, column, kind):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        if not kind.startswith("attention") or self.device == "cpu":
            return contextlib.nullcontext()
        return sdpa_kernel(SDPBackend.FLASH_ATTENTION if "flash" in column else SDPBackend.CUDNN_ATTENTION)

    def operands(self, kind, dtype, sizes):
        import torch

        made = [
            torch.randn(shape, device=self.device, dtype=torch.float32).to(getattr(torch, dtype))
            for shape in operand_shapes(kind, sizes)
        ]
        if kind.startswith("attention"):
            return [operand.transpose(1, 2) for operand in made]
        if kind == "convolution" and sizes[-1]:
            return [operand.permute(0, 3, 1, 2) if operand.dim() == 4 else operand for operand in made]
        return made

    def prepare(self, column, kind, dtype, sizes):
        import torch

        operands = self.operands(kind, dtype, sizes)
        compiled = column.startswith("torch.compile")
        function = torch_function(kind, sizes)
        if compiled:
            torch._dynamo.reset()  # each workload has its own code, not one with dynamic shapes
            function = torch.compile(function)
        if kind == "attention_backward":
            d_out, *inputs = operands
            inputs = [operand.detach().requires_grad_() for operand in inputs]
            with self.attention_backend(column, kind):
                out = function(*inputs)
            call = lambda: torch.autograd.grad(out, inputs, d_out, retain_graph=True)
        else:
            call = lambda: function(*operands)

        def batch(calls):
            with self.attention_backend(column, kind), torch.set_grad_enabled(kind.endswith("backward")):
                start = time.perf_counter()
                for _ in range(calls):
                    call()
                if self.device == "cuda":
                    torch.cuda.synchronize()
                return 1e6 * (time.perf_counter() - start) / calls

        return batch


def torch_function(kind, sizes):
    import torch.nn.functional as F

    if kind.startswith("attention"):
        causal = bool(sizes[2])
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    if kind == "rms_norm":
        return lambda x, scale: F.rms_norm(x, scale.shape, scale, 1e-5)
    if kind == "layer_norm":
        return lambda x, scale, bias: F.layer_norm(x, scale.shape, scale, bias, 1e-5)
    if kind == "convolution":
        padding = sizes[5]
        return lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=padding))
    return {
        "tanh_product": lambda x, w: (x @ w / 20).tanh(),
        "gelu_product": lambda x, w, b: F.gelu(x @ w + b, approximate="tanh"),
        "gated_product": lambda x, w, v: F.silu(x @ w) * (x @ v),
        "multiply_add": lambda x, y, z: x * y + z,
        "softmax": lambda x: F.softmax(x, -1),
    }[kind]


class Jax:
    def __init__(self, device):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the others need memory, too
        import jax

        self.device = jax.devices(device)[0]

    def columns(self, kind):
        return ["JAX"]

    def prepare(self, column, kind, dtype, sizes):
        import jax
        import jax.numpy as jnp

        shapes = operand_shapes(kind, sizes)
        with jax.default_device(self.device):
            keys = jax.random.split(jax.random.key(1), len(shapes))
            operands = [
                jax.random.normal(key, shape, jnp.float32).astype(dtype) for key, shape in zip(keys, shapes)
            ]
        function = jax.jit(jax_function(kind, sizes, self.device.platform))

        def batch(calls):
            start = time.perf_counter()
            for _ in range(calls):
                result = function(*operands)
            jax.block_until_ready(result)
            return 1e6 * (time.perf_counter() - start) / calls

        return batch


def jax_function(kind, sizes, platform):
    import jax
    import jax.numpy as jnp

    def attention(q, k, v):
        implementation = None if platform == "cpu" else "cudnn"
        return jax.nn.dot_product_attention(q, k, v, is_causal=bool(sizes[2]), implementation=implementation)

    def attention_backward(d_out, q, k, v):  # with the forward pass, which JAX has no way to leave out
        return jax.vjp(attention, q, k, v)[1](d_out)

    def rms_norm(x, scale):
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * scale).astype(x.dtype)

    def layer_norm(x, scale, bias):
        wide = x.astype(jnp.float32)
        centred = wide - wide.mean(-1, keepdims=True)
        inv_std = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return (centred * inv_std * scale + bias).astype(x.dtype)

    def convolution(x, w, b):
        last = sizes[-1]
        axes = ("NHWC", "OHWI", "NHWC") if last else ("NCHW", "OIHW", "NCHW")
        y = jax.lax.conv_general_dilated(x, w, (1, 1), [(sizes[5], sizes[5])] * 2, dimension_numbers=axes)
        return jax.nn.relu(y + (b if last else b[:, None, None]))

    return {
        "attention_forward": attention,
        "attention_backward": attention_backward,
        "rms_norm": rms_norm,
        "layer_norm": layer_norm,
        "convolution": convolution,
        "softmax": lambda x: jax.nn.softmax(x, -1),
        "tanh_product": lambda x, w: jnp.tanh(x @ w / 20),
        "gelu_product": lambda x, w, b: jax.nn.gelu(x @ w + b, approximate=True),
        "gated_product": lambda x, w, v: jax.nn.silu(x @ w) * (x @ v),
        "multiply_add": lambda x, y, z: x * y + z,
    }[kind]


def prepared(sides, work, batch_us):
    """Column: (batch function, calls of a batch), after a warm-up of one batch."""
    name, kind, dtype, sizes = work
    result = {}
    for side in sides:
        for column in side.columns(kind):
            try:
                batch = side.prepare(column, kind, dtype, sizes)
                batch(3)  # compiles
                calls = min(max(int(batch_us / max(batch(5), 1.0)), 3), 20000)
                batch(calls)
                result[column] = (batch, calls)
            except Exception as error:  # a backend that this build or GPU lacks has no figure
                print(f"  {column}: {name}: {str(error).splitlines()[0]}", flush=True)
    return result


def measure(sides, work, options):
    """Column: (median microseconds, median of the ratios to Stiletto or None)."""
    contestants = prepared(sides, work, 1000 * options.batch)
    rounds = []
    for _ in range(max(options.batches, 7)):
        took = {}
        for column, (batch, calls) in contestants.items():
            took[column] = batch(calls)
        rounds.append(took)
    result = {}
    for column in contestants:
        ratios = [took[column] / took["Stiletto"] for took in rounds if "Stiletto" in took]
        result[column] = (
            statistics.median(took[column] for took in rounds),
            statistics.median(ratios) if ratios and column != "Stiletto" else None,
        )
    return result


def cell(figure):
    if figure is None:
        return ""
    took, ratio = figure
    shown = f"{took:.1f}" if took < 1000 else f"{took:.0f}"
    return shown if ratio is None else f"{shown} ({ratio:.2f})"


def table(results):
    columns = []
    for row in results.values():
        columns += [column for column in row if column not in columns]
    lines = ["| work, µs per call (ratio to Stiletto) | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, row in results.items():
        lines.append(f"| {name} | " + " | ".join(cell(row.get(column)) for column in columns) + " |")
    return "\n".join(lines)


def find_program(named):
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = [named] if named else ["./stiletto_timed_calls"]
    if not named:
        for preset in ("cuda", "release", "*"):
            places += sorted(glob.glob(os.path.join(here, "build", preset, "benchmarks", "stiletto_timed_calls")))
    return next((place for place in places if os.access(place, os.X_OK)), None)


def make_sides(options):
    sides = []
    program = find_program(options.stiletto)
    if program is None:
        print("stiletto_timed_calls is not built (or not where --stiletto says), and Stiletto is left out")
    else:
        sides.append(Stiletto(options.device, program))
    for module, side in (("torch", Torch), ("jax", Jax)):
        if importlib.util.find_spec(module) is None:
            print(f"{module} is not installed and left out")
            continue
        try:
            sides.append(side(options.device))
        except Exception as error:
            print(f"{module} is left out: {error}")
    return sides


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--batches", type=int, default=7, help="rounds, at least 7")
    parser.add_argument("--batch", type=float, default=20, help="milliseconds of a batch")
    parser.add_argument("--only", default="", help="a part of the names of the workloads to measure")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no workload after that long")
    parser.add_argument("--stiletto", help="the program stiletto_timed_calls")
    parser.add_argument("--json", help="write the measurements there, too")
    options = parser.parse_args()
    start = time.monotonic()
    sides = make_sides(options)
    if not sides:
        sys.exit("there is nothing to measure")
    results = {}
    for work in CPU_WORKLOADS if options.device == "cpu" else GPU_WORKLOADS:
        if options.only not in work[0]:
            continue
        if time.monotonic() - start > options.seconds:
            print(f"no time left for {work[0]}")
            continue
        results[work[0]] = measure(sides, work, options)
        spent = time.monotonic() - start
        print(f"{spent:.0f} s: {work[0]}: " + ", ".join(f"{c} {cell(f)}" for c, f in results[work[0]].items()), flush=True)
    print("\n" + table(results))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
