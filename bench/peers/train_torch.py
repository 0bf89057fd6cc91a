#!/usr/bin/env python3
"""Trains the peer's models on real data, for comparisons of the loss after equal minutes.

    train_torch.py nanogpt --data input.txt --steps 20000        nanoGPT's recipe for a CPU, softmax
    train_torch.py mnist-paper --data MNIST_FOLDER --steps 1000  the MNIST model of Katharopoulos et al. 2020

Minutes are steps times the step time that compare.sh measures: the losses do not depend on what else the machine does.
nanogpt: AdamW, 100 steps of warm-up, cosine decay from 1e-3 to 1e-4, nats per character over the whole validation
split, in windows of 64. mnist-paper: RAdam at 1e-4, mixtures of ten logistics, bits/dim over --images test images.
Prints one JSON object per evaluation, after each tenth of the steps.
"""
import argparse
import gzip
import json
import math
import pathlib
import time

import torch
import torch.nn.functional as F
from torch import nn

from peer_torch import PRESETS, Transformer, precision


class Text:
    """The first nine tenths train."""

    unit = "nats"

    def __init__(self, path, _images):
        text = path.read_bytes()
        tokens = {byte: i for i, byte in enumerate(sorted(set(text)))}
        ids = torch.tensor([tokens[byte] for byte in text])
        split = len(ids) * 9 // 10
        self.train, self.val = ids[:split], ids[split:]
        self.p = dict(PRESETS["nanogpt"], vocab=len(tokens), tokens=len(tokens))

    def windows(self, ids, starts):
        rows = torch.stack([ids[s:s + self.p["length"] + 1] for s in starts])
        return rows[:, :-1], rows[:, 1:]

    def batch(self):
        starts = torch.randint(len(self.train) - self.p["length"], (self.p["batch"],))
        return self.windows(self.train, starts.tolist())

    def test_batches(self):
        starts = range(0, len(self.val) - self.p["length"], self.p["length"])
        for i in range(0, len(starts), 64):
            yield self.windows(self.val, starts[i:i + 64])

    def loss(self, outputs, targets):
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def optimizer(self, model):
        matrices = [x for x in model.parameters() if x.dim() >= 2]
        vectors = [x for x in model.parameters() if x.dim() < 2]
        groups = [dict(params=matrices, weight_decay=self.p["weight_decay"]), dict(params=vectors, weight_decay=0.0)]
        return torch.optim.AdamW(groups, lr=self.p["lr"], betas=(0.9, 0.99), fused=True)

    def learning_rate(self, step, steps):
        if step < 100:
            return 1e-3 * (step + 1) / 100
        return 1e-4 + 0.5 * (1e-3 - 1e-4) * (1 + math.cos(math.pi * (step - 100) / (steps - 100)))


class Mnist:
    """The first 55,000 training images train. Token 256 starts an image."""

    unit = "bits/dim"

    def __init__(self, folder, images):
        self.train, self.test = (self.read(folder / name) for name in
                                 ("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz"))
        self.train, self.test = self.train[:55000], self.test[:images]
        self.p = dict(PRESETS["mnist-paper"], vocab=30)

    @staticmethod
    def read(path):
        return torch.frombuffer(bytearray(gzip.decompress(path.read_bytes())[16:]), dtype=torch.uint8).view(-1, 784)

    @staticmethod
    def shifted(images):
        targets = images.long()
        return F.pad(targets[:, :-1], (1, 0), value=256), targets

    def batch(self):
        return self.shifted(self.train[torch.randint(len(self.train), (self.p["batch"],))])

    def test_batches(self):
        for images in self.test.split(self.p["batch"]):
            yield self.shifted(images)

    def loss(self, outputs, targets):
        """-log sum_i pi_i (sigma(upper_i) - sigma(lower_i)): bins of width 2/255 of [-1,1], open at both ends."""
        logits, mean, log_scale = outputs.float().chunk(3, -1)
        x = targets.unsqueeze(-1) / 127.5 - 1
        rate = (-log_scale.clamp(min=-7)).exp()
        upper, lower = (x - mean + 1 / 255) * rate, (x - mean - 1 / 255) * rate
        inside = F.logsigmoid(upper) + F.logsigmoid(-lower) + torch.log(-torch.expm1(-2 / 255 * rate))
        bins = torch.where(x <= -1, F.logsigmoid(upper), torch.where(x >= 1, F.logsigmoid(-lower), inside))
        return -torch.logsumexp(logits.log_softmax(-1) + bins, -1).mean()

    def optimizer(self, model):
        return torch.optim.RAdam(model.parameters(), lr=1e-4)

    def learning_rate(self, _step, _steps):
        return 1e-4


@torch.inference_mode()
def evaluate(run, data, o):
    total = count = 0
    for inputs, targets in data.test_batches():
        with precision(o):
            outputs = run(inputs)
        total += data.loss(outputs.float(), targets).item() * targets.numel()
        count += targets.numel()
    return total / count / (math.log(2) if data.unit == "bits/dim" else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=("nanogpt", "mnist-paper"))
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--images", type=int, default=1000, help="test images; default: 1000")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument("--autocast", action="store_true", help="use torch.autocast with bfloat16")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)
    data = {"nanogpt": Text, "mnist-paper": Mnist}[o.recipe](o.data, o.images)
    model = Transformer("softmax" if o.recipe == "nanogpt" else "linear", data.p)
    run = torch.compile(model) if o.compile else model
    optimizer = data.optimizer(model)
    seconds = 0.0
    for step in range(o.steps):
        begin = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = data.learning_rate(step, o.steps)
        inputs, targets = data.batch()
        with precision(o):
            outputs = run(inputs)
            loss = data.loss(outputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        seconds += time.perf_counter() - begin
        if (step + 1) % max(1, o.steps // 10) == 0 or step + 1 == o.steps:
            print(json.dumps({"step": step + 1, data.unit: evaluate(run, data, o), "seconds": seconds}), flush=True)


main()
