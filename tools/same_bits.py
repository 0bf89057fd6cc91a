#!/usr/bin/env python3
"""Compares two builds of linea on this machine. Bits: losses and gradient norms of 50 training steps of eight models,
20 sampled images and a text of each text model, with one and with two threads. Speed: the benches, in alternating
pairs; a ratio above 1 means that the new build is faster. Exit code 1 where a bit differs.

    tools/same-bits.sh [options]                    builds both and calls this
    python3 tools/same_bits.py OLD NEW [options]    OLD and NEW are programs
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

# Words of commands that are others in OLD.
OLD_WORDS = {}
MODELS = {
    "softmax": "--attention softmax",
    "linear": "--attention linear",
    "gated": "--attention linear --rule gated",
    "delta": "--attention linear --rule delta",
    "performer": "--attention performer",
    "soft-vq": "--attention soft-vq",
    "vq": "--attention vq",
}
# name, command, key of a line of its JSON (larger is faster, or seconds), lines by which field
BENCHES = [
    ("train nanogpt", "bench train --preset nanogpt --steps 20 --json", "tokens_per_s", None),
    ("train mnist-paper", "bench train --preset mnist-paper --steps 3 --warmup 1 --json", "tokens_per_s", None),
    ("attention", "bench attention --attention softmax,linear,performer --lengths 512,2048 --json",
     "forward_backward_s", ("attention", "length")),
    ("sample", "bench sample --preset mnist-paper --batches 1,256 --json", "tokens_per_s", ("batch",)),
]


def make_text(path):
    """A text of its own, where there is no Shakespeare: the same on every machine."""
    state, words = 1, ["the", "king", "speaks", "to", "a", "fool", "of", "winter", "and", "love;", "who", "hears?"]
    lines = []
    for _ in range(20000):
        line = []
        for _ in range(8):
            state = (state * 1103515245 + 12345) % 2**31
            line.append(words[(state >> 16) % len(words)])
        lines.append(" ".join(line))
    path.write_text("\n".join(lines) + "\n")


def find_text(asked, folder):
    path = pathlib.Path(asked or os.environ.get("LINEA_TEXT") or "datasets/tinyshakespeare/input.txt")
    for candidate in (path, path / "input.txt", path / "tinyshakespeare" / "input.txt"):
        if candidate.is_file():
            return candidate.resolve()
    if asked:
        sys.exit(f"{asked}: there is no input.txt")
    print(f"{path} does not exist: a generated text takes its place")
    make_text(folder / "text.txt")
    return folder / "text.txt"


class Program:
    def __init__(self, path, is_old):
        self.path, self.is_old = os.path.abspath(path), is_old

    def run(self, line, cwd):
        words = [OLD_WORDS.get(word, word) if self.is_old else word for word in line.split()]
        done = subprocess.run([self.path, *words], cwd=cwd, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"{self.path} {' '.join(words)}\nexit code {done.returncode}: {done.stderr.decode()[-500:]}")
        return done.stdout


def training(program, folder, name, flags):
    """-> {what: value} of each record of the metrics."""
    program.run(f"train {flags} --eval-every 0 --sample-every 0 --out {name}", folder)
    with open(folder / name / "metrics.jsonl") as lines:
        return {f"step {record.get('step')}: {key}": record[key]
                for record in map(json.loads, lines) for key in ("loss", "grad_norm") if key in record}


def results(program, folder, text, threads, steps):
    """-> (model, {what: number or bytes}) of all that should be the same."""
    folder.mkdir()
    machine = f"--threads {threads}"
    length = f"--steps {steps} {machine}"
    digits = training(program, folder, "digits", f"--preset digits-linear {length}")
    program.run(f"sample digits --count 20 --out digits.png {machine}", folder)
    yield "digits", digits | {"20 images": (folder / "digits.png").read_bytes()}
    for name, flags in MODELS.items():
        found = training(program, folder, name, f"--preset shakespeare-nanogpt --data {text} {flags} {length}")
        yield name, found | {"the text": program.run(f"sample {name} --prompt a --tokens 300 {machine}", folder)}


def difference(old, new):
    """-> what differs, in words; "" where nothing does."""
    if old.keys() != new.keys():
        return f"other results: {sorted(old.keys() ^ new.keys())[:3]}"
    different = [what for what in old if old[what] != new[what]]
    def is_number(x):  # one that is not finite is recorded as text
        return isinstance(x, (int, float))
    numbers = [(abs(new[what] - old[what]) / (abs(old[what]) or 1), what) for what in different
               if is_number(old[what]) and is_number(new[what])]
    words = [what for what in different if not is_number(old[what]) or not is_number(new[what])]
    if numbers:
        largest, where = max(numbers)
        words.append(f"{len(numbers)} of {len(old) - 1} losses and gradient norms, by at most {largest:.1e} ({where})")
    return ", ".join(words)


def compare_bits(old, new, text, steps, folder):
    same = True
    for threads in (1, 2):
        for (name, first), (_, second) in zip(results(old, folder / f"old{threads}", text, threads, steps),
                                              results(new, folder / f"new{threads}", text, threads, steps)):
            words = difference(first, second)
            same = same and not words
            print(f"{threads} threads, {name}: " + (f"different: {words}" if words else "the same bits"), flush=True)
    return same


def measure(program, command, key, fields, folder):
    """-> speed of each line of the bench's JSON that has the key."""
    speeds = {}
    for record in map(json.loads, program.run(command, folder).decode().splitlines()):
        if key in record:
            name = " ".join(str(record[field]) for field in fields) if fields else ""
            speeds[name] = 1 / record[key] if key.endswith("_s") and "per" not in key else record[key]
    return speeds


def compare_speeds(old, new, pairs, quick, folder):
    print(f"\nspeeds, {pairs} alternating pairs: median of the old, of the new, ratio of the medians, "
          f"the ratios of single pairs")
    for name, command, key, fields in BENCHES:
        if quick:
            command = command.replace("--steps 20", "--steps 3").replace("1,256", "1").replace("512,2048", "512")
        measured = {old: [], new: []}
        for pair in range(pairs):
            for program in ((old, new), (new, old))[pair % 2]:
                measured[program].append(measure(program, command, key, fields, folder))
        for line in measured[new][0]:
            before, after = ([speeds[line] for speeds in measured[program]] for program in (old, new))
            ratios = sorted(b / a for a, b in zip(before, after))
            a, b = statistics.median(before), statistics.median(after)
            print(f"{name + ' ' + line:<42} {a:12.4g} {b:12.4g}  {b / a:6.3f}  {ratios[0]:.3f} to {ratios[-1]:.3f}",
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--text", help="a text or a folder with tinyshakespeare/input.txt (default: LINEA_TEXT, then "
                        "datasets/tinyshakespeare/input.txt, then a generated one)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--bits-only", action="store_true")
    parser.add_argument("--speed-only", action="store_true")
    parser.add_argument("--quick", action="store_true", help="5 steps and short benches, to try this script")
    options = parser.parse_args()
    old, new = Program(options.old, True), Program(options.new, False)
    same = True
    with tempfile.TemporaryDirectory(prefix="same-bits.") as name:
        folder = pathlib.Path(name)
        if not options.speed_only:
            same = compare_bits(old, new, find_text(options.text, folder), 5 if options.quick else 50, folder)
        if not options.bits_only:
            compare_speeds(old, new, options.pairs, options.quick, folder)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
