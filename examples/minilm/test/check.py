#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the program minilm: tokens against tokens.txt, vectors against reference.py, and what it says of mistakes.

Usage: check.py PROGRAM [--time]; --time prints sentences per second as well. Exit status 77, and the reason, where
the model or NumPy is not here. STILETTO_DEVICE chooses the device, as for the program.
"""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parents[2] / ".deps" / "minilm"
SENTENCES = HERE / "sentences.txt"
# The smallest cosine between a vector and the reference's.
BOUNDS = {"float32": 0.9999, "bfloat16": 0.999}


def skip(reason):
    print("SKIPPED: " + reason)
    sys.exit(77)


def run(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8")


def output(program, *arguments):
    result = run(program, "--model", MODEL, *arguments)
    if result.returncode != 0:
        sys.exit(f"minilm {' '.join(map(str, arguments))} exited with {result.returncode}:\n{result.stderr}")
    return result.stdout


def rows(text, number):
    return [[number(word) for word in line.split()] for line in text.splitlines()]


def check_tokens(program):
    expected = rows((HERE / "tokens.txt").read_text(encoding="utf-8"), int)
    found = rows(output(program, "--tokens", "--file", SENTENCES), int)
    sentences = SENTENCES.read_text(encoding="utf-8").split("\n")[:-1]
    assert len(expected) == len(found) == len(sentences), (len(expected), len(found), len(sentences))
    wrong = [(s, f, e) for s, f, e in zip(sentences, found, expected) if f != e]
    for sentence, got, wanted in wrong:
        print(f"{sentence!r}:\n  {got}, not\n  {wanted}")
    assert not wrong, "tokens differ"
    print(f"tokens of {len(found)} sentences: equal")
    return expected


def check_vectors(program, expected, dtype, options=()):
    import numpy as np

    found = np.array(rows(output(program, "--embeddings", "--dtype", dtype, *options, "--file", SENTENCES), float))
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert np.isfinite(found).all(), "a vector is not finite"
    lengths = np.sqrt((found**2).sum(axis=1))
    assert abs(lengths - 1).max() < 1e-3, f"a vector has length {lengths[abs(lengths - 1).argmax()]}"
    cosines = (found * expected).sum(axis=1) / lengths
    difference = abs(found - expected).max()
    print(f"{dtype}: smallest cosine to the reference {cosines.min():.7f}, largest difference {difference:.1e}")
    assert cosines.min() >= BOUNDS[dtype], f"sentence {cosines.argmin() + 1} is off"
    return found


def check_alone(program, together, sentence):
    """A sentence has the vector that it has among others."""
    import numpy as np

    text = SENTENCES.read_text(encoding="utf-8").split("\n")[sentence]
    alone = np.array(rows(output(program, "--embeddings", "--dtype", "float32", text), float))[0]
    difference = abs(alone - together[sentence]).max()
    print(f"a sentence alone and among others: largest difference {difference:.1e}")
    assert difference < 1e-3


def check_report(program):
    text = output(program, "--neighbours", "1", "A cat sleeps.", "A kitten is asleep.", "Interest rates rose.")
    assert "Nearest sentences" in text and "All pairs" in text, text
    after = text.splitlines()[text.splitlines().index("   1  A cat sleeps.") + 1]
    assert after.endswith("A kitten is asleep."), text


def print_times(program):
    for dtype in BOUNDS:
        lines = output(program, "--time", "--dtype", dtype).splitlines()
        print(f"{lines[0]}\n  {lines[-1]}")


def check_mistakes(program):
    def expect(says, *arguments):
        result = run(program, *arguments)
        assert result.returncode == 1 and says in result.stderr, (arguments, result.returncode, result.stderr)

    expect("There is no option --no", "--no")
    expect("--file takes a file", "--file", HERE / "missing.txt")
    expect("not half", "--dtype", "half", "--device", "cpu", "x")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        expect("vocab.txt cannot be opened; examples/minilm/run.sh fetches it", "--model", folder, "x")
        (folder / "vocab.txt").write_text("a\n")
        expect("has no line [CLS]", "--model", folder, "x")
        (folder / "vocab.txt").write_bytes((MODEL / "vocab.txt").read_bytes())
        expect("model.safetensors cannot be opened", "--model", folder, "--device", "cpu", "x")
        weights = (MODEL / "model.safetensors").read_bytes()
        header = weights[: 8 + int.from_bytes(weights[:8], "little")]
        for says, content in {
            "is too short": b"abc",
            "is cut short, or no file of tensors": b"\xff" * 64,
            "has a header that cannot be read": (12).to_bytes(8, "little") + b'{"a": {"b" }',
            "is cut short, or places a tensor outside": weights[: len(weights) // 2],
            "has no tensor embeddings.word_embeddings.weight": header.replace(b"word_embeddings", b"lost_embeddings")
            + weights[len(header) :],
            "not F32 (30522, 384)": header.replace(b"[30522,384]", b"[384,30522]") + weights[len(header) :],
        }.items():
            (folder / "model.safetensors").write_bytes(content)
            expect(says, "--model", folder, "--device", "cpu", "x")
    print("mistakes: each is said")


def main():
    if len(sys.argv) != 2 and sys.argv[2:] != ["--time"]:
        sys.exit(__doc__)
    program = sys.argv[1]
    if not (MODEL / "model.safetensors").exists():
        skip("all-MiniLM-L6-v2 is not in .deps/minilm; examples/minilm/run.sh fetches it")
    tokens = check_tokens(program)
    try:
        import numpy as np
    except ImportError:
        skip("NumPy is not installed, so there is no reference for the vectors")
    from reference import Reference

    reference = Reference(MODEL / "model.safetensors")
    expected = np.array([reference(sentence) for sentence in tokens])
    together = check_vectors(program, expected, "float32")
    check_vectors(program, expected, "bfloat16")
    check_alone(program, together, 3)
    check_report(program)
    check_mistakes(program)
    if len(sys.argv) > 2:
        print_times(program)


if __name__ == "__main__":
    main()
