#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the two-layer network that examples/digits runs, with NumPy alone.

Reads data/digits.bin, trains on the part marked for training, never looks at the held-out part before the
end, and writes data/weights.bin. With --refresh-data it first writes data/digits.bin again from the copy of
the data set in scikit-learn. README.md beside this file describes both formats.
"""

import argparse
import pathlib
import struct
import sys
import time

import numpy as np

DATA_MAGIC = b"STDIGITS"
WEIGHTS_MAGIC = b"STWEIGHT"
SIDE, CLASSES, PIXEL_MAX = 8, 10, 16
HELD_OUT_PER_CLASS = 60


def refresh_data(path, seed):
    """Writes scikit-learn's 1,797 digits, with 60 of each class marked as held out."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("train.py: --refresh-data needs scikit-learn: pip install scikit-learn")
    digits = load_digits()
    pixels, labels = digits.data.astype(np.uint8), digits.target.astype(np.uint8)
    held_out = np.zeros(len(labels), np.uint8)
    rng = np.random.default_rng(seed)
    for label in range(CLASSES):
        held_out[rng.permutation(np.flatnonzero(labels == label))[:HELD_OUT_PER_CLASS]] = 1
    records = np.concatenate([labels[:, None], held_out[:, None], pixels], axis=1)
    header = DATA_MAGIC + struct.pack("<4I", len(labels), SIDE, SIDE, CLASSES)
    path.write_bytes(header + records.tobytes())
    print(f"wrote {path.name}: {len(labels)} images, {held_out.sum()} of them held out")


def read_data(path):
    """Returns pixels scaled to 0..1 (count, 64), labels (count) and the held-out mask (count)."""
    if not path.is_file():
        sys.exit(f"train.py: {path} does not exist; --refresh-data writes it")
    raw = path.read_bytes()
    if raw[:8] != DATA_MAGIC or len(raw) < 24:
        sys.exit(f"train.py: {path} is not a digits file; --refresh-data writes it again")
    count, height, width, _ = struct.unpack_from("<4I", raw, 8)
    if len(raw) != 24 + count * (2 + height * width):
        sys.exit(f"train.py: {path} is cut short or has bytes left over; --refresh-data writes it again")
    records = np.frombuffer(raw, np.uint8, offset=24).reshape(count, 2 + height * width)
    return records[:, 2:].astype(np.float32) / PIXEL_MAX, records[:, 0].astype(np.int64), records[:, 1] == 1


def write_weights(path, w1, b1, w2, b2):
    header = WEIGHTS_MAGIC + struct.pack("<3I", w1.shape[0], w1.shape[1], w2.shape[1])
    path.write_bytes(header + b"".join(p.astype("<f4").tobytes() for p in (w1, b1, w2, b2)))
    print(f"wrote {path.name}: {w1.shape[0]} -> {w1.shape[1]} -> {w2.shape[1]}, {path.stat().st_size} bytes")


def warped(images, options, rng):
    """Turns, stretches, shears and moves each image a little at random, with bilinear interpolation."""
    count, middle = len(images), (SIDE - 1) / 2
    grid = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")).reshape(2, -1) - middle
    matrix = np.eye(2) + options.warp * rng.standard_normal((count, 2, 2))
    offset = options.shift * rng.standard_normal((count, 2, 1))
    # One pixel of zeros around each image stands for everything outside it.
    padded = np.pad(images.reshape(-1, SIDE, SIDE), ((0, 0), (1, 1), (1, 1)))
    source = np.clip(matrix @ grid + offset + middle + 1, 0, SIDE + 0.999)
    corner = source.astype(int)
    (row, column), (down, right) = corner.swapaxes(0, 1), (source - corner).astype(np.float32).swapaxes(0, 1)
    image = np.arange(count)[:, None]
    left_side = padded[image, row, column] * (1 - down) + padded[image, row + 1, column] * down
    right_side = padded[image, row, column + 1] * (1 - down) + padded[image, row + 1, column + 1] * down
    return left_side * (1 - right) + right_side * right


def forward(parameters, x):
    w1, b1, w2, b2 = parameters
    hidden = np.maximum(x @ w1 + b1, 0)
    return hidden, hidden @ w2 + b2


def gradients(parameters, x, labels):
    """Gradients of the mean cross-entropy of softmax(logits)."""
    hidden, logits = forward(parameters, x)
    d_logits = np.exp(logits - logits.max(axis=1, keepdims=True))
    d_logits /= d_logits.sum(axis=1, keepdims=True)
    d_logits[np.arange(len(labels)), labels] -= 1
    d_logits /= len(labels)
    d_hidden = (d_logits @ parameters[2].T) * (hidden > 0)
    return [x.T @ d_hidden, d_hidden.sum(axis=0), hidden.T @ d_logits, d_logits.sum(axis=0)]


