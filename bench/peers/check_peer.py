#!/usr/bin/env python3
"""Checks the peers against the quadratic definition in double: chunked and recurrent forms, and gradients.

    check_peer.py [RANK1]      RANK1: the program compiled from rank1_attention.cpp

Prints a JSON object of errors, each relative to the largest element of its tensor. Fails if one is too large.
"""
import json
import subprocess
import sys
import tempfile

import torch
from torch import nn

from peer_torch import PRESETS, Mixer, Transformer, elu_features, gated_delta, log_features


def quadratic(q, k, v, omega=None):
    """The definition, in the precision of q."""
    if omega is None:
        a = elu_features(q) @ elu_features(k).transpose(2, 3)
    else:
        q, k = log_features(q, omega, False), log_features(k, omega, True)
        a = (q.unsqueeze(3) + k.unsqueeze(2)).logsumexp(-1).exp()
    a = a.tril()
    return a @ v / a.sum(-1, keepdim=True)


def gated_delta_by_steps(q, k, v, log_decay, beta):
    """S_t = a_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T, y_t = S_t^T q_t"""
    q, k = (nn.functional.normalize(nn.functional.silu(x), dim=-1, eps=0).unsqueeze(-1) for x in (q, k))
    state, rows = v.new_zeros(*v.shape[:2], q.size(3), v.size(-1)), []
    for t in range(v.size(2)):
        state = log_decay[:, :, t, None, None].exp() * state
        x = beta[:, :, t, None, None] * (v[:, :, t, None] - k[:, :, t].transpose(2, 3) @ state)
        state = state + k[:, :, t] @ x
        rows.append(q[:, :, t].transpose(2, 3) @ state * q.size(3) ** -0.5)
    return torch.cat(rows, 2)


def error(got, expected):
    """The largest error over the tensors, each relative to its largest element."""
    return max(((g - e).abs().max() / e.abs().max()).item() for g, e in zip(got, expected))


def with_gradients(attend, inputs, dy):
    inputs = [x.detach().requires_grad_() for x in inputs]
    y = attend(*inputs)
    return [y, *torch.autograd.grad(y, inputs, dy)]


def check_rank1(program, inputs, dy):
    """Runs the C++ peer on the same inputs: it reads q k v dy and writes y dq dk dv as raw floats."""
    B, H, N, D = inputs[0].shape
    with tempfile.NamedTemporaryFile() as given, tempfile.NamedTemporaryFile() as taken:
        given.write(torch.stack([*inputs, dy]).float().numpy().tobytes())
        given.flush()
        subprocess.run([program, *map(str, (B, H, N, D)), "--in", given.name, "--dump", taken.name], check=True,
                       stdout=subprocess.DEVNULL)
        got = torch.frombuffer(bytearray(taken.read()), dtype=torch.float32)
    return list(got.view(4, B, H, N, D).double())


def check(rank1):
    result = {}
    normal = lambda *size: torch.randn(*size, dtype=torch.float64)
    for N in (20, 96, 101):  # one chunk; chunks of 24; a last chunk that is not full
        inputs, dy, omega = [normal(2, 3, N, 16) for _ in range(3)], normal(2, 3, N, 16), normal(3, 40, 16)
        for kind, more in (("linear", ()), ("performer", (omega,))):
            mixer = Mixer(kind, 3, 16, 24)
            mixer.omega = omega
            expected = with_gradients(lambda *x: quadratic(*x, *more), inputs, dy)
            result[f"{kind} N={N}"] = error(with_gradients(mixer, inputs, dy), expected)
            if rank1 and kind == "linear":
                result[f"rank1 N={N}"] = error(check_rank1(rank1, inputs, dy), expected)
        gates = [normal(2, 3, N).sigmoid().log(), normal(2, 3, N).sigmoid()]
        expected = with_gradients(gated_delta_by_steps, inputs + gates, dy)
        result[f"gdn N={N}"] = error(with_gradients(lambda *x: gated_delta(*x, 24), inputs + gates, dy), expected)
    p = dict(PRESETS["nanogpt"], length=101, dim=64)
    for kind in ("softmax", "linear", "performer"):
        model = Transformer(kind, p, 24).double()
        for block in model.blocks:  # weights large enough for attention to matter
            nn.init.normal_(block.qkv.weight, std=0.3)
        ids = torch.randint(p["vocab"], (2, p["length"]))
        logits = model(ids)
        missing = [n for n, g in zip(dict(model.named_parameters()),
                                     torch.autograd.grad(logits.square().sum(), list(model.parameters())))
                   if not g.abs().max() > 0]
        assert not missing, f"{kind}: no gradient for {missing}"
        torch.set_default_dtype(torch.float64)
        with torch.inference_mode():
            state = model.start(2)
            steps = [model.step(state, i, ids[:, i]) for i in range(p["length"])]
        torch.set_default_dtype(torch.float32)
        result[f"{kind} recurrent"] = error([torch.stack(steps, 1)], [logits])
    for name, value in result.items():
        limit = 1e-4 if name.startswith("rank1") else 1e-10
        assert value < limit, f"{name}: error {value} is not below {limit}"
    return result


if __name__ == "__main__":
    torch.manual_seed(1)
    print(json.dumps(check(sys.argv[1] if len(sys.argv) > 1 else None)))
