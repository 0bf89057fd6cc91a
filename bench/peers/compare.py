"""Runs Linea and its peers alternately for several rounds, each in all its modes, and prints a Markdown table: the
medians of all modes, and the median, minimum and maximum over the rounds of two ratios: Linea in bf16 to the peer's
best mode, and to Linea in fp32. A ratio above 1 means that Linea in bf16 is better."""
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
MODES = {"eager": (), "compiled": ("--compile",), "autocast": ("--autocast",),
         "autocast compiled": ("--autocast", "--compile")}  # of PyTorch
NAMES = {"tokens_per_s": "k tokens/s", "images_per_s": "images/s", "gflops": "GFLOP/s",
         "peak_rss_delta_bytes": "MiB", "forward_backward_s": "ms"}
UNITS = {"tokens_per_s": 1e3, "peak_rss_delta_bytes": 2**20, "forward_backward_s": 1e-3}
LESS_IS_BETTER = ("peak_rss_delta_bytes", "forward_backward_s")


class Row:
    """own, peer: commands by mode."""

    def __init__(self, name, key, own, peer):
        self.name, self.key, self.own, self.peer = name, key, own, peer
        self.rounds, self.failures = [], {}  # one {mode: value} a round; why a mode failed

    def measure_round(self):
        values = {}
        for mode, command in {**self.own, **self.peer}.items():
            if mode in self.failures:
                continue
            print(f"    {mode}: ", end="", file=sys.stderr, flush=True)
            try:
                values[mode] = measure(command, self.key)
                print(number(values[mode] / UNITS.get(self.key, 1)), NAMES[self.key], file=sys.stderr)
            except (RuntimeError, json.JSONDecodeError) as failure:
                self.failures[mode] = str(failure)
                print(failure, file=sys.stderr)
        self.rounds.append(values)


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


def make_rows(group, peer, threads, modes):
    """The rows of a group, with these modes of the peer."""
    threaded = ["--threads", str(threads)]

    def linea(command, *flags):
        base = [LINEA, "bench", command, *map(str, flags), *threaded, "--json"]
        return {"Linea fp32": base, "Linea bf16": [*base, "--dtype", "bf16"]}

    def torch(command, *flags, modes=modes):
        return {mode: [*peer, command, *map(str, flags), *threaded, *MODES[mode]] for mode in modes}

    def train(preset, attention, steps, key, name):
        flags = ("--preset", preset, "--attention", attention, "--steps", steps)
        return Row(f"{name}, {preset}, {attention}", key, linea("train", *flags), torch("train", *flags))

    if group in PRESETS:
        preset = PRESETS[group]
        return [train(preset, a, STEPS[preset], "tokens_per_s", "training") for a in ATTENTIONS]
    if group == "memory":
        return [train(preset, a, 3, "peak_rss_delta_bytes", "memory of training")
                for preset in STEPS for a in ATTENTIONS]
    if group == "attention":
        B, H, N, D = 1, 8, 4096, 64
        own = {kind: linea("attention", "--attention", kind, "--batch", B, "--heads", H, "--lengths", N, "--key-size", D)
               for kind in ("linear", "gdn")}
        rank1 = ["env", f"OMP_NUM_THREADS={threads}", build_rank1(), *map(str, (B, H, N, D))]
        sizes, shape = ("--b", B, "--h", H, "--n", N, "--d", D), f"B {B} H {H} N {N} D {D}"
        return [Row(f"linear attention, {shape}", "gflops", own["linear"],
                    torch("attention", *sizes) | {"rank-1 updates": rank1}),
                Row(f"Gated DeltaNet, {shape}", "forward_backward_s", own["gdn"],
                    torch("attention", "--kind", "gdn", *sizes))]
    result = []
    sizes = [("linear", batch) for batch in POSITIONS] + [("performer", 16), ("performer", 256), ("softmax", 16)]
    for attention, batch in sizes:
        flags = ("--preset", "mnist-paper", "--attention", attention, "--batch", batch)
        cached = attention == "softmax"  # a growing cache would be compiled again for each length
        tokens = () if cached else ("--tokens", POSITIONS[batch])
        result.append(Row(f"sampling, mnist-paper, {attention}, batch {batch}", "images_per_s", linea("sample", *flags),
                          torch("sample", *flags, *tokens,
                                modes=[m for m in modes if not (cached and "--compile" in MODES[m])])))
    return result


def build_rank1():
    program = pathlib.Path(tempfile.gettempdir()) / "linea_rank1_attention"
    source = HERE / "rank1_attention.cpp"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["g++", "-std=c++20", "-Ofast", "-march=native", "-fopenmp", source, "-o", program],
                       check=True)
    return str(program)


def number(x):
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})" if values else "failed"


def format_row(row, modes):
    unit, less_is_better = UNITS.get(row.key, 1), row.key in LESS_IS_BETTER
    medians = {mode: statistics.median(values) for mode in [*row.own, *row.peer]
               if (values := [r[mode] for r in row.rounds if mode in r])}
    better = (lambda own, other: other / own) if less_is_better else (lambda own, other: own / other)
    best = (min if less_is_better else max)((m for m in row.peer if m in medians), key=medians.get, default=None)
    bf16 = [r for r in row.rounds if "Linea bf16" in r]
    to_best = [min(better(r["Linea bf16"], r[m]) for m in row.peer if m in r) for r in bf16 if best in r]
    to_fp32 = [better(r["Linea bf16"], r["Linea fp32"]) for r in bf16 if "Linea fp32" in r]
    cells = [number(medians[m] / unit) if m in medians else "–" for m in [*row.own, *modes]]
    return f"| {row.name} | {NAMES[row.key]} | {' | '.join(cells)} | {best} | {spread(to_best)} | {spread(to_fp32)} |"


def main():
    parser = argparse.ArgumentParser(prog="compare.sh", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="ROWS",
                        help=" ".join(GROUPS) + "; default: all")
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-p", "--python", default="python3", help="Python interpreter with torch")
    parser.add_argument("-m", "--modes", default=",".join(MODES), help="of PyTorch; default: %(default)s")
    o = parser.parse_args()
    modes = o.modes.split(",")
    for given, known in ((o.groups, GROUPS), (modes, MODES)):
        for name in given:
            if name not in known:
                parser.error(f"unknown name '{name}'; choose from {', '.join(known)}")
    peer = [o.python, HERE / "peer_torch.py"]
    rows = [row for group in o.groups or GROUPS for row in make_rows(group, peer, o.threads, modes)]
    rates = []
    for round_ in range(1, o.rounds + 1):
        rates.append(measure([*peer, "sgemm", "--threads", str(o.threads)], "sgemm_gflops"))
        for row in rows:
            print(f"round {round_} of {o.rounds}: {row.name}", file=sys.stderr)
            row.measure_round()
    print(f"{o.rounds} rounds, {o.threads} threads; PyTorch's matrix product runs at "
          f"{min(rates):.0f}..{max(rates):.0f} GFLOP/s\n")
    if any("rank-1 updates" in row.peer for row in rows):
        modes.append("rank-1 updates")
    print(f"| | | Linea fp32 | Linea bf16 | {' | '.join(modes)} | the peer's best | bf16 to it | bf16 to fp32 |")
    print("|---" * (7 + len(modes)) + "|")
    for row in rows:
        print(format_row(row, modes))
    return any(row.failures for row in rows)


if __name__ == "__main__":
    sys.exit(main())
