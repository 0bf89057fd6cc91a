"""Runs Linea and its peers alternately for several rounds and prints a Markdown table: both numbers, and the median,
minimum and maximum of the ratio per round. A ratio above 1 means that Linea is better."""
import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LINEA = HERE.parents[1] / "build/release/linea"
GROUPS = ("train-nanogpt", "train-mnist", "attention", "sample", "memory")
PRESETS = {"train-nanogpt": "nanogpt", "train-mnist": "mnist-paper"}
ATTENTIONS = ("softmax", "linear", "performer")
STEPS = {"nanogpt": 100, "mnist-paper": 5}
POSITIONS = {1: 784, 16: 784, 256: 128, 1024: 32}  # sampled by the peer: with a state, all positions take equally long
NAMES = {"tokens_per_s": "k tokens/s", "images_per_s": "images/s", "gflops": "GFLOP/s",
         "peak_rss_delta_bytes": "MiB"}
UNITS = {"tokens_per_s": 1e3, "peak_rss_delta_bytes": 2**20}


class Row:
    def __init__(self, name, key, linea, peer):
        self.name, self.key, self.linea, self.peer = name, key, linea, peer
        self.values, self.failure = [], None  # values: one (Linea, peer) per round


def measure(command, key):
    """The value of `key` in the last line of the command's output, a JSON object."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        why = (done.stderr.strip() or "nothing on stdout").splitlines()[-1]
        raise RuntimeError(f"{shlex.join(map(str, command))}: exit {done.returncode}: {why}")
    result = json.loads(lines[-1])
    if key not in result:
        raise RuntimeError(f"{shlex.join(map(str, command))}: no {key} in the last line")
    return result[key]


def make_rows(group, peer, threads, more):
    """The rows of a group. `more`: additional flags of the peer, --compile or none."""
    threaded = ["--threads", str(threads)]
    linea = lambda command, *flags: [LINEA, "bench", command, *map(str, flags), *threaded, "--json"]
    torch = lambda command, *flags: [*peer, command, *map(str, flags), *threaded]

    def train(preset, attention, steps, key, name):
        flags = ("--preset", preset, "--attention", attention, "--steps", steps)
        return Row(f"{name}, {preset}, {attention}", key, linea("train", *flags), torch("train", *flags, *more))

    if group in PRESETS:
        preset = PRESETS[group]
        return [train(preset, a, STEPS[preset], "tokens_per_s", "training") for a in ATTENTIONS]
    if group == "memory":
        return [train(preset, a, 3, "peak_rss_delta_bytes", "memory of training")
                for preset in STEPS for a in ATTENTIONS]
    if group == "attention":
        B, H, N, D = 1, 8, 4096, 64
        own = linea("attention", "--attention", "linear", "--batch", B, "--heads", H, "--lengths", N,
                    "--key-size", D)
        name = f"linear attention, B {B} H {H} N {N} D {D}, compared with "
        rank1 = ["env", f"OMP_NUM_THREADS={threads}", build_rank1(), *map(str, (B, H, N, D))]
        return [Row(name + "PyTorch", "gflops", own,
                    torch("attention", "--b", B, "--h", H, "--n", N, "--d", D, *more)),
                Row(name + "rank-1 updates", "gflops", own, rank1)]
    result = []
    for attention, batch in [("linear", b) for b in POSITIONS] + [("performer", 16), ("performer", 256), ("softmax", 16)]:
        flags = ("--preset", "mnist-paper", "--attention", attention, "--batch", batch)
        again = () if attention == "softmax" else more  # a growing cache would be recompiled for each length
        tokens = () if attention == "softmax" else ("--tokens", POSITIONS[batch])
        result.append(Row(f"sampling, mnist-paper, {attention}, batch {batch}", "images_per_s",
                          linea("sample", *flags), torch("sample", *flags, *tokens, *again)))
    one = result[0]
    bf16 = Row(one.name + ", Linea's weights in bf16", one.key, [*one.linea, "--dtype", "bf16"], one.peer)
    return [one, bf16, *result[1:]]


def build_rank1():
    program = pathlib.Path(tempfile.gettempdir()) / "linea_rank1_attention"
    source = HERE / "rank1_attention.cpp"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["g++", "-std=c++20", "-Ofast", "-march=native", "-fopenmp", source, "-o", program],
                       check=True)
    return str(program)


def number(x):
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def format_row(row):
    if row.failure:
        return f"| {row.name} | {NAMES[row.key]} | | | failed |"
    unit, less_is_better = UNITS.get(row.key, 1), row.key == "peak_rss_delta_bytes"
    ratios = [peer / own if less_is_better else own / peer for own, peer in row.values]
    own, other = (number(statistics.median(side) / unit) for side in zip(*row.values))
    return (f"| {row.name} | {NAMES[row.key]} | {own} | {other} | {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f}..{max(ratios):.2f}) |")


def main():
    parser = argparse.ArgumentParser(prog="compare.sh", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="ROWS",
                        help=" ".join(GROUPS) + "; default: all")
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-p", "--python", default="python3", help="Python interpreter with torch")
    parser.add_argument("-c", "--compile", action="store_true", help="run the peer under torch.compile")
    o = parser.parse_args()
    for group in o.groups:
        if group not in GROUPS:
            parser.error(f"unknown rows '{group}'; choose from {', '.join(GROUPS)}")
    peer = [o.python, HERE / "peer_torch.py"]
    more = ("--compile",) if o.compile else ()
    rows = [row for group in o.groups or GROUPS for row in make_rows(group, peer, o.threads, more)]
    rates = []
    for round_ in range(1, o.rounds + 1):
        rates.append(measure([*peer, "sgemm", "--threads", str(o.threads)], "sgemm_gflops"))
        for row in rows:
            if row.failure:
                continue
            print(f"round {round_} of {o.rounds}: {row.name}", file=sys.stderr)
            try:
                row.values.append((measure(row.linea, row.key), measure(row.peer, row.key)))
            except (RuntimeError, json.JSONDecodeError) as failure:
                row.failure = str(failure)
                print(row.failure, file=sys.stderr)
    print(f"{o.rounds} rounds, {o.threads} threads; the peer's matrix product runs at "
          f"{min(rates):.0f}..{max(rates):.0f} GFLOP/s\n")
    print("| | | Linea | peer | ratio: median (min..max) |\n|---|---|---|---|---|")
    for row in rows:
        print(format_row(row))
    return any(row.failure for row in rows)


if __name__ == "__main__":
    sys.exit(main())
