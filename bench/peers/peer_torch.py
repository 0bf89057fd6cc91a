#!/usr/bin/env python3
"""Linea's Transformer in plain PyTorch: the peer for comparisons of speed and memory on a CPU.

    peer_torch.py train --preset nanogpt --attention linear   tokens per second, peak memory
    peer_torch.py attention --n 4096       linear attention alone, forward and backward; --kind gdn: Gated DeltaNet
    peer_torch.py sample --batch 16        sampling with the recurrent state (softmax: a key/value cache)
    peer_torch.py sgemm                    the rate of PyTorch's matrix product

With --compile under torch.compile, with --autocast in bfloat16 by torch.autocast (when sampling, the weights of layers
are stored in bfloat16 too). The last line of stdout is one JSON object. check_peer.py checks the formulas.
B H N D M F: batch, heads, length, key, value and feature size; C chunks of L rows.
"""
import argparse
import gc
import json
import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

PRESETS = {
    "nanogpt": dict(layers=4, heads=4, dim=128, ffn=512, length=64, batch=12, vocab=65, tokens=65, tie=True,
                    bias=False, lr=1e-3, weight_decay=0.1),
    "mnist-paper": dict(layers=8, heads=8, dim=256, ffn=1024, length=784, batch=10, vocab=256, tokens=257,
                        tie=False, bias=True, lr=1e-3, weight_decay=0.0),
}
FEATURES = 256  # Performer
CHUNK = {"linear": 64, "performer": 128, "gdn": 64}  # the fastest of 32, 64 and 128


# ---- attention: q, k, v [B,H,N,D] -> [B,H,N,M] -----------------------------------------------------------

def elu_features(x):
    return F.elu(x) + 1


def with_ones(v):
    """The denominator is one more value column."""
    return F.pad(v, (0, 1), value=1.0)


