#!/usr/bin/env python3
"""Counts the machine code of the hot CUDA kernels: registers, code, and the largest loop of each.

    python3 tools/sass.py OBJECT...         # or a folder; --markdown: the table of docs/gpu.md

Reads object files of nvcc by cuobjdump, of the CUDA toolkit or of PyPI (pip install nvidia-cuda-cuobjdump
nvidia-cuda-nvdisasm), which CUOBJDUMP names or PATH holds. Where there is none it says so and succeeds. Fails if a
kernel exceeds one of BOUNDS, or if a kernel of BOUNDS is not there.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ARCHITECTURE = "sm_90"
# Kernel: the instructions of its largest loop, and its registers, at most. A loop of a walk is a chunk of 64 positions, one
# of softmax attention a pair of tiles; 128 registers are two blocks of 256 threads on a multiprocessor. A bound is raised
# only by the commit that says why.
BOUNDS = {
    "forward_walk<128>": (2050, 255), "forward_walk<64>": (1200, 128), "forward_walk<32>": (800, 128),
    "query_walk<128>": (2120, 255), "query_walk<64>": (1200, 128), "query_walk<32>": (800, 128),
    "key_walk<128>": (2950, 255), "key_walk<64>": (1720, 128), "key_walk<32>": (1150, 128),
    "sum_walk<128>": (1050, 170), "prepare_walk<128>": (350, 48),
    "attend_tiles<128>": (1300, 255), "attend_tiles<64>": (930, 255), "attend_tiles<32>": (780, 168),
    "gradient_of_query_tiles<128>": (690, 255), "gradient_of_query_tiles<64>": (510, 168),
    "gradient_of_key_tiles<128>": (580, 255), "gradient_of_key_tiles<64>": (630, 255),
    # A position of 8 columns a thread: at most 15 and 25 instructions for 32 elements.
    "each_kernel<Convolved<(Of)0, BFloat16, 4, 8, false> >": (120, 128),
    "each_kernel<Convolved<(Of)1, BFloat16, 4, 8, false> >": (120, 128),
    "each_kernel<Convolved<(Of)0, BFloat16, 6, 8, false> >": (200, 128),
    "each_kernel<Convolved<(Of)1, BFloat16, 6, 8, false> >": (200, 128),
    "each_team_kernel<WarpTeam, RecurrentStep<BFloat16, 8, true> >": (1050, 128),
    # 256 elements a warp: a row, or as many shorter rows as that. Loops hold the branches with and without a bias, weights or a
    # group of eight.
    "wide_rows_kernel<WideRow<LanesTeam, 8>, layer_norm<BFloat16>>": (320, 64),
    "wide_rows_kernel<WideRow<LanesTeam, 8>, layer_norm_backward<BFloat16>>": (290, 64),
    "wide_rows_kernel<WideRow<LanesTeam, 8>, gated_norm<BFloat16>>": (345, 64),
    "wide_rows_kernel<WideRow<LanesTeam, 8>, gated_norm_backward<BFloat16>>": (600, 64),
    "wide_rows_kernel<WideRow<LanesTeam, 8>, softmax<BFloat16>>": (290, 64),
    "elements_kernel<ValueOf<float, GeluBy<float, SigmoidFor<BFloat16> > >, BFloat16 const, BFloat16>": (140, 64),
    "elements_kernel<gelu_recompute<BFloat16>, BFloat16 const, BFloat16 const, BFloat16, BFloat16>": (240, 64),
}
MAX_CODE = 128 * 1024  # bytes: the instruction cache of an SM. Kernels of double serve checks of gradients alone
BRANCH = re.compile(r"^(?:@!?U?P\w+ )?BRA(?:\.\w+)*\s.*?(0x[0-9a-f]+)")


class Kernel:
    def __init__(self, name):
        self.name, self.registers, self.code = name, 0, []  # code: (address, instruction)

    def bytes(self):
        return 16 * len(self.code)

    def largest_loop(self):
        """The instructions from the target of a backward branch up to it: of the branch that holds the most. In kernels whose
        threads take one element after another (each_kernel) a loop that holds another one is not counted."""
        index = {address: n for n, (address, _) in enumerate(self.code)}
        loops = []
        for n, (address, text) in enumerate(self.code):
            match = BRANCH.match(text)
            if not match or int(match.group(1), 16) >= address:
                continue
            loops.append((index[int(match.group(1), 16)], n + 1))
        if self.name.startswith("each_kernel<"):
            loops = [(first, end) for first, end in loops
                     if not any(first <= a and b <= end and (a, b) != (first, end) for a, b in loops)]
        first, end = max(loops, key=lambda loop: loop[1] - loop[0], default=(0, 0))
        return [text for _, text in self.code[first:end]]


def run(tool, *arguments):
    return subprocess.run([tool, *arguments], check=True, capture_output=True, text=True).stdout


def without_parameters(text):
    """f<A, (Enum)0> of f<A, (Enum)0>(int, B): what comes before the last pair of parentheses."""
    depth = 0
    for n in range(len(text) - 1, -1, -1):
        depth += (text[n] == ")") - (text[n] == "(")
        if depth == 0:
            return text[:n] if text[n] == "(" else text
    return text


def demangled(names):
    """Short names: f<T> for a kernel's template argument that is a lambda of the function f<T>."""
    texts = subprocess.run(["c++filt"], input="\n".join(names), text=True, check=True, capture_output=True).stdout
    short = [re.sub(r"\(anonymous namespace\)::|linea::cuda::|linea::|^void ", "", text) for text in texts.splitlines()]
    short = [re.sub(r"\([^()]*\)::\{lambda\([^()]*\)#\d+\}", "", text) for text in short]
    return dict(zip(names, [without_parameters(text) for text in short]))


