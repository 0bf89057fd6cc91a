#!/usr/bin/env python3
"""Trains the presets, and their additions one by one, and prints the tables of docs/results.md and docs/lab-notes.

    tools/quality.py run  --data FOLDER --out FOLDER [NAME ...]    trains, evaluates and judges what is missing
    tools/quality.py time --data FOLDER --out FOLDER [NAME ...]    measures steps; the machine should be idle
    tools/quality.py table --out FOLDER                            prints Markdown

FOLDER of --data holds mnist/, tinyshakespeare/input.txt and cifar10/. A NAME is a shell pattern; `table` lists all. A
killed script continues where it stopped; only PyTorch's runs start again. Each run appends a line to OUT/results.jsonl,
each step time one to OUT/times.jsonl. Runs that are judged write samples to OUT/NAME-SEED.png or .txt, and those nearest
to training images to OUT/NAME-SEED-nearest.png. Seconds in the tables are steps times the median of a run's step times,
without evaluations. --python PYTHON names an interpreter with torch; without it, PyTorch's runs are left out.
"""
import argparse
import fnmatch
import json
import math
import pathlib
import shutil
import statistics
import subprocess
import sys

from recipes import (ADDITIONS, BF16, DATA, DTYPES, IMAGE, PEERS, PEER_MODELS, PRESETS, SURE, TEXT, merged, recipes)

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINEA, PEERS_FOLDER = ROOT / "build/release/linea", ROOT / "bench/peers"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path, record):
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def output_of(program, *arguments):
    """The lines of the command's output."""
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}")
    return done.stdout.strip().splitlines()


def linea(*arguments):
    """The last line of the command's JSON output."""
    output = output_of(LINEA, *arguments)
    return json.loads(output[-1]) if output else {}


def train_peer(recipe, name, seed, args):
    threads = ["--threads", args.threads] if args.threads else []
    output = output_of(args.python, PEERS_FOLDER / "train_torch.py", PEER_MODELS[name][0], "--data",
                       args.data / DATA[recipe.data], *recipe.flags, "--seed", seed, *threads)
    unit = "nats" if recipe.data == "text" else "bits/dim"
    curve = [[line["step"], line[unit]] for line in map(json.loads, output)]
    return {"name": name, "seed": seed, "flags": recipe.flags, "steps": curve[-1][0], "curve": curve}


def folder_of(out, name, seed):
    return out / f"{name.replace(': ', '-').replace(' ', '-')}-{seed}"


def train(recipe, name, seed, args):
    """Trains to the end, from where a killed script left the run; what it reached."""
    run = folder_of(args.out, name, seed)
    if any(run.glob("checkpoints/*")):
        linea("train", "--resume", run, "--threads", args.threads)
    else:
        shutil.rmtree(run, ignore_errors=True)
        data = ["--data", args.data / DATA[recipe.data]] if recipe.data in DATA else []
        linea("train", *recipe.flags, *data, "--seed", seed, "--threads", args.threads, "--out", run)
    metrics = lines(run / "metrics.jsonl")
    curve = [[line["step"], line[recipe.key]] for line in metrics if recipe.key in line]
    result = {"name": name, "seed": seed, "flags": recipe.flags, "steps": metrics[-1]["step"], "curve": curve}
    result["whole"] = next((line["whole_" + recipe.key] for line in reversed(metrics) if "whole_" + recipe.key in line),
                           None)
    result["sure"] = [[line["step"], line["judge_sure"]] for line in metrics if "judge_sure" in line]
    if name.removeprefix("bf16: ") in PRESETS:
        result["test"] = linea("eval", run, "--split", "val" if recipe.data == "text" else "test", "--json")
        if recipe.judge:
            if recipe.data == "text":
                result["judge"] = linea("judge", run, "--json")
                sample = output_of(LINEA, "sample", run, "--tokens", 1000)
                run.with_suffix(".txt").write_text("\n".join(sample) + "\n")
            else:
                result["judge"] = linea("judge", run, "--json", "--out", f"{run}-nearest.png")
                output_of(LINEA, "sample", run, "--count", 64, "--out", f"{run}.png")
    return result