def in_chunks(x, L):
    """[B,H,N,D] -> [B*H,C,L,D], zero-padded at the end."""
    B, H, N, D = x.shape
    C = -(-N // L)
    return F.pad(x, (0, 0, 0, C * L - N)).reshape(B * H, C, L, D)


def even_chunk(N, chunk):
    """The length of equal chunks, as many as chunks of length `chunk` would be."""
    return -(-N // -(-N // chunk))


def causal_linear(q, k, v, chunk):
    """Numerators, and the denominator as the last column: [B*H,C,L,M+1]."""
    N, L = q.size(2), even_chunk(q.size(2), chunk)
    q, k, v = (in_chunks(x, L) for x in (elu_features(q), elu_features(k), with_ones(v)))
    keys = k.transpose(2, 3)
    y = (q @ keys).tril_() @ v
    C = q.size(1)
    if C > 1:  # states before each chunk: an exclusive prefix sum, as a product with a triangle of ones
        before = torch.ones(C, C, dtype=q.dtype).tril(-1)
        y = y + q @ (before @ (keys @ v).flatten(2)).view(-1, C, q.size(3), v.size(3))
    return y


def log_features(x, omega, key):
    """omega . x' - |x'|^2 / 2 with x' = x / D^(1/4), the last term for keys only: that of a query cancels."""
    x = x * x.size(-1) ** -0.25
    y = x @ omega.transpose(1, 2)  # [B,H,N,D], [H,F,D] -> [B,H,N,F]
    return y - x.square().sum(-1, keepdim=True) / 2 if key else y


def causal_performer(q, k, v, omega, chunk):
    """Positive features. The keys of a chunk are scaled by their largest log, top; its rows by the largest so far.
    Returns the same layout as causal_linear."""
    L = even_chunk(q.size(2), chunk)
    q, k = log_features(q, omega, False), log_features(k, omega, True)
    q = in_chunks((q - q.detach().amax(-1, keepdim=True)).exp(), L)
    N = k.size(2)
    if N % L != 0:
        k = F.pad(k, (0, 0, 0, -N % L), value=-math.inf)  # padding keys have weight 0
    k = k.reshape(q.shape)
    v = in_chunks(with_ones(v), L)
    top = k.detach().amax((2, 3))  # [B*H,C]
    keys = (k - top[:, :, None, None]).exp().transpose(2, 3)
    y = (q @ keys).tril_() @ v
    C = q.size(1)
    if C > 1:
        weights = (top[:, None, :] - top.cummax(1).values[:, :, None]).exp().tril()  # weight of chunk j in chunk i
        own = weights.diagonal(dim1=1, dim2=2)[:, :, None, None]
        y = own * y + q @ (weights.tril(-1) @ (keys @ v).flatten(2)).view(-1, C, q.size(3), v.size(3))
    return y


def gated_delta(q, k, v, log_decay, beta, chunk):
    """Gated DeltaNet (Yang 2025, "Gated delta networks", section 3.3), on silu features of length 1. Within a chunk, L
    the sums of the log decays: X = (I + B strictly_lower(A))^-1 B (V - K exp(L) S), all but S for all chunks at once."""
    B, H, N, D = q.shape
    L = even_chunk(N, chunk)
    q, k = (F.normalize(F.silu(x), dim=-1, eps=0) for x in (q, k))
    q, k, v = (in_chunks(x, L) for x in (q * D ** -0.5, k, v))
    log_decay, beta = (in_chunks(x.unsqueeze(-1), L) for x in (log_decay, beta))
    total = log_decay.cumsum(2)  # [B*H,C,L,1]
    below = torch.ones(L, L, dtype=torch.bool).tril()
    decay = (total - total.transpose(2, 3)).masked_fill(~below, -math.inf).exp()
    triangle = beta * ((k @ k.transpose(2, 3)) * decay).tril(-1)
    right = torch.cat([beta * v, beta * total.exp() * k], -1)
    solved = torch.linalg.solve_triangular(triangle, right, upper=False, unitriangular=True)
    values, keys = solved.split([v.size(-1), D], -1)
    within, queries = (q @ k.transpose(2, 3)) * decay, q * total.exp()
    last = total[:, :, -1:]
    writes, decays = (k * (last - total).exp()).transpose(2, 3), last.exp()
    state, rows = v.new_zeros(B * H, D, v.size(-1)), []
    for c in range(q.size(1)):
        x = values[:, c] - keys[:, c] @ state
        rows.append(queries[:, c] @ state + within[:, c] @ x)
        state = decays[:, c] * state + writes[:, c] @ x
    return torch.stack(rows, 1).reshape(B, H, -1, v.size(-1))[:, :, :N]


def orthogonal_omega(heads, features, D):
    """Blocks of D orthogonal directions with lengths distributed as those of normal vectors: [H,F,D]."""
    blocks = -(-features // D)
    Q, R = torch.linalg.qr(torch.randn(heads, blocks, D, D, dtype=torch.float64))
    Q = Q * R.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    lengths = torch.randn(heads, features, D, dtype=torch.float64).norm(dim=-1, keepdim=True)
    return (Q.transpose(2, 3).reshape(heads, blocks * D, D)[:, :features] * lengths).float()


class Mixer(nn.Module):
    """The attention of one layer: a whole sequence (forward) or one position (start, step)."""

    def __init__(self, kind, heads, D, chunk=0):
        super().__init__()
        self.kind, self.chunk = kind, chunk or CHUNK.get(kind, 0)
        if kind == "performer":
            self.register_buffer("omega", orthogonal_omega(heads, FEATURES, D))

    def forward(self, q, k, v):
        if self.kind == "softmax":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = causal_linear(q, k, v, self.chunk) if self.kind == "linear" else causal_performer(
            q, k, v, self.omega, self.chunk)
        B, H, N, M = v.shape
        y = y.view(B, H, -1, M + 1)[:, :, :N]  # drop the padding rows of the last chunk, which are 0 / 0
        return y[..., :-1] / y[..., -1:]

    def start(self, B, heads, length, D):
        if self.kind == "softmax":
            return [torch.zeros(B, heads, length, D) for _ in range(2)]
        size = D if self.kind == "linear" else FEATURES
        state = [torch.zeros(B * heads, size, D), torch.zeros(B * heads, size, 1)]
        return state if self.kind == "linear" else state + [torch.full((B * heads, 1, 1), -math.inf)]

    def step(self, state, position, q, k, v):
        """q, k, v [B,H,1,D]; updates the state."""
        if self.kind == "softmax":
            for cache, x in zip(state, (k, v)):
                cache[:, :, position] = x[:, :, 0]
            return F.scaled_dot_product_attention(q, *(cache[:, :, :position + 1] for cache in state))
        B, H, _, D = v.shape
        S, z = state[:2]
        if self.kind == "linear":
            q, k = elu_features(q), elu_features(k)
        else:
            q, k = log_features(q, self.omega, False), log_features(k, self.omega, True)
            scale = torch.maximum(state[2], k.amax(-1).view(-1, 1, 1))
            rescale = (state[2] - scale).exp()
            S.mul_(rescale), z.mul_(rescale), state[2].copy_(scale)
            q, k = (q - q.amax(-1, keepdim=True)).exp(), (k - scale.view(B, H, 1, 1)).exp()
        q, k = q.reshape(B * H, 1, -1), k.reshape(B * H, -1, 1)
        S.addcmul_(k, v.reshape(B * H, 1, D))
        z.add_(k)
        return ((q @ S) / (q @ z)).view(B, H, 1, D)


# ---- the model -------------------------------------------------------------------------------------------

class Block(nn.Module):
    def __init__(self, kind, p, chunk):
        super().__init__()
        dim, bias = p["dim"], p["bias"]
        self.heads = p["heads"]
        self.norm1, self.norm2 = nn.LayerNorm(dim, bias=bias), nn.LayerNorm(dim, bias=bias)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias), nn.Linear(dim, dim, bias)
        self.up, self.down = nn.Linear(dim, p["ffn"], bias), nn.Linear(p["ffn"], dim, bias)
        self.mixer = Mixer(kind, self.heads, dim // self.heads, chunk)

    def forward(self, x, mix):
        B, N, dim = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, N, 3, self.heads, dim // self.heads)
        y = mix(*qkv.permute(2, 0, 3, 1, 4).unbind(0))
        x = x + self.out(y.transpose(1, 2).reshape(B, N, dim))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Transformer(nn.Module):
    """Pre-norm, learned positions, GPT-2's initialization, as in nn/transformer.h."""

    def __init__(self, kind, p, chunk=0):
        super().__init__()
        self.p = p
        self.tokens = nn.Embedding(p["tokens"], p["dim"])
        self.positions = nn.Parameter(torch.empty(p["length"], p["dim"]))
        self.blocks = nn.ModuleList(Block(kind, p, chunk) for _ in range(p["layers"]))
        self.norm = nn.LayerNorm(p["dim"], bias=p["bias"])
        self.head = nn.Linear(p["dim"], p["vocab"], bias=p["bias"] and not p["tie"])
        if p["tie"]:
            self.head.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "down.weight")):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * p["layers"]))
            elif parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions[:ids.size(1)]
        for block in self.blocks:
            x = block(x, block.mixer)
        return self.head(self.norm(x))

    def start(self, B):
        p = self.p
        return [b.mixer.start(B, p["heads"], p["length"], p["dim"] // p["heads"]) for b in self.blocks]

    def step(self, state, position, ids):
        """ids [B] -> logits [B,vocab]; updates the state."""
        x = (self.tokens(ids) + self.positions[position]).unsqueeze(1)
        for block, own in zip(self.blocks, state):
            x = block(x, lambda q, k, v, m=block.mixer, s=own: m.step(s, position, q, k, v))
        return self.head(self.norm(x)).squeeze(1)


# ---- measurements -------------------------------------------------------------------------------------------

def memory(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))


def memory_at_start():
    """Resident bytes after loading the libraries and one tiny step: the baseline of the peak."""
    tiny = nn.Linear(8, 8)
    F.gelu(tiny(torch.randn(8, 8))).sum().backward()
    torch.optim.AdamW(tiny.parameters(), fused=True).step()
    gc.collect()
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")  # resets VmHWM
    return memory("VmRSS")


def median_seconds(work, seconds=1.0, min_count=5, warmup=3):
    for _ in range(warmup):
        work()
    times, begin = [], time.perf_counter()
    while len(times) < min_count or time.perf_counter() - begin < seconds:
        one = time.perf_counter()
        work()
        times.append(time.perf_counter() - one)
    return statistics.median(times)


def precision(o):
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=o.autocast)


