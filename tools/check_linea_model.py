#!/usr/bin/env python3
"""Checks that tools/linea_model.py gives the scores, the greedy texts and the losses of the program, and refuses what
it does not know.

Usage: python3 tools/check_linea_model.py BUILD      (a build folder with linea and tests/model_scores)

Trains a small model for every mechanism and compares the scores of all positions: the largest difference is at most
1e-4 of the largest score. Without NumPy nothing is checked, which is said.
"""
import json
import pathlib
import re
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
    for window in 0, 5:
        yield COPY, f"--attention softmax --window {window}"
    for feature in "elu", "relu", "exp", "square", "dpfp --nu 2":
        yield COPY, f"--attention linear --feature {feature}"
        for rule in "gated", "delta", "gated-delta":
            if feature != "square":
                yield COPY, f"--attention linear --feature {feature} --rule {rule}"
    yield COPY, "--attention linear --feature silu --rule delta --key-norm unit --beta-range 2"
    yield COPY, "--attention linear --rule decay --decay fixed"
    for attention in ("gdn", "gdn --beta-range 2", "ssd", "retnet", "gla", "gla --gate-rank 4", "kda", "ssd/gdn",
                      "gdn/softmax --attention-output gated"):
        yield COPY, f"--attention {attention}"
    for feature in "positive", "hyperbolic", "trig", "relu":
        yield COPY, f"--attention performer --features 16 --feature {feature}"
    yield COPY, "--attention performer --features 16 --projection iid --redraw 7"
    for codebook in "ema", "gradient":
        yield COPY, f"--attention vq --codes 8 --codebook {codebook}"
    yield COPY, "--attention soft-vq --codes 8 --anneal 0.3"
    yield COPY, "--attention topk --keys 3"
    for attention in "lsh --rounds 2 --buckets 4 --window 6", "lsh --buckets 1 --window 5", "lsh:rounds=1/softmax":
        yield COPY, f"--attention {attention}"
    for attention in "routing --window 3", "routing --clusters 3 --window 5 --local-heads 1", "routing:clusters=1/softmax":
        yield COPY, f"--attention {attention}"
    for attention in "sinkhorn --block 4", "sinkhorn --block 3 --iterations 1 --sort-temperature 0.2", "sinkhorn:block=5:iterations=0/softmax":
        yield COPY, f"--attention {attention}"
    for attention in "informer --factor 1", "informer --factor 2 --seed 7", "softmax/informer:factor=1":
        yield COPY, f"--attention {attention}"
    for attention in "luna --slots 5", "luna:slots=3/softmax":
        yield COPY, f"--attention {attention}"
    for attention in ("average", "synthesizer", "synthesizer --synth dense", "synthesizer:rank=3/softmax", "prior", "prior --prior span --ramp 4",
                      "mca", "mca --ratio 4", "bpt --keys 1", "bpt --keys 2", "pooling --window 3 --outer 9 --pool-size 2 --pool-stride 1",
                      "pooling --window 2 --outer 12 --pooling max", "average/prior --attention-output gated"):
        yield COPY, f"--attention {attention}"
    for attention in "topk --keys 3", "local --block 5", "lsh --rounds 2", "routing --window 4", "sinkhorn --block 4", "informer --factor 1", "luna --slots 4":
        yield COPY, f"--attention-output gated --attention {attention}"
    for pattern in "band:3+global:2", "dilated:2x3/block:4x1", "strided:5+fixed:6x2":
        yield COPY, f"--attention sparse --pattern {pattern} --pattern-by head"
    yield DIGITS, "--attention sparse:pattern={row+column/block2d:3x4}"
    yield DIGITS, "--attention linear/sparse:pattern={local2d:2x4x1x3}"
    for pattern in "band:2+random:2", "random:1/strided:6+random:3":
        yield COPY, f"--attention sparse --block 3 --pattern {pattern} --pattern-by head --seed 5"
    for alias in "bigbird --block 4 --randoms 2", "bigbird --block 5 --seed 3":
        yield COPY, f"--attention {alias}"
    for alias in "local --block 5", "longformer --window 3 --dilation 2", "sparse-strided", "sparse-fixed --stride 6 --summary 2":
        yield COPY, f"--attention {alias}"
    yield DIGITS, "--attention axial"
    yield COPY, "--attention linear:rule=gated-delta/softmax --attention-output gated"
    yield COPY, "--attention linear:feature=dpfp:nu=2/performer --features 16"
    yield COPY, "--positions sinusoidal --tie --no-bias"
    for attention in "softmax", "softmax --window 5", "linear --rule delta --feature dpfp", "gdn/softmax", "retnet", "lsh", "routing", "prior":
        yield COPY, f"--positions rotary --attention {attention}"
    yield COPY, "--positions none --attention linear --rule gated"
    for more in "none --attention prior --prior span --ramp 4", "none --attention informer --factor 1 --seed 2", "rotary --attention softmax":
        yield DIGITS, f"--positions {more}"
    yield COPY, "--reversible"
    yield DIGITS, "--class-token --tie"
    yield DIGITS, "--class-token --class-embedding every"
    yield DIGITS.replace("5", "256"), "--class-token --class-embedding every --class-dropout 0.2"
    yield DIGITS, "--output-head logistics"
    yield DIGITS, "--positions learned+grid --attention linear --rule gated --memory long"
    for attention in "softmax", "linear", "linear --rule gated":
        yield COPY, f"--attention-output gated --attention {attention}"
    yield COPY, "--layer-convolution 1d --attention linear --rule gated"
    yield DIGITS, "--layer-convolution 2d --optimizer muon"
    yield DIGITS, "--skip-blank --layer-convolution 2d --class-token --class-embedding every --rule gated"


