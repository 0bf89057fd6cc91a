#!/usr/bin/env python3
"""Measures how many associations a state can hold: the retrieval task of Schlag et al. 2021, section 6.1.

    tools/capacity.py --linea build/release/linea --out capacity.jsonl --svg capacity.svg

Trains a single attention with keys of size 64 (`linea train --task retrieval`) for at most 3,000 steps of batch 32. A
run ends early when its validation loss falls below 1% of the loss of guessing, log n. A mechanism breaks at the first
n whose final loss exceeds 10% of it; larger n are skipped. Each run appends one line of JSON to --out. Runs found
there with the same --seed and --steps are not repeated, so the script can be interrupted and restarted. The chart has
one line per seed and no means: seeds break at different n, so a mean would mix different seeds at each n.
"""
import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MECHANISMS = {
    "softmax": "--attention softmax",
    "elu + 1": "--attention linear",
    "DPFP-1": "--attention linear --feature dpfp --nu 1",
    "DPFP-2": "--attention linear --feature dpfp --nu 2",
    "DPFP-3": "--attention linear --feature dpfp --nu 3",
    "FAVOR+ 64": "--attention performer --features 64 --redraw 1",
    "FAVOR+ 512": "--attention performer --features 512 --redraw 1",
    "FAVOR+ 512, fixed": "--attention performer --features 512",
    "elu + 1, delta": "--attention linear --rule delta",
    "DPFP-1, delta": "--attention linear --feature dpfp --nu 1 --rule delta",
    "elu + 1, gated": "--attention linear --rule gated",
}
STEPS = 3000
SIZES = [20, 40, 60, 80, 120, 160, 240, 320, 400, 600]


def train(linea, name, n, repeat, seed, steps, threads):
    """One run; its final validation loss, accuracy, steps and seconds."""
    folder = tempfile.mkdtemp(prefix="capacity-")
    run = os.path.join(folder, "run")
    command = [linea, "train", "--task", "retrieval", "--associations", str(n), *MECHANISMS[name].split(),
               "--layers", "1", "--heads", "1", "--dim", "64", "--batch", "32", "--steps", str(steps),
               "--lr", "3e-3", "--min-lr", "1e-4", "--warmup", "0", "--eval-every", "250", "--seed", str(seed),
               "--threads", str(threads), "--json", "--out", run]
    if repeat:
        command.append("--repeat-keys")
    start, last, stopped = time.time(), None, False
    with tempfile.TemporaryFile("w+") as errors:  # an unread pipe would fill up and block the run
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        for line in process.stdout:
            record = json.loads(line)
            if "val_loss" not in record:
                continue
            last = record
            if not stopped and record["val_loss"] < 0.01 * math.log(n):
                process.send_signal(signal.SIGTERM)
                stopped = True
        if process.wait() not in (0, 75) or last is None:
            errors.seek(0)
            sys.exit(f"{' '.join(command)}: exit {process.returncode}\n{errors.read()}")
    shutil.rmtree(folder)
    loss, accuracy = (last.get("whole_val_" + key, last["val_" + key]) for key in ("loss", "accuracy"))
    return {"mechanism": name, "n": n, "repeat": repeat, "seed": seed, "limit": steps, "loss": loss,
            "of_guessing": loss / math.log(n), "accuracy": accuracy, "steps": last["step"],
            "seconds": round(time.time() - start, 1)}


def read(path, repeat, limit):
    """Reads the runs of one task with a limit of `limit` steps; lines without a limit count as STEPS."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        results = [json.loads(line) for line in file]
    return [r for r in results if r["repeat"] == repeat and r.get("limit", STEPS) == limit]


def chart(results, path, title):
    """Draws accuracy against n: one color per mechanism, one line per seed."""
    seeds = sorted({r["seed"] for r in results})
    title += ", one line per seed: " if len(seeds) > 1 else ", seed "
    title += ", ".join(map(str, seeds))
    left, top, width, height = 60, 40, 560, 320
    colors = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00", "#7F7F7F"]
    low, high = math.log(SIZES[0]), math.log(SIZES[-1])
    to_x = lambda n: left + width * (math.log(n) - low) / (high - low)
    to_y = lambda accuracy: top + height * (1 - accuracy)
    elements = [f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{top + height + 60}" '
             f'font-family="sans-serif" font-size="13">', '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{left}" y="22" font-size="15">{title}</text>']
    for n in SIZES:
        elements.append(f'<text x="{to_x(n):.1f}" y="{top + height + 18}" text-anchor="middle">{n}</text>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = to_y(share)
        elements.append(f'<line x1="{left}" x2="{left + width}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        elements.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{share:.2f}</text>')
    elements.append(f'<text x="{left + width / 2}" y="{top + height + 42}" text-anchor="middle">associations</text>')
    names = [name for name in MECHANISMS if any(r["mechanism"] == name for r in results)]
    for i, name in enumerate(names):
        color, dash = colors[i % len(colors)], "" if i < len(colors) else ' stroke-dasharray="6 3"'
        for seed in seeds:
            own = [r for r in results if r["mechanism"] == name and r["seed"] == seed]
            points = sorted((r["n"], r["accuracy"]) for r in own)
            line = " ".join(f"{to_x(n):.1f},{to_y(a):.1f}" for n, a in points)
            elements.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
            for n, a in points:
                elements.append(f'<circle cx="{to_x(n):.1f}" cy="{to_y(a):.1f}" r="3" fill="{color}"/>')
        y = top + 16 * i + 8
        elements.append(f'<line x1="{left + width + 20}" x2="{left + width + 50}" y1="{y}" y2="{y}" stroke="{color}" '
                     f'stroke-width="2"{dash}/><text x="{left + width + 56}" y="{y + 4}">{name}</text>')
    with open(path, "w") as file:
        file.write("\n".join(elements) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--linea", default="build/release/linea")
    parser.add_argument("--out", default="capacity.jsonl")
    parser.add_argument("--svg")
    parser.add_argument("--mechanisms", default=",".join(MECHANISMS).replace(", ", "; "),
                        help="comma-separated; write '; ' for the ', ' within a name")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--repeat-keys", action="store_true",
                        help="the edit task: keys are written again with new values")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    for name in options.mechanisms.replace("; ", "\0").split(","):
        name = name.replace("\0", ", ")
        for n in map(int, options.sizes.split(",")):
            found = [r for r in read(options.out, options.repeat_keys, options.steps)
                     if (r["mechanism"], r["n"], r["seed"]) == (name, n, options.seed)]
            if not found:
                found = [train(options.linea, name, n, options.repeat_keys, options.seed, options.steps,
                               options.threads)]
                with open(options.out, "a") as file:
                    file.write(json.dumps(found[0]) + "\n")
            print(f"{name:20} n {n:4}  loss {found[0]['loss']:.4f}, {found[0]['of_guessing']:.3f} of guessing, "
                  f"accuracy {found[0]['accuracy']:.3f}, {found[0]['steps']} steps, {found[0]['seconds']} s",
                  flush=True)
            if found[0]["of_guessing"] > 0.1:
                break
    if options.svg:
        results = read(options.out, options.repeat_keys, options.steps)
        kind = "rewritten" if options.repeat_keys else "unique"
        chart(results, options.svg, f"retrieval of {kind} keys, D = 64")


if __name__ == "__main__":
    main()
