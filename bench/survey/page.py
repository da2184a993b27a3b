#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py SURVEY.json >PAGE.md - the result of `moire bench survey` as a page."""
import json
import sys


def number(value, form):
    return form.format(value) if value else ""


def ratio(row):
    return row.get("compiled") or row.get("builtin") or 0


def layer(row):
    worst = row.get("worst_layer")
    if not worst:
        return row.get("why", "")
    return (f"{worst['text']} {worst['output']}, {worst['kernel']}: {100 * worst['share']:.0f} % of the time, "
            f"{100 * worst['roofline_share']:.0f} % of the roofline")


def table(rows):
    print("| network | batch | threads | answers | built in, ms | compiled, ms | best peer | its ms | built in | compiled |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for r in rows:
        peer = r.get("best_peer", "")
        print(f"| {r['model']} | {r['batch']} | {r['threads']} | {r.get('answers', '')} | "
              f"{number(r.get('builtin_ms'), '{:.2f}')} | {number(r.get('compiled_ms'), '{:.2f}')} | {peer} | "
              f"{number(r.get(peer + '_ms'), '{:.2f}')} | {number(r.get('builtin'), '{:.2f}')} | "
              f"{number(r.get('compiled'), '{:.2f}')} |")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1]) as f:
        d = json.load(f)
    rows, about = d["results"], d["experiment"]
    wrong = [r["model"] for r in rows if r.get("answers") == "wrong"]
    failed = [r["model"] for r in rows if r.get("why")]
    print("# A survey of networks\n")
    print("For whoever asks how moire does on a network that nobody tuned it for: networks of many families, exported by "
          "their\nown packages, their answers compared with PyTorch's, their time with that of the best peer. "
          "Ratios above 1: moire is\nfaster. `make survey` makes this page.\n")
    print(f"{len(rows)} rows; wrong: {', '.join(wrong) or 'none'}; not run: {', '.join(failed) or 'none'}.\n")
    for s in d.get("summary", []):
        kind = "Built-in" if s["kernels"] == "builtin" else "Compiled"
        print(f"* {kind} kernels, batch {s['batch']}, threads {s['threads']}: {s['geomean']:.2f} times as fast as the best "
              f"peer\n  (geometric mean of {s['models']}), {s['least']:.2f} at least, {s['below_1']} below 1.")
    print("\n## The slowest, and where their time goes\n")
    for r in sorted((r for r in rows if ratio(r)), key=ratio)[:10]:
        print(f"* {r['model']}, batch {r['batch']}, threads {r['threads']}: {ratio(r):.2f}. {layer(r)}")
    print("\n## All\n")
    table(rows)
    peers = ", ".join(about.get("peers", []))
    print(f"\n**Experiment.** {about['date'][:10]}, {about['cpu']}, {about['cores']} cores, {about['compiler']}, moire "
          f"{about['moire']} (commit\n{about['commit']}), {peers}.\n`{about['command']}`")


if __name__ == "__main__":
    main()
