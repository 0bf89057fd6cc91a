#!/usr/bin/env python3
"""PyTorch's softmax attention on a CUDA device, causal, in bfloat16: the peer of `linea bench attention`.

Milliseconds of scaled_dot_product_attention, forward and with its backward pass; the median of repeated calls.
"""
import argparse
import statistics

import torch
import torch.nn.functional as F


def median_ms(work, seconds=0.3):
    for _ in range(3):
        work()
    times, total = [], 0.0
    while total < 1e3 * seconds:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
        total += times[-1]
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", default="2048,4096,16384")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--key-size", type=int, default=128)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, scaled_dot_product_attention, causal, bfloat16")
    print(f"{'N':>7} {'forward ms':>11} {'fwd+bwd ms':>11}")
    for length in map(int, options.lengths.split(",")):
        shape = (options.batch, options.heads, length, options.key_size)
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        seed = torch.randn(shape, device="cuda", dtype=torch.bfloat16)

        def attend():
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        def forward():
            with torch.no_grad():
                attend()

        def both():
            attend().backward(seed)
            q.grad = k.grad = v.grad = None

        print(f"{length:>7} {median_ms(forward):>11.3f} {median_ms(both):>11.3f}")
        del q, k, v, seed


if __name__ == "__main__":
    main()
