#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes unicode_tables.inc: what the tokenizer knows of Unicode beyond ASCII, from Python's unicodedata.

Usage: make_unicode_tables.py VOCABULARY, the vocab.txt of the model. Foldings whose result is not made of the
vocabulary's characters are left out: a word that has such a character is unknown either way.
"""
import pathlib
import sys
import unicodedata

HANGUL = range(0xAC00, 0xD7A4)  # folded by arithmetic
NAME = pathlib.Path(__file__).resolve().parent / "unicode_tables.inc"


def category(code):
    return unicodedata.category(chr(code))


def ranges(wanted):
    """First and last code of each run of code points beyond ASCII that are wanted."""
    found = []
    for code in range(0x80, 0x110000):
        if not wanted(category(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def folded(code):
    """Without accents, then in lower case."""
    kept = (c for c in unicodedata.normalize("NFD", chr(code)) if unicodedata.category(c) != "Mn")
    return "".join(c.lower() for c in kept)


def foldings(characters):
    """code: what it becomes, where that is something else that the vocabulary can spell."""
    found = {}
    for code in range(0x80, 0x110000):
        if code in HANGUL or category(code)[0] == "C" or category(code) == "Mn":
            continue
        result = folded(code)
        if result != chr(code) and all(c in characters for c in result):
            found[code] = result
    return found


def runs(single):
    """(first, last, step, target, moving): code points at a distance of step that become one target, or, moving,
    targets at the distances of the code points."""
    found, codes, i = [], sorted(single), 0
    while i < len(codes):
        best = (i, 1, 0)
        for step in (1, 2):
            for moving in (0, 1):
                j = i
                while (j + 1 < len(codes) and codes[j + 1] == codes[j] + step
                       and single[codes[j + 1]] == single[codes[j]] + step * moving):
                    j += 1
                if j > best[0]:
                    best = (j, step, moving)
        last, step, moving = best
        found.append((codes[i], codes[last], step, single[codes[i]], moving))
        i = last + 1
    return found


def table(kind, name, rows):
    lines, line = [f"constexpr {kind} {name}[] = {{"], "   "
    for row in rows:
        entry = " {" + ", ".join(f"{v:#x}" if v > 9 else str(v) for v in row) + "},"
        if len(line) + len(entry) > 110:
            lines.append(line)
            line = "   "
        line += entry
    return "\n".join([*lines, line, "};"]) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    characters = set(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")) - {"\n"}
    found = foldings(characters)
    pairs = [(code, *map(ord, result)) for code, result in found.items() if len(result) == 2]
    single = {code: ord(result) for code, result in found.items() if len(result) == 1}
    assert len(pairs) + len(single) == len(found)
    NAME.write_text(
        "// SPDX-License-Identifier: Apache-2.0\n"
        f"// Unicode {unicodedata.unidata_version} beyond ASCII, as far as the tokenizer needs it; written by\n"
        "// make_unicode_tables.py. Included by unicode.cpp only.\n// clang-format off\n"
        + table("Range", "kMarks", ranges(lambda c: c == "Mn"))
        + table("Range", "kControls", ranges(lambda c: c in ("Cc", "Cf", "Co", "Cs")))
        + table("Range", "kPunctuation", ranges(lambda c: c[0] == "P"))
        + table("Folding", "kFoldings", runs(single))
        + table("Pair", "kPairs", pairs)
        + "// clang-format on\n", encoding="utf-8")


if __name__ == "__main__":
    main()
