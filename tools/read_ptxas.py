"""Reads what `ptxas -v` said: registers and spills of each kernel. Fails where a hot kernel spills.

    python3 tools/read_ptxas.py LOG
"""
import re
import subprocess
import sys

# Kernels in the inner loops of training and sampling. Double is there for proofs, not for speed.
HOT = ["read_chunk", "sum_chunk", "query_gradient", "key_gradient", "value_gradient", "softmax", "layer_norm",
       "cross_entropy", "adam", "each_kernel", "RecurrentStep", "sum_squares", "embedding", "attend<", "gradient_of_",
       "write_chunks", "go_back", "row_gradients", "logs_kernel", "logs_backward", "code_gradient", "normed_",
       "sample_kernel", "CastPiece"]
MOST_SPILLED = 16  # bytes: what costs less than a thousandth of a kernel's time


def kernels(text):
    """(name, registers, spilled bytes) of each."""
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


def of_double(name):
    """Whether a template argument is double; those of functions may be, whatever the kernel's type."""
    before = None
    while before != name:
        before, name = name, re.sub(r"\([^()]*\)", "", name)
    return re.search(r"\bdouble\b", name) is not None


def main():
    found = kernels(open(sys.argv[1], encoding="utf-8", errors="replace").read())
    if not found:
        sys.exit("no kernel is in " + sys.argv[1])
    plain = subprocess.run(["c++filt"], input="\n".join(name for name, _, _ in found), text=True, check=True,
                           capture_output=True).stdout.splitlines()
    rows = [(text, registers, spilled) for text, (_, registers, spilled) in zip(plain, found)]
    print(f"{len(rows)} kernels; most registers:")
    for text, registers, spilled in sorted(rows, key=lambda row: -row[1])[:5]:
        print(f"  {registers:4} registers, {spilled:3} bytes spilled: {text[:90]}")
    bad = [row for row in rows
           if row[2] > MOST_SPILLED and not of_double(row[0]) and any(hot in row[0] for hot in HOT)]
    for text, registers, spilled in bad:
        print(f"spills {spilled} bytes with {registers} registers: {text}")
    sys.exit(1 if bad else 0)


main()