def run(*words):
    result = subprocess.run([str(word) for word in words], capture_output=True)  # line ends stay as they are
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}:\n{result.stderr.decode()}")
    return result.stdout.decode()


def difference(build, run_folder):
    """The largest difference as a part of the largest score."""
    model = linea_model.load(run_folder)
    table, positions = (model.tensors.get(f"{name}_embedding.weight") for name in ("token", "position"))
    length = model.length if positions is None else len(positions)
    tokens = np.random.default_rng(1).integers(0, len(table), length)
    if model.settings.get("skip_blank"):
        tokens[1:] *= np.random.default_rng(2).random(length - 1) < 0.05  # most positions are blank
    lines = run(build / "tests/model_scores", run_folder, *tokens).splitlines()
    expected = np.array([[float(word) for word in line.split()] for line in lines])
    scores = model.logits(tokens.tolist())
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
    for name, blob in ("cut", path.read_bytes()[:-9]), ("cut", path.read_bytes()[:90]), ("not a safetensors", b"text"):
        (scratch / "other").write_bytes(blob)
        try:
            linea_model.load(scratch / "other")
            yield f"accepted a file that is {name}"
        except ValueError as error:
            if name not in str(error):
                yield f"{name}: {error}"


TEXT = "It was the best of times, it was the worst of times.\nCaf\u00e9!\r\n" * 40 + " ".join(str(n * n) for n in range(99))
TEXTS = ("", "--bytes", "--tokenizer bpe --vocab 280", "--attention performer --features 16",
         "--attention linear --rule gated-delta")


def of_texts(build, scratch):
    """What is wrong about texts that are sampled past the length of the model, and about losses."""
    file = scratch / "text.txt"
    file.write_bytes(TEXT.encode())
    for number, more in enumerate(TEXTS):
        folder = scratch / f"text{number}"
        run(build / "linea", "train", "--task", "text", "--data", file, "--length", "24", *SMALL.split(), *more.split(),
            "--out", folder)
        model = linea_model.load(folder)
        for prompt in "It was", TEXT[:90], "":
            expected = run(build / "linea", "sample", folder, "--prompt", prompt, "--tokens", 60, "--greedy")
            if model.sample(prompt, 60, greedy=True) != expected[:-1]:
                yield f"{more}: {prompt!r} continues as {model.sample(prompt, 60, greedy=True)!r}, not {expected!r}"
        one = {model.sample("It", 9, 9.0, **chosen) for chosen in ({"top_k": 1}, {"top_p": 1e-9}, {"greedy": True})}
        if len(one) != 1:
            yield f"{more}: one token is left, and others are sampled"
        if len({model.sample("It", 30, seed=seed) for seed in (1, 1, 2)}) != 2:
            yield f"{more}: a seed has not one text"
        written = run(sys.executable, linea_model.__file__, folder, "sample", "Caf\u00e9", "tokens=3", "greedy=true")
        if written[:-1] != model.sample("Caf\u00e9", 3, greedy=True):
            yield f"{more}: the command prints {written!r}"
        written = run(sys.executable, linea_model.__file__, folder, "eval", file)
        expected = json.loads(run(build / "linea", "eval", folder, "--json"))
        loss, _, accuracy = map(float, re.findall(r"\d+\.\d+", written))
        if abs(loss - expected["loss"]) > 1e-4 or abs(accuracy - expected["accuracy"]) > 1e-2:
            yield f"{more}: {written!r} instead of {expected}"
        tokens, first = model.split(TEXT.encode())
        loss, _ = model.evaluate(tokens[:first])
        expected = json.loads(run(build / "linea", "eval", folder, "--split", "train", "--json"))
        if abs(loss - expected["loss"]) > 1e-5:
            yield f"{more}: a loss of {loss} instead of {expected}"


def main():
    build, wrong, all_cases = pathlib.Path(sys.argv[1]), 0, list(cases())
    with tempfile.TemporaryDirectory() as scratch:
        for number, (task, more) in enumerate(all_cases):
            folder = pathlib.Path(scratch) / str(number)
            run(build / "linea", "train", *task.split(), *SMALL.split(), *more.split(), "--out", folder)
            found = difference(build, folder)
            wrong += found > BOUND
            print(f"{'ok  ' if found <= BOUND else 'WRONG'} {found:8.1e}  {task.split()[1]} {more}")
        for problem in (*of_texts(build, pathlib.Path(scratch)),
                        *refusals(pathlib.Path(scratch) / "0", pathlib.Path(scratch))):
            wrong += 1
            print(f"WRONG {problem}")
    print(f"{len(all_cases) + len(TEXTS)} models, {wrong} wrong")
    sys.exit(int(wrong > 0))


main()
