# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2 in NumPy and float64, written from the paper's formulas and sharing nothing with the example.

One sentence at a time, so there is no padding and no mask.
"""
import json
import math

import numpy as np

HEADS = 12
EPSILON = 1e-12

erf = np.vectorize(math.erf, otypes=[np.float64])


def read_tensors(path):
    """name: array, of a file in the safetensors format."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (start + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"]).astype(np.float64)
    return tensors


class Reference:
    def __init__(self, path):
        self.tensors = read_tensors(path)
        self.layers = 1 + max(int(name.split(".")[2]) for name in self.tensors if name.startswith("encoder.layer."))

    def linear(self, name, x):
        return x @ self.tensors[name + ".weight"].T + self.tensors[name + ".bias"]

    def norm(self, name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        return centred / deviation * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def attention(self, name, x):
        split = (len(x), HEADS, x.shape[-1] // HEADS)
        q, k, v = (self.linear(f"{name}.{part}", x).reshape(split).swapaxes(0, 1) for part in ("query", "key", "value"))
        scores = q @ k.swapaxes(1, 2) / math.sqrt(split[2])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return (weights @ v).swapaxes(0, 1).reshape(x.shape)

    def __call__(self, tokens):
        """The vector of length 1 of one sentence's tokens."""
        t = self.tensors
        x = t["embeddings.word_embeddings.weight"][tokens]
        x = x + t["embeddings.position_embeddings.weight"][: len(tokens)]
        x = self.norm("embeddings.LayerNorm", x + t["embeddings.token_type_embeddings.weight"][0])
        for i in range(self.layers):
            name = f"encoder.layer.{i}"
            attended = self.linear(f"{name}.attention.output.dense", self.attention(f"{name}.attention.self", x))
            x = self.norm(f"{name}.attention.output.LayerNorm", x + attended)
            inner = self.linear(f"{name}.intermediate.dense", x)
            inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
            x = self.norm(f"{name}.output.LayerNorm", x + self.linear(f"{name}.output.dense", inner))
        mean = x.mean(axis=0)
        return mean / np.sqrt((mean**2).sum())
