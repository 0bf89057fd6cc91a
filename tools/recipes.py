"""What tools/quality.py trains: presets, their additions one by one, and PyTorch's models, by name."""
DATA = {"mnist": "mnist", "cifar10": "cifar10", "text": "tinyshakespeare/input.txt"}
BITS, NATS = "val_bits", "val_loss"


class Recipe:
    def __init__(self, data, flags, seeds=(1, 2, 3), thresholds=(), judge=False):
        self.data, self.flags, self.seeds, self.thresholds, self.judge = data, flags.split(), seeds, thresholds, judge
        self.key = NATS if data == "text" else BITS


TEXT, IMAGE = (2.0, 1.9, 1.78, 1.6, 1.55, 1.5, 1.45), (1.5, 1.24, 1.04, 0.93, 0.85, 0.8, 0.7)
SURE = (0.5, 0.7, 0.85)  # shares of samples that the classifier is sure of, relative to real images
PRESETS = {
    "digits-linear": Recipe("digits", "--preset digits-linear"),
    "digits-demo": Recipe("digits", "--preset digits-demo", judge=True),
    "mnist-linear": Recipe("mnist", "--preset mnist-linear --eval-every 250 --sample-every 500 --judge-samples 200",
                           thresholds=IMAGE, judge=True),
    "mnist-quick": Recipe("mnist", "--preset mnist-quick --eval-every 250 --sample-every 500 --judge-samples 200",
                          thresholds=IMAGE, judge=True),
    "mnist-cpu": Recipe("mnist", "--preset mnist-cpu --sample-every 2000 --judge-samples 200", thresholds=IMAGE,
                        judge=True),
    "cifar10-linear at 32": Recipe("cifar10", "--preset cifar10-linear --size 32 --steps 4800", seeds=(1,), judge=True),
    "cifar10-small": Recipe("cifar10", "--preset cifar10-small", judge=True),
    "cifar10-cpu": Recipe("cifar10", "--preset cifar10-cpu", seeds=(1,), judge=True),
    "shakespeare-nanogpt": Recipe("text", "--preset shakespeare-nanogpt", thresholds=TEXT),
    "shakespeare-softmax": Recipe("text", "--preset shakespeare-nanogpt --attention softmax", thresholds=TEXT),
    "shakespeare-cpu": Recipe("text", "--preset shakespeare-cpu", thresholds=TEXT, judge=True),
    "shakespeare-best": Recipe("text", "--preset shakespeare-best", thresholds=TEXT, judge=True),
}
# Models of bench/peers in PyTorch's best mode. Steps: as many as `time` has in the minutes of
# shakespeare-best and mnist-cpu.
PEERS = {
    "PyTorch: nanogpt": Recipe("text", "--steps 24900 --compile --autocast", seeds=(1,), thresholds=TEXT),
    "PyTorch: mnist-paper": Recipe("mnist", "--steps 1070 --compile --autocast", seeds=(1,), thresholds=IMAGE),
}
PEER_MODELS = {"PyTorch: nanogpt": ("nanogpt", "softmax", 12 * 64),  # preset, attention, tokens in a step
               "PyTorch: mnist-paper": ("mnist-paper", "linear", 10 * 784)}
BF16 = ("digits-demo", "mnist-quick", "mnist-cpu", "cifar10-small", "cifar10-cpu", "shakespeare-cpu", "shakespeare-best")
# Additions to SMALL by name.
ADDITIONS = {
    "text": {
        "Muon": "--optimizer muon",
        "convolutions of layers": "--layer-convolution 1d",
        "gated outputs": "--attention-output gated",
    },
    "mnist": {
        "Muon": "--optimizer muon",
        "convolutions of layers": "--layer-convolution 2d",
        "rows and columns": "--positions learned+grid",
        "long memory": "--memory long",
    },
}
# Alternatives to the additions, tried alone and with all of them.
ALTERNATIVES = {
    "text": {
        "gated delta rule": "--rule gated-delta",
        "sum rule": "--rule sum",
    },
    "mnist": {
        "class at every position": "--class-token --class-embedding every",
        "gated outputs": "--attention-output gated",
        "gated delta rule": "--rule gated-delta",
        "sum rule": "--rule sum",
    },
}
SMALL = {"text": "--preset shakespeare-nanogpt --rule gated --lr 3e-3 --steps 300 --warmup 20",
         "mnist": "--preset mnist-linear --rule gated --batch 4 --steps 150 --warmup 20"}