def accuracy(parameters, x, labels):
    return float((forward(parameters, x)[1].argmax(axis=1) == labels).mean())


def train(x, labels, options, report):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019) and a cosine-shaped learning rate."""
    rng = np.random.default_rng(options.seed)
    w1 = rng.standard_normal((x.shape[1], options.hidden)) * np.sqrt(2 / x.shape[1])
    w2 = rng.standard_normal((options.hidden, CLASSES)) * np.sqrt(1 / options.hidden)
    parameters = [p.astype(np.float32) for p in (w1, np.zeros(options.hidden), w2, np.zeros(CLASSES))]
    first, second = [np.zeros_like(p) for p in parameters], [np.zeros_like(p) for p in parameters]
    steps_per_epoch = len(x) // options.batch  # 63 divides 1,197
    total, step = options.epochs * steps_per_epoch, 0
    for epoch in range(1, options.epochs + 1):
        order = rng.permutation(len(x))
        for chosen in order[: steps_per_epoch * options.batch].reshape(-1, options.batch):
            images = warped(x[chosen], options, rng)
            rate = options.rate * 0.5 * (1 + np.cos(np.pi * step / total))
            step += 1
            for i, gradient in enumerate(gradients(parameters, images, labels[chosen])):
                first[i] += 0.1 * (gradient - first[i])
                second[i] += 0.001 * (gradient * gradient - second[i])
                update = (first[i] / (1 - 0.9**step)) / (np.sqrt(second[i] / (1 - 0.999**step)) + 1e-8)
                decay = options.decay * parameters[i] if parameters[i].ndim == 2 else 0
                parameters[i] = (parameters[i] - rate * (update + decay)).astype(np.float32)
        if report and (epoch % 100 == 0 or epoch == options.epochs):
            print(f"epoch {epoch:4d}: accuracy on the training part {accuracy(parameters, x, labels):.4f}")
    return parameters


def cross_validate(x, labels, options, folds=5):
    """Accuracy on parts of the training part: what the settings were chosen by."""
    fold = np.random.default_rng(options.seed).permutation(len(x)) % folds
    scores = []
    for k in range(folds):
        parameters = train(x[fold != k], labels[fold != k], options, report=False)
        scores.append(accuracy(parameters, x[fold == k], labels[fold == k]))
        print(f"fold {k + 1} of {folds}: {scores[-1]:.4f}")
    print(f"mean over {folds} folds of the training part: {np.mean(scores):.4f}")


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--data", type=pathlib.Path, default=here / "data", help="folder of digits.bin and weights.bin")
    add("--refresh-data", action="store_true", help="write digits.bin again (needs scikit-learn)")
    add("--cross-validate", action="store_true", help="score the settings on 5 folds, write no weights")
    add("--hidden", type=int, default=128, help="width of the hidden layer (default %(default)s)")
    add("--epochs", type=int, default=800, help="passes over the training part (default %(default)s)")
    add("--batch", type=int, default=63, help="images per step (default %(default)s)")
    add("--warp", type=float, default=0.1, help="spread of the random warps (default %(default)s)")
    add("--shift", type=float, default=0.3, help="spread of the random moves in pixels (default %(default)s)")
    add("--rate", type=float, default=3e-3, help="learning rate at the start (default %(default)s)")
    add("--decay", type=float, default=0.05, help="weight decay (default %(default)s)")
    add("--seed", type=int, default=0, help="of the split, first weights and order (default %(default)s)")
    options = parser.parse_args()

    if options.refresh_data:
        refresh_data(options.data / "digits.bin", options.seed)
    x, labels, held_out = read_data(options.data / "digits.bin")
    print(f"{len(x)} images: {(~held_out).sum()} to train on, {held_out.sum()} held out")
    if options.cross_validate:
        return cross_validate(x[~held_out], labels[~held_out], options)
    start = time.perf_counter()
    parameters = train(x[~held_out], labels[~held_out], options, report=True)
    print(f"trained in {time.perf_counter() - start:.1f} s")
    print(f"accuracy on the held-out part: {accuracy(parameters, x[held_out], labels[held_out]):.4f}")
    write_weights(options.data / "weights.bin", *parameters)


if __name__ == "__main__":
    main()
