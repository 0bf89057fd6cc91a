"""Reads the registers and spills of each kernel from the output of `ptxas -v`. Fails if a hot kernel spills.

    python3 tools/read_ptxas.py LOG
"""
import pathlib
import re
import subprocess
import sys

# Kernels in the inner loops of training and sampling. Double kernels serve gradient checks: their speed does not count.
HOT = ["read_chunk", "sum_chunk", "query_gradient", "key_gradient", "value_gradient", "softmax", "layer_norm",
       "cross_entropy", "adam", "each_kernel", "elements_kernel", "gated_norm", "RecurrentStep", "sum_squares", "embedding", "attend<", "attend_tiles", "gradient_of_",
       "sort_kernel", "column_slices", "write_chunks", "go_back", "row_gradients", "head_products_kernel", "code_gradient",
       "sample_kernel", "CastSpan", "_walk<"]
MAX_SPILLED = 16  # bytes: less than a thousandth of a kernel's time
# Two blocks on a multiprocessor are worth more than these bytes; one thread computes clip_scale.
MAX_SPILLED_OF = {"_walk<64>": 64, "_walk<32>": 64, "clip_scale": 32}


def kernels(text):
    """A list of (name, registers, spilled bytes)."""
    found, name, spilled = [], None, 0
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            name, spilled = match.group(1), 0
        elif match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = max(int(match.group(1)), int(match.group(2)))
        elif (match := re.search(r"Used (\d+) registers", line)) and name:
            found.append((name, int(match.group(1)), spilled))
            name = None
    return found


def is_double(name):
    """Whether a template argument is double. Function parameters do not count: any kernel may have a double one."""
    before = None
    while before != name:
        before, name = name, re.sub(r"\([^()]*\)", "", name)
    return re.search(r"\bdouble\b", name) is not None


def max_spilled(name):
    return next((bytes for part, bytes in MAX_SPILLED_OF.items() if part in name), MAX_SPILLED)


def check_hot_kernels_exist():
    """A renamed kernel must not drop out of the check."""
    folder = pathlib.Path(__file__).resolve().parent.parent / "cuda"
    sources = "".join(path.read_text() for path in [*folder.glob("*.cu"), *folder.glob("*.h")])
    missing = [name for name in HOT if name.rstrip("<") not in sources]
    if missing:
        sys.exit(f"read_ptxas.py: no kernel in cuda/ is named {', '.join(missing)}: update HOT")


def main():
    check_hot_kernels_exist()
    found = kernels(open(sys.argv[1], encoding="utf-8", errors="replace").read())
    if not found:
        sys.exit(f"{sys.argv[1]} contains no kernel")
    demangled = subprocess.run(["c++filt"], input="\n".join(name for name, _, _ in found), text=True, check=True,
                           capture_output=True).stdout.splitlines()
    rows = [(text, registers, spilled) for text, (_, registers, spilled) in zip(demangled, found)]
    print(f"{len(rows)} kernels; those with the most registers:")
    for text, registers, spilled in sorted(rows, key=lambda row: -row[1])[:5]:
        print(f"  {registers:4} registers, {spilled:3} bytes spilled: {text[:90]}")
    failing = [row for row in rows
           if row[2] > max_spilled(row[0]) and not is_double(row[0]) and any(hot in row[0] for hot in HOT)]
    for text, registers, spilled in failing:
        print(f"spills {spilled} bytes with {registers} registers: {text}")
    sys.exit(1 if failing else 0)


main()
