#!/usr/bin/env python3
"""Checks the text of the sources: which folder includes which, words, and what is not to be left behind.

Reads the names of the files from its input: tools/check.sh runs it.
"""
import fnmatch
import re
import sys

# cli -> lab -> bench, judge -> train -> nn -> autograd -> tensor -> base; cuda -> tensor; train -> data -> tensor;
# train -> parallel -> base
LAYERS = {
    "base": "base",
    "parallel": "parallel base",
    "tensor": "tensor base",
    "autograd": "autograd tensor base",
    "nn": "nn autograd tensor base",
    "cuda": "cuda tensor base",
    "data": "data tensor base",
    "data/readers": "data tensor base",
    "train": "train data nn autograd tensor parallel base",
    "bench": "bench train data nn autograd tensor parallel base",
    "judge": "judge train data nn autograd tensor parallel base",
    "lab": "lab bench judge train data nn autograd tensor parallel base",
    "cli": "cli lab bench judge train data nn autograd tensor parallel base",
}
NOT_INCLUDED = {"data/readers": "data/tasks/", "tensor": "tensor/cpu/", "cuda": "tensor/cpu/"}

# Assembled, so that this file passes.
LEFT_BEHIND = {
    "TO" + "DO|FIX" + "ME": "do it, or describe the limit",
    r"/(ho" + r"me|ro" + r"ot|wo" + r"rk)/\w": "no paths of one machine",
}


def layers(path, lines):
    folder = path.split("/")[0]
    if folder not in LAYERS:
        return
    for number, line in enumerate(lines, 1):
        match = re.match(r'#include "((\w+)/[^"]*)"', line)
        if not match:
            continue
        included, top = match.groups()
        if top not in LAYERS[folder].split():
            yield number, f"{folder}/ includes {top}/: it may include {LAYERS[folder]}"
        for part, refused in NOT_INCLUDED.items():
            if path.startswith(part + "/") and included.startswith(refused) and not path.startswith(refused):
                yield number, f"{part}/ includes {refused}"


def read_words():
    for line in open("tools/words.txt", encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            pattern, instead, allowed = re.split(r" \| ?", line.rstrip("\n"))
            yield re.compile(pattern, re.I), instead.strip(), [a.partition(":") for a in allowed.split()]


def words(path, lines, patterns):
    for pattern, instead, allowed in patterns:
        lines_allowed = [re.compile(rest or ".") for glob, _, rest in allowed if fnmatch.fnmatch(path, glob)]
        for number, line in enumerate([path] + lines):
            match = pattern.search(line)
            if match and not any(allowed_line.search(line) for allowed_line in lines_allowed):
                yield number, f"'{match.group()}': write {instead}"


def main():
    patterns, wrong = list(read_words()), 0
    for path in sys.stdin.read().splitlines():
        if path.startswith("tests/fuzz/corpus/") or path == "LICENSE" or re.search(r"\.(png|svg|jpg)$", path):
            continue
        lines = open(path, encoding="utf-8").read().split("\n")
        found = list(layers(path, lines))
        if path != "tools/words.txt":
            found += words(path, lines, patterns)
        for number, line in enumerate(lines, 1):
            found += [(number, why) for pattern, why in LEFT_BEHIND.items() if re.search(pattern, line)]
        for number, message in found:
            print(f"{path}:{number}: {message}")
        wrong += len(found)
    sys.exit(wrong > 0)


main()
