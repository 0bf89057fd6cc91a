#!/usr/bin/env python3
"""Prints how the hot CUDA kernels access memory, as the checked emulator counts it: the table of docs/gpu.md.

    python3 tools/access_counts.py PROGRAM [FILTER] [--all]

PROGRAM is test_cuda_checked of a build with -DLINEA_RACE_CHECK=ON, FILTER a GoogleTest filter of what it runs; --all: all of
its kernels. cuda/emulator/counts.h says what counts.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

# A pattern of a kernel's short name: how the table names it.
SHOWN = {
    r"(?:forward|query|key)_walk<\d+>": None,
    r"attend_tiles<\d+>": None,
    r"gradient_of_(?:query|key)_tiles<\d+>": None,
    r"each_kernel<Convolved<\(Of\)0, BFloat16, 4, 8, false> >": "convolution 1d, forward",
    r"each_kernel<Convolved<\(Of\)1, BFloat16, 4, 8, false> >": "convolution 1d, dx",
    r"each_kernel<Convolved<\(Of\)0, BFloat16, 6, 8, false> >": "convolution 2d, forward",
    r"each_kernel<Convolved<\(Of\)1, BFloat16, 6, 8, false> >": "convolution 2d, dx",
    r"each_team_kernel<WarpTeam, RecurrentStep<.*": "recurrent step, D = 32",
    r"each_team_kernel<BlockTeam, RecurrentStep<.*": "recurrent step, D = 64 and 128",
    r"wide_rows_kernel<WideRow<LanesTeam, 8>, layer_norm<BFloat16>.*": "layer norm, forward",
    r"wide_rows_kernel<WideRow<LanesTeam, 8>, layer_norm_backward<BFloat16>.*": "layer norm, dx",
}
KINDS = ["global load", "global store", "shared load", "shared store"]
HEADER = ["kernel", "global loads: bytes a lane", "sectors", "global stores: bytes a lane", "sectors",
          "shared loads: conflicts", "shared stores: conflicts"]


def short(name):
    """f<A> of void linea::f<A>(B): without scopes and parameters."""
    name = re.sub(r"\(anonymous namespace\)::|\blinea::|\bcuda::|^void ", "", name)
    depth = 0
    for n in range(len(name) - 1, -1, -1):
        depth += (name[n] == ")") - (name[n] == "(")
        if depth == 0:
            return name[:n]
    return name


def read(path):
    """The first line, and by kernel and kind of access: accesses, lanes, bytes, units, minimum of units."""
    found = {}
    with open(path, encoding="utf-8") as lines:
        graphs = next(lines).strip()
        next(lines)
        for line in lines:
            name, kind, *numbers = line.rstrip("\n").split("\t")
            found.setdefault(short(name), {})[kind] = [int(number) for number in numbers]
    return graphs, found


def by_number(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def row_of(name, kinds):
    row = [name]
    for kind in KINDS:
        accesses, lanes, bytes_, units, minimum = kinds.get(kind, [0] * 5)
        if kind.startswith("global"):
            row += [f"{bytes_ / lanes:.1f}", f"{units / accesses:.1f} of {minimum / accesses:.1f}"] if accesses else ["–"] * 2
        else:
            row.append(f"{(units - minimum) / accesses:.2f}" if accesses else "–")
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("filter", nargs="?", default="CudaCounts.AccessesOfTheHotKernels")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "counts")
        run = subprocess.run([arguments.program, "--gtest_brief=1", f"--gtest_filter={arguments.filter}"], stdout=sys.stderr,
                             env={**os.environ, "LINEA_EMULATOR_COUNTS": path})
        graphs, found = read(path)
    rows = []
    for pattern, title in SHOWN.items():
        rows += [row_of(title or f"`{name}`", found[name]) for name in sorted(found, key=by_number)
                 if re.fullmatch(pattern, name)]
    if arguments.all:
        rows = [row_of(f"`{name}`", found[name]) for name in sorted(found)]
    print(graphs + "\n")
    print("\n".join("| " + " | ".join(row) + " |" for row in [HEADER, ["---"] * len(HEADER)] + rows))
    return run.returncode


sys.exit(main())
