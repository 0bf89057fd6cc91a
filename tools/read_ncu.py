#!/usr/bin/env python3
"""A table of what Nsight Compute measured: tools/read_ncu.py FILE, written by ncu --csv --page raw."""
import csv
import sys

COLUMNS = [  # metric, head
    ("gpu__time_duration.sum", "us"),
    ("smsp__issue_active.avg.pct_of_peak_sustained_active", "issue %"),
    ("sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active", "tensor %"),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", "warps %"),
    ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "memory %"),
    ("launch__registers_per_thread", "registers"),
    ("launch__occupancy_limit_shared_mem", "blocks/SM by shared"),
    ("launch__grid_size", "blocks"),
]
MICROSECONDS = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3}
STALL = "smsp__average_warps_issue_stalled_"


def number(text):
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def main():
    lines = [line for line in open(sys.argv[1], encoding="utf-8", errors="replace") if line.startswith('"')]
    rows = list(csv.DictReader(lines))
    if len(rows) < 2:
        sys.exit(f"{sys.argv[1]}: no kernel was measured: " + open(sys.argv[1], errors="replace").read()[-400:])
    units, rows = rows[0], rows[1:]
    for row in rows:
        cells = []
        for metric, head in COLUMNS:
            value = number(row.get(metric, ""))
            if value is None:
                continue
            if head == "us":
                value *= MICROSECONDS[units[metric]]
            cells.append(f"{head} {value:.5g}")
        stalls = {name[len(STALL):].split("_per_")[0].split(".")[0]: number(row[name]) for name in row
                  if name and name.startswith(STALL) and "_not_issued" not in name and number(row[name]) is not None}
        worst = sorted(stalls, key=stalls.get, reverse=True)[:3]
        cells.append("stalls " + ", ".join(f"{name} {stalls[name]:.1f}" for name in worst))
        print((row.get("Kernel Name") or "")[:60], "|", " | ".join(cells))


if __name__ == "__main__":
    main()