def run(args):
    """A run that fails does not keep the others from their turn."""
    results, failures = args.out / "results.jsonl", []
    for seed in (1, 2, 3):  # the first seed of all comes first
        for name, recipe in chosen(args):
            done = {(line["name"], line["seed"]) for line in lines(results)}
            if seed not in recipe.seeds or (name, seed) in done:
                continue
            print(f"{name}, seed {seed}", file=sys.stderr)
            try:
                append(results, (train_peer if name in PEERS else train)(recipe, name, seed, args))
            except RuntimeError as failure:
                failures.append(f"{name}, seed {seed}: {failure}")
    if failures:
        sys.exit("\n".join(failures))


def time_of_training(recipe, args):
    """The time of a step in a short run, without its first steps."""
    folder, steps, left_out = args.out / "timed", 60, 20
    shutil.rmtree(folder, ignore_errors=True)
    short = merged(*recipe.flags, f"--steps {steps} --warmup 1 --eval-every 0 --save-every 0 --sample-every 0")
    linea("train", *short.split(), "--data", args.data / DATA[recipe.data], "--out", folder)
    measured = [line for line in lines(folder / "metrics.jsonl") if line["step"] >= left_out and "tokens_per_s" in line]
    seconds = measured[-1]["elapsed_s"] - measured[0]["elapsed_s"]
    step_ms = seconds * 1e3 / (measured[-1]["step"] - measured[0]["step"])
    return {"step_ms": step_ms, "tokens_per_s": statistics.median(line["tokens_per_s"] for line in measured)}


def time(args):
    for name, recipe in chosen(args):
        flags = list(recipe.flags)
        if "--size" in flags or "--class-token" in flags:  # not settings of bench
            append(args.out / "times.jsonl", {"name": name, **time_of_training(recipe, args)})
            continue
        if name in PEERS:
            model, attention, tokens = PEER_MODELS[name]
            output = output_of(args.python, PEERS_FOLDER / "peer_torch.py", "train", "--preset", model, "--attention",
                               attention, "--compile", "--autocast")
            rate = json.loads(output[-1])["tokens_per_s"]
            append(args.out / "times.jsonl", {"name": name, "step_ms": tokens / rate * 1e3, "tokens_per_s": rate})
            continue
        for option in ("--steps", "--warmup", "--min-lr", "--eval-every", "--sample-every", "--judge-samples"):  # other settings of bench
            if option in flags:
                del flags[flags.index(option):flags.index(option) + 2]
        measured = linea("bench", "train", *flags, "--json")
        append(args.out / "times.jsonl", {"name": name, **{key: measured[key] for key in ("step_ms", "tokens_per_s")}})


def spread(values):
    return f"{statistics.mean(values):.4f}" + (f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else "")


def final(run, recipe):
    key = "loss" if recipe.data == "text" else "bits"
    if "test" in run:
        return run["test"][key]
    return run["curve"][-1][1] if run.get("whole") is None else run["whole"]


def print_thresholds(by_name, times):
    """Seconds and tokens to each threshold: the first evaluation, or samples, that reach it, the mean of the seeds."""
    for data, key, thresholds, unit in (("text", "curve", TEXT, "nats"), ("mnist", "curve", IMAGE, "bits/dim"),
                                        ("mnist", "sure", SURE, "of real images' share of sure ones")):
        print(f"\n## Time to quality: {data}, {unit}\n\n| run | seeds | {' | '.join(map(str, thresholds))} |")
        print("|---" * (len(thresholds) + 2) + "|")
        for name, recipe in recipes().items():
            runs, speed = [run for run in by_name.get(name, []) if run.get(key)], times.get(name)
            if recipe.data != data or not recipe.thresholds or not runs or not speed:
                continue
            cells = []
            for threshold in thresholds:
                first = [next((step for step, value in run[key]
                               if (value >= threshold if key == "sure" else value <= threshold)), None) for run in runs]
                seconds = statistics.mean(first) * speed["step_ms"] / 1e3 if all(first) else None
                cells.append(f"{seconds:.0f} s, {seconds * speed['tokens_per_s'] / 1e6:.2g} M" if seconds else "–")
            print(f"| {name} | {len(runs)} | {' | '.join(cells)} |")


def print_curves(by_name):
    print("\n## Validation losses by step, seed 1\n")
    for name, runs in by_name.items():
        for run in runs:
            if run["seed"] == 1 and len(run["curve"]) > 1:
                print(f"* {name}: " + ", ".join(f"{step}: {value:.3f}" for step, value in run["curve"]))


