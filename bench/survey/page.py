#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py SURVEY.json >PAGE.md - the result of `moire bench survey` as a page."""
import json
import sys
import textwrap


def say(text, indent=""):
    print(textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))


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
    columns = [("network", lambda r: r["model"]),
               ("batch", lambda r: str(r["batch"])),
               ("threads", lambda r: str(r["threads"])),
               ("answers", lambda r: r.get("answers", "")),
               ("built in, ms", lambda r: number(r.get("builtin_ms"), "{:.2f}")),
               ("compiled, ms", lambda r: number(r.get("compiled_ms"), "{:.2f}")),
               ("peer", lambda r: r.get("best_peer", "")),
               ("its ms", lambda r: number(r.get(r.get("best_peer", "") + "_ms"), "{:.2f}")),
               ("built in", lambda r: number(r.get("builtin"), "{:.2f}")),
               ("compiled", lambda r: number(r.get("compiled"), "{:.2f}")),
               ("floor", lambda r: number(r.get("floor_ms"), "{:.2f}"))]
    columns = [c for c in columns if any(c[1](r) for r in rows)]
    print("| " + " | ".join(name for name, _ in columns) + " |\n" + "|---" * len(columns) + "|")
    for r in rows:
        print("| " + " | ".join(value(r) for _, value in columns) + " |")


def room(rows):
    """What is left to anybody: networks whose best peer is near the least time that their products need."""
    near = [(r[r["best_peer"] + "_ms"] / r["floor_ms"], r) for r in rows if r.get("floor_ms") and r.get("best_peer")]
    near = sorted(((most, r) for most, r in near if ratio(r) < 1.25 and most < 1.5), key=lambda pair: pair[0])
    if not near:
        return
    print("\n## What the machine leaves\n")
    say("The floor of a network is the least time of its layers on this machine: of each, its multiply-adds as the "
        "model writes them at the measured ceiling, or its bytes at the bandwidth of the level that holds them, and of "
        "weights that exceed the last cache, what that cannot keep from memory. Beyond best peer / floor only fewer "
        "products (Winograd, Strassen) or fewer bytes lead. Of the networks below 1.25:")
    print()
    print("| network | batch | threads | time of the best peer / floor | moire | floor / time of moire |\n" +
          "|---" * 6 + "|")
    for most, r in near:
        print(f"| {r['model']} | {r['batch']} | {r['threads']} | {most:.2f} | {ratio(r):.2f} times as fast | "
              f"{ratio(r) / most:.2f} |")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1]) as f:
        d = json.load(f)
    rows, about = d["results"], d["experiment"]
    wrong = [r["model"] for r in rows if r.get("answers") == "wrong"]
    failed = [r["model"] for r in rows if r.get("why")]
    print("# A survey of networks\n")
    say("For whoever asks how moire does on a network that nobody tuned it for: networks of many families as their "
        "packages export them, their answers compared with PyTorch's (ONNX Runtime's where a package has models, not "
        "programs), their time with that of the best peer. Ratios above 1: moire is faster. `make survey` makes this "
        "page.")
    print()
    say(f"{len(rows)} rows; wrong: {', '.join(wrong) or 'none'}; not run: {', '.join(failed) or 'none'}.")
    print()
    for s in d.get("summary", []):
        kind = "Built-in" if s["kernels"] == "builtin" else "Compiled"
        say(f"* {kind} kernels, batch {s['batch']}, threads {s['threads']}: {s['geomean']:.2f} times as fast as the "
            f"best peer (geometric mean of {s['models']}), {s['least']:.2f} at least, {s['below_1']} below 1.", "  ")
    print("\n## The slowest, and where their time goes\n")
    for r in sorted((r for r in rows if ratio(r)), key=ratio)[:10]:
        say(f"* {r['model']}, batch {r['batch']}, threads {r['threads']}: {ratio(r):.2f}. {layer(r)}.", "  ")
    room(rows)
    print("\n## All\n")
    table(rows)
    print()
    say(f"**Experiment.** {about['date'][:10]}, {about['cpu']}, {about['cores']} cores, {about['compiler']}, moire "
        f"{about['moire']} (commit {about['commit'].rstrip('+')}), {', '.join(about.get('peers', []))}; weights of seed 1.")
    lines = textwrap.wrap(about["command"], 112, break_long_words=False, break_on_hyphens=False)
    print("\n```\n" + " \\\n    ".join(lines) + "\n```")


if __name__ == "__main__":
    main()
