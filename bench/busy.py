#!/usr/bin/env python3
"""Measures training on a machine that does other work: the speed with a busy loop, of the speed alone. Prints Markdown.

    bench/busy.py [--linea build/release/linea] [--pairs 5] [--threads 2]

The loop runs pinned to one core, or where the system puts it. Perfect schedules of two threads on two cores give 75%
and 67%. Runs with and without the loop alternate, so that other changes of the machine reach both.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess

# Warm-up is long enough for the steps to choose their threads.
MODELS = {"nanogpt": ["--preset", "nanogpt", "--warmup", "100", "--steps", "150"],
          "mnist-paper": ["--preset", "mnist-paper", "--warmup", "6", "--steps", "6"]}
LOOPS = {"pinned": ["taskset", "-c", "0", "sh", "-c", "while :; do :; done"],
         "unpinned": ["sh", "-c", "while :; do :; done"]}


@contextlib.contextmanager
def running(command):
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def speed(linea, arguments):
    done = subprocess.run([linea, "bench", "train", *arguments, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["tokens_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--linea", type=pathlib.Path, default="build/release/linea")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", default="2")
    args = parser.parse_args()
    print("| model | dtype | loop | alone, tokens/s | share with the loop, median | min | max |\n|---|---|---|---|---|---|---|")
    for model, flags in MODELS.items():
        for dtype in ("fp32", "bf16"):
            arguments = [*flags, "--dtype", dtype, "--threads", args.threads]
            for place, loop in LOOPS.items():
                alone, shares = [], []
                for _ in range(args.pairs):
                    alone.append(speed(args.linea, arguments))
                    with running(loop):
                        shares.append(speed(args.linea, arguments) / alone[-1])
                print(f"| {model} | {dtype} | {place} | {statistics.median(alone):,.0f} | "
                      f"{statistics.median(shares):.0%} | {min(shares):.0%} | {max(shares):.0%} |", flush=True)


main()