def print_dtypes(by_name, times):
    print("\n## bf16\n\n| run | seeds | fp32 | bf16 | difference | two standard errors | times as fast |")
    print("|---|---|---|---|---|---|---|")
    for name in (*DTYPES, *BF16):
        names = [name if name in BF16 else f"fp32: {name}", f"bf16: {name}"]
        recipe = recipes()[names[0]]
        found = [{run["seed"]: final(run, recipe) for run in by_name.get(one, [])} for one in names]
        speeds = [times.get(one, {}).get("step_ms", math.nan) for one in names]
        seeds = sorted(set(found[0]) & set(found[1]))
        if not seeds:
            print(f"| {name} | – | | | | | |")
            continue
        float32, bf16 = ([one[seed] for seed in seeds] for one in found)
        mean = statistics.mean(float32)
        differences = [b - a for a, b in zip(float32, bf16)]
        error = f"{2 * statistics.stdev(differences) / len(seeds)**0.5 / mean:.2%}" if len(seeds) > 1 else "–"
        print(f"| {name} | {len(seeds)} | {spread(float32)} | {spread(bf16)} | "
              f"{statistics.mean(differences) / mean:+.2%} | {error} | {speeds[0] / speeds[1]:.2f} |")


def print_samples(by_name):
    """What `linea judge` found, of samples / of real images or texts."""
    images = ("sure", "right", "classes", "frechet", "median", "min", "copies")
    print(f"\n## Samples: images\n\n| run | seed | {' | '.join(images)} |\n|---|---|" + "---|" * len(images))
    texts = []
    for name, runs in by_name.items():
        for run in runs:
            judged = run.get("judge", {})
            judged |= judged.get("nearest", {})
            if "frechet" not in judged:
                texts += [f"* {name}, seed {run['seed']}: {json.dumps(judged)}"] if judged else []
                continue
            cells = []
            for key in images:
                value = judged.get(key)
                if isinstance(value, dict):
                    value = f"{value['samples']:.3g} / {value['real']:.3g}"
                cells.append("–" if value is None else str(value))
            print(f"| {name} | {run['seed']} | {' | '.join(cells)} |")
    print("\n## Samples: texts\n", *texts, sep="\n")


def seconds_of_evaluations(run):
    """From the last step before each validation to its end."""
    metrics = [line for line in lines(run / "metrics.jsonl") if "elapsed_s" in line]
    return sum(after["elapsed_s"] - before["elapsed_s"] for before, after in zip(metrics, metrics[1:])
               if "val_loss" in after and "loss" in before)


def table(args):
    measured, by_name = {}, {}
    for line in lines(args.out / "times.jsonl"):
        measured.setdefault(line.pop("name"), []).append(line)
    times = {name: {key: statistics.median(line[key] for line in rows) for key in rows[0]}
             for name, rows in measured.items()}
    for line in lines(args.out / "results.jsonl"):
        by_name.setdefault(line["name"], []).append(line)
    additions = [name for name in recipes() if name.split(":")[0] in (*ADDITIONS, "other")]
    for title, rows in (("Presets", [*PRESETS, *PEERS]), ("Additions", additions)):
        print(f"\n## {title}\n\n| run | seeds | steps | minutes | evaluations, s | result |\n|---|---|---|---|---|---|")
        for name in rows:
            runs, recipe = by_name.get(name, []), recipes()[name]
            if not runs:
                print(f"| {name} | – | | | | |")
                continue
            unit = "nats" if recipe.data == "text" else "bits/dim"
            minutes = runs[0]["steps"] * times.get(name, {}).get("step_ms", math.nan) / 6e4
            evaluations = seconds_of_evaluations(folder_of(args.out, name, runs[0]["seed"]))
            print(f"| {name} | {len(runs)} | {runs[0]['steps']} | {minutes:.1f} | {evaluations:.1f} | "
                  f"{spread([final(run, recipe) for run in runs])} {unit} |")
    print_thresholds(by_name, times)
    print_curves(by_name)
    print_dtypes(by_name, times)
    print_samples(by_name)


def chosen(args):
    patterns = args.names or ["*"]
    return [(name, recipe) for name, recipe in recipes().items()
            if any(fnmatch.fnmatch(name, pattern) for pattern in patterns) and (args.python or name not in PEERS)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "time", "table"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--python", help="an interpreter with torch, for PyTorch's runs")
    args = parser.parse_intermixed_args()
    args.out.mkdir(parents=True, exist_ok=True)
    {"run": run, "time": time, "table": table}[args.action](args)


main()