def train(o):
    before = memory_at_start()
    p = PRESETS[o.preset]
    model = Transformer(o.attention, p, o.chunk)
    run = torch.compile(model, dynamic=False) if o.compile else model
    parameters = list(model.parameters())
    groups = [dict(params=[x for x in parameters if x.dim() >= 2], weight_decay=p["weight_decay"]),
              dict(params=[x for x in parameters if x.dim() < 2], weight_decay=0.0)]
    adam = torch.optim.AdamW([g for g in groups if g["params"]], lr=p["lr"], betas=(0.9, 0.99), fused=True)
    times = []
    for _ in range(o.warmup + o.steps):
        ids = torch.randint(p["vocab"], (p["batch"], p["length"] + 1))
        begin = time.perf_counter()
        with precision(o):
            loss = F.cross_entropy(run(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        adam.step()
        adam.zero_grad(set_to_none=True)
        loss = loss.item()
        times.append(time.perf_counter() - begin)
    rate = p["batch"] * p["length"] / statistics.median(times[o.warmup:])
    return dict(tokens_per_s=rate, loss=loss, peak_rss_delta_bytes=memory("VmHWM") - before)


def attention(o):
    size = (o.b, o.h, o.n, o.d)
    inputs = [torch.randn(size, requires_grad=True) for _ in range(3)]
    dy, chunk = torch.randn(size), o.chunk or CHUNK[o.kind]
    mixer = Mixer("linear", o.h, o.d, chunk)
    if o.kind == "gdn":
        log_decay, beta = F.logsigmoid(torch.randn(size[:3]) + 4), torch.randn(size[:3]).sigmoid()
        inputs += [log_decay.requires_grad_(), beta.requires_grad_()]
        mixer = lambda *x: gated_delta(*x, chunk)
    run = torch.compile(mixer, dynamic=False) if o.compile else mixer

    def both():
        for x in inputs:
            x.grad = None
        with precision(o):
            y = run(*inputs)
        y.backward(dy.to(y.dtype))

    seconds = median_seconds(both)
    operations = 14 * o.b * o.h * o.n * o.d * o.d  # of linear attention
    return dict(forward_backward_s=seconds, chunk=chunk) | (
        dict(gflops=operations / seconds / 1e9) if o.kind == "linear" else {})


@torch.inference_mode()
def sample(o):
    p = PRESETS[o.preset]
    model = Transformer(o.attention, p).eval()
    if o.autocast:
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                layer.bfloat16()
    step = torch.compile(model.step, dynamic=False) if o.compile else model.step
    tokens = min(o.tokens or p["length"], p["length"])

    def generate(count):
        state = model.start(o.batch)
        ids = torch.full((o.batch,), p["tokens"] - 1)
        for position in range(count):
            with precision(o):
                logits = step(state, torch.tensor(position), ids).float()
            ids = torch.multinomial(logits.softmax(-1), 1).squeeze(1)

    generate(min(tokens, 8))
    begin = time.perf_counter()
    generate(tokens)
    rate = o.batch * tokens / (time.perf_counter() - begin)
    return dict(tokens_per_s=rate, images_per_s=rate / p["length"])


def sgemm(o):
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    return dict(sgemm_gflops=2 * 2048**3 / median_seconds(lambda: a @ b) / 1e9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, work in dict(train=train, attention=attention, sample=sample, sgemm=sgemm).items():
        command = commands.add_parser(name)
        command.set_defaults(work=work)
        command.add_argument("--threads", type=int, default=2)
        command.add_argument("--seed", type=int, default=1)
        if name in ("train", "sample"):
            command.add_argument("--preset", choices=PRESETS, default="mnist-paper")
            command.add_argument("--attention", choices=("softmax", "linear", "performer"), default="linear")
        if name in ("train", "attention"):
            command.add_argument("--chunk", type=int, default=0, help="rows per chunk; 0: the measured best")
        if name in ("train", "attention", "sample"):
            command.add_argument("--compile", action="store_true", help="use torch.compile")
            command.add_argument("--autocast", action="store_true", help="use torch.autocast with bfloat16")
        if name == "train":
            command.add_argument("--steps", type=int, default=20)
            command.add_argument("--warmup", type=int, default=3)
        if name == "attention":
            command.add_argument("--kind", choices=("linear", "gdn"), default="linear")
            for flag, default in dict(b=1, h=8, n=4096, d=64).items():
                command.add_argument(f"--{flag}", type=int, default=default)
        if name == "sample":
            command.add_argument("--batch", type=int, default=16)
            command.add_argument("--tokens", type=int, default=0, help="positions per image; 0: all")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)
    print(json.dumps(o.work(o)))


if __name__ == "__main__":
    main()