# Changes to shakespeare-cpu, and to a short run of mnist-cpu.
TEXT_OTHERS = {
    "gated outputs": "--attention-output gated",
}
OTHERS = {
    "four layers": "",
    "two layers, 300 steps": "--layers 2 --steps 300 --warmup 50",
    "four layers, 300 steps": "--steps 300 --warmup 50",
    "six layers, 300 steps": "--layers 6 --steps 300 --warmup 50",
    "softmax, 300 steps": "--attention softmax --steps 300 --warmup 50",
    "exp features, 300 steps": "--feature exp --steps 300 --warmup 50",
    "half of Muon's rate": "--muon-lr 0.01",
    "width 128": "--dim 128",
    "gated outputs": "--attention-output gated",
    "no minimum of the learning rate": "--min-lr 0",
}
SHORT = "--preset mnist-cpu --layers 4 --steps 800"

# Trained in both dtypes: the differences are those of bf16.
DTYPES = {
    "softmax": ("text", "--preset shakespeare-nanogpt --attention softmax"),
    "linear": ("text", "--preset shakespeare-nanogpt"),
    "gated": ("text", "--preset shakespeare-nanogpt --rule gated"),
    "performer": ("text", "--preset shakespeare-nanogpt --attention performer"),
    "MNIST": ("mnist", "--preset mnist-linear --eval-every 500"),
}


def merged(*flags):
    """The flags as one string; a later one replaces an earlier one of its name. The sum rule has no memory to set."""
    chosen = {}
    for word in " ".join(flags).split():
        if word.startswith("--"):
            values = chosen[word] = []
        else:
            values.append(word)
    if chosen.get("--rule") == ["sum"]:
        chosen.pop("--memory", None)
    return " ".join(" ".join([name, *values]) for name, values in chosen.items())


def recipes():
    """All by name: presets, PyTorch's runs, those of BF16, additions and alternatives, those of OTHERS and TEXT_OTHERS,
    and DTYPES."""
    found = {**PRESETS, **PEERS}
    for name in BF16:
        preset = PRESETS[name]
        found[f"bf16: {name}"] = Recipe(preset.data, f"{' '.join(preset.flags)} --dtype bf16", (1,), preset.thresholds)
    for name, (data, flags) in DTYPES.items():
        for dtype in ("fp32", "bf16"):
            found[f"{dtype}: {name}"] = Recipe(data, f"{flags} --dtype {dtype}")
    for data, additions in ADDITIONS.items():
        base, on = SMALL[data], list(additions.values())
        found[f"{data}: none"] = Recipe(data, base)
        for name, flags in additions.items():
            found[f"{data}: {name} alone"] = Recipe(data, f"{base} {flags}")
        found[f"{data}: all"] = Recipe(data, f"{base} {' '.join(on)}")
        for name, flags in additions.items():
            rest = " ".join(other for other in on if other != flags)
            found[f"{data}: without {name}"] = Recipe(data, f"{base} {rest}")
        for name, flags in ALTERNATIVES[data].items():
            found[f"{data}: {name} alone"] = Recipe(data, merged(base, flags))
            found[f"{data}: all and {name}"] = Recipe(data, merged(base, *on, flags))
    for name, flags in TEXT_OTHERS.items():
        found[f"other: shakespeare-cpu, {name}"] = Recipe("text", f"--preset shakespeare-cpu {flags}", (1,))
    for name, flags in OTHERS.items():
        found[f"other: {name}"] = Recipe("mnist", merged(SHORT, flags), (1,))
    return found