def kernels(tool, path):
    """The kernels of one object file."""
    found = {}
    for line in run(tool, "-arch", ARCHITECTURE, "-sass", path).splitlines():
        if match := re.match(r"\s*Function : (\w+)", line):
            kernel = found.setdefault(match.group(1), Kernel(match.group(1)))
        elif match := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line):
            kernel.code.append((int(match.group(1), 16), match.group(2)))
    name = None
    for line in run(tool, "-arch", ARCHITECTURE, "-res-usage", path).splitlines():
        if match := re.match(r"\s*Function (\w+):", line):
            name = match.group(1)
        elif (match := re.match(r"\s*REG:(\d+)", line)) and name in found:
            found[name].registers = int(match.group(1))
    names = demangled(list(found))
    for kernel in found.values():
        kernel.name = names[kernel.name]
    return list(found.values())


def count(code, pattern):
    return sum(re.match(rf"(?:@!?U?P\w+ )?(?:{pattern})\b", text) is not None for text in code)


def widths(code, load):
    """Loads or stores by the bytes of a lane, such as "16 B: 12, 4 B: 3"."""
    sizes = {}
    for text in code:
        if not re.match(rf"(?:@!?U?P\w+ )?{load}\b", text):
            continue
        mnemonic = text.split()[1] if text.startswith("@") else text.split()[0]
        parts = mnemonic.split(".")
        size = 16 if "128" in parts else 8 if "64" in parts else 2 if {"U16", "S16"} & set(parts) else \
            1 if {"U8", "S8"} & set(parts) else 4
        sizes[size] = sizes.get(size, 0) + 1
    return ", ".join(f"{size} B: {sizes[size]}" for size in sorted(sizes, reverse=True)) or "–"


def row_of(kernel):
    loop = kernel.largest_loop()
    blocks = min(8, 65536 // (256 * max(kernel.registers, 1)))
    return [f"`{kernel.name}`", str(kernel.registers), str(blocks), f"{kernel.bytes() / 1024:.0f}", str(len(loop)),
            str(count(loop, "HMMA")), str(count(loop, "LDSM")), widths(loop, "LDG"), widths(loop, "LDS"),
            widths(loop, "STS"), str(count(loop, "MUFU"))]


HEADER = ["kernel", "registers", "blocks of 256 threads an SM", "code, KB", "largest loop", "HMMA", "LDSM", "global loads",
          "shared loads", "shared stores", "MUFU"]


def faults(found):
    for name, (instructions, registers) in BOUNDS.items():
        matching = [kernel for kernel in found if kernel.name == name]
        if not matching:
            yield f"there is no kernel {name}: update BOUNDS"
        for kernel in matching:
            loop = kernel.largest_loop()
            if len(loop) > instructions:
                yield f"{name}: its loop has {len(loop)} instructions, at most {instructions}"
            if kernel.registers > registers:
                yield f"{name}: {kernel.registers} registers, at most {registers}"
            if "HMMA" in " ".join(loop) and count(loop, r"LDG[\w.]*\.(?:U16|S16)"):
                yield f"{name}: its loop loads 2 bytes a lane from global memory"
    for kernel in found:
        if kernel.bytes() > MAX_CODE and "double" not in kernel.name:
            yield f"{kernel.name}: {kernel.bytes()} bytes of code, at most {MAX_CODE}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="+", type=pathlib.Path)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--all", action="store_true", help="all kernels, not those of BOUNDS alone")
    arguments = parser.parse_args()
    tool = os.environ.get("CUOBJDUMP") or shutil.which("cuobjdump")
    if not tool:
        print("cuobjdump not found: the machine code is NOT counted (pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)")
        return 0
    paths = [path for given in arguments.objects
             for path in (sorted(given.rglob("*.cu.o")) if given.is_dir() else [given])
             if "emulated" not in path.parts]
    found = [kernel for path in paths for kernel in kernels(tool, path)]
    shown = [kernel for kernel in found if arguments.all or kernel.name in BOUNDS]
    rows = [HEADER] + [row_of(kernel) for kernel in shown]
    if arguments.markdown:
        rows.insert(1, ["---"] * len(HEADER))
        print("\n".join("| " + " | ".join(row) + " |" for row in rows))
    else:
        for row in rows[1:]:
            print(f"{row[0][1:-1][:60]:60} {row[1]:>4} registers {row[3]:>4} KB, loop {row[4]:>5}: {row[5]} HMMA")
    wrong = list(faults(found))
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


sys.exit(main())
