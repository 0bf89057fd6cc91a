#!/usr/bin/env python3
"""Checks that tools/linea_model.py gives the scores of the program, and refuses what it does not know.

Usage: python3 tools/check_linea_model.py BUILD      (a build folder with linea and tests/model_scores)

Trains a small model for every mechanism and compares the scores of all positions: the largest difference is at most
1e-4 of the largest score. Without NumPy nothing is checked, which is said.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed: tools/linea_model.py is NOT checked")
    sys.exit(0)
import linea_model

BOUND = 1e-4
SMALL = "--layers 2 --heads 2 --dim 16 --ffn 32 --batch 4 --steps 40 --lr 0.02 --warmup 0 --threads 1"
COPY, DIGITS = "--task copy --length 24", "--task digits --size 12 --levels 5 --examples 200"


def cases():
    yield COPY, "--attention softmax"
    for feature in "elu", "relu", "exp", "square", "dpfp --nu 2":
        yield COPY, f"--attention linear --feature {feature}"
        for rule in "gated", "delta", "gated-delta":
            if feature != "square":
                yield COPY, f"--attention linear --feature {feature} --rule {rule}"
    for feature in "positive", "hyperbolic", "trig", "relu":
        yield COPY, f"--attention performer --features 16 --feature {feature}"
    yield COPY, "--attention performer --features 16 --projection iid --redraw 7"
    for codebook in "ema", "gradient":
        yield COPY, f"--attention vq --codes 8 --codebook {codebook}"
    yield COPY, "--attention soft-vq --codes 8 --anneal 0.3"
    yield COPY, "--positions sinusoidal --tie --no-bias"
    yield COPY, "--reversible"
    yield DIGITS, "--class-token --tie"
    yield DIGITS, "--class-token --class-embedding every"
    yield COPY, "--bigram-embedding --embedding-convolution 1d"
    yield DIGITS.replace("5", "256"), "--class-token --class-embedding every --class-dropout 0.2 --bigram-embedding"
    yield DIGITS, "--output-head logistics"
    yield DIGITS, "--positions learned+grid --attention linear --rule gated --memory long"
    for attention in "softmax", "linear", "linear --rule gated":
        yield COPY, f"--attention-output gated --attention {attention}"
    yield COPY, "--embedding-convolution 1d --layer-convolution 1d --attention linear --rule gated"
    yield DIGITS, "--embedding-convolution 2d --layer-convolution 2d --optimizer muon"


def run(*words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}:\n{result.stderr}")
    return result.stdout


def difference(build, run_folder):
    """The largest difference as a part of the largest score."""
    model = linea_model.load(run_folder)
    table, positions = (model.tensors.get(f"{name}_embedding.weight") for name in ("token", "position"))
    length = 24 if positions is None else len(positions)
    tokens = np.random.default_rng(1).integers(0, len(table), length)
    lines = run(build / "tests/model_scores", run_folder, *tokens).splitlines()
    expected = np.array([[float(word) for word in line.split()] for line in lines])
    scores = model(tokens.tolist())
    if scores.shape != expected.shape or not np.isfinite(scores).all():
        return float("inf")
    return abs(scores - expected).max() / abs(expected).max()


def refusals(run_folder, scratch):
    """What is wrong about the errors for files with one unknown name each."""
    path, = run_folder.glob("checkpoints/*/model.safetensors")
    for known, unknown in ("softmax", "softmox"), ("linea-2", "linea-9"), ('"F32"', '"F99"'), ("clip", "clap"), (
            "blocks.1.qkv.bias", "blocks.1.qkv.bios"), ("categorical", "kategorical"):
        file = scratch / "changed.safetensors"
        file.write_bytes(path.read_bytes().replace(known.encode(), unknown.encode()))
        try:
            linea_model.load(file)
            yield f"accepted {unknown}"
        except ValueError as error:
            if unknown.strip('"') not in str(error):
                yield f"{unknown}: {error}"


def main():
    build, wrong, all_cases = pathlib.Path(sys.argv[1]), 0, list(cases())
    with tempfile.TemporaryDirectory() as scratch:
        for number, (task, more) in enumerate(all_cases):
            folder = pathlib.Path(scratch) / str(number)
            run(build / "linea", "train", *task.split(), *SMALL.split(), *more.split(), "--out", folder)
            found = difference(build, folder)
            wrong += found > BOUND
            print(f"{'ok  ' if found <= BOUND else 'WRONG'} {found:8.1e}  {task.split()[1]} {more}")
        for problem in refusals(pathlib.Path(scratch) / "0", pathlib.Path(scratch)):
            wrong += 1
            print(f"WRONG {problem}")
    print(f"{len(all_cases)} models, {wrong} wrong")
    sys.exit(wrong > 0)


main()
