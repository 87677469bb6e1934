#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tokens.txt: the tokens of sentences.txt by Hugging Face's tokenizers, one sentence a line.

Usage: make_tokens.py FOLDER, the model's. Needs the packages tokenizers (0.23 was used) and nothing of this project.
"""
import pathlib
import sys

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tokenizer = Tokenizer.from_file(str(pathlib.Path(sys.argv[1]) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    sentences = (HERE / "sentences.txt").read_text(encoding="utf-8").split("\n")[:-1]
    lines = [" ".join(map(str, tokenizer.encode(sentence).ids)) for sentence in sentences]
    (HERE / "tokens.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
