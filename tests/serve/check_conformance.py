#!/usr/bin/env python3
"""check_conformance.py - moire answers as Triton does, to requests of every kind, right ones and wrong ones.

Triton's answers lie beside this file, recorded from the real server; docs/serving-protocol.md has a table of the
differences that are meant, which is read here: any other difference is a fault, and so is a row that fits none.

    check_conformance.py --moire build/moire [--table]     compare; --table prints each case
    check_conformance.py --record RUN_TRITON               RUN_TRITON DIRECTORY FLAGS... runs tritonserver
"""
import argparse
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import conformance_grpc
import conformance_http
import conformance_models
import conformance_settings  # adds its cases to those of the two before
from conformance_send import ask_grpc, ask_http, compare, kept
from serve_bed import Bed

HERE = os.path.dirname(os.path.abspath(__file__))
ANSWERS = os.path.join(HERE, "triton_answers.json")
PAGE = os.path.join(HERE, "..", "..", "docs", "serving-protocol.md")
ENDED = {"status": "the server ended"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Ports:
    def port_of(self, ask):
        return self.http_port if ask is ask_http else self.grpc_port


class Triton(Ports):
    def __init__(self, command, folder):
        self.command, self.folder = command, folder
        self.start()

    def start(self):
        self.http_port, self.grpc_port = free_port(), free_port()
        self.process = subprocess.Popen(
            [self.command, self.folder, "--model-control-mode", "explicit", "--load-model", "*",
             "--http-port", str(self.http_port), "--grpc-port", str(self.grpc_port), "--metrics-port", str(free_port())],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 180
        while ask_http(self.http_port, conformance_http.READY)["status"] != 200:
            assert time.monotonic() < end and self.process.poll() is None, "Triton does not start"
            time.sleep(0.2)

    def ask(self, ask, request):
        """A request may end the server, or a model's process: the next one is asked of a fresh one."""
        answer = ask(self.port_of(ask), request)
        time.sleep(0.3 if not isinstance(answer["status"], int) and answer["status"] != "OK" else 0)
        if self.process.poll() is not None:
            self.start()
            return ENDED
        if "Stub process" in str(answer):
            self.stop()
            self.start()
        return answer

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


class Moire(Ports, Bed):
    def __init__(self, command, folder):
        super().__init__(command, folder, "--model-control-mode", "explicit", "--shared-memory",
                         conformance_settings.KEY)
        for name in conformance_models.MODELS:
            if name == "same_BYTES":
                continue  # no model that reads strings is served
            ask_http(self.http_port, {"method": "POST", "path": f"/v2/repository/models/{name}/load", "body": b"",
                                      "headers": {}})

    def ask(self, ask, request):
        answer = ask(self.port_of(ask), request)
        assert self.process.poll() is None, "moire has ended"
        return answer


def ask_all(server, match):
    answers = {}
    for ask, cases in ((ask_http, conformance_http.CASES), (ask_grpc, conformance_grpc.CASES)):
        for name, how, request in cases:
            assert name not in answers, f"two cases are called {name}"
            if not re.search(match, name):
                continue
            answer = server.ask(ask, request)
            if "Stub process" in str(answer):  # perhaps another request's doing
                answer = server.ask(ask, request)
            answers[name] = kept(how, answer)
    return answers


@contextlib.contextmanager
def asked(kind, command, match=""):
    with tempfile.TemporaryDirectory() as folder, conformance_settings.Memory():
        conformance_models.make(folder, kind is Triton)
        server = kind(command, folder)
        try:
            yield ask_all(server, match)
        finally:
            server.stop()


def meant():
    """Rows of the page's table: | `case`, ... | Triton | moire | why |.  A star in a case stands for anything."""
    rows = []
    with open(PAGE, encoding="utf-8") as f:
        for line in f:
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            if len(cells) == 4 and cells[0].startswith("`"):
                patterns = [re.escape(p).replace(r"\*", ".*") for p in re.findall(r"`([^`]*)`", cells[0])]
                rows.append({"fits": re.compile("|".join(patterns)), "line": line.strip(), "statuses": cells[1:3], "used": False})
    return rows


def is_meant(rows, name, statuses, lines):
    """A row fits the case and has both statuses, and where these are equal a word of each line."""
    for row in rows:
        words = [re.findall(r"`([^`]*)`", cell) for cell in row["statuses"]]
        if (row["fits"].fullmatch(name) and all(str(s) in w for s, w in zip(statuses, words)) and
                (statuses[0] != statuses[1] or all(any(w in line for w in words[1]) for line in lines))):
            row["used"] = True
            return True
    return False


def case_names():
    return [name for name, _, _ in conformance_http.CASES + conformance_grpc.CASES]


def check(recorded, answers, table):
    names = case_names()
    rows, counts = meant(), {"equal": 0, "meant": 0, "FAULT": 0}
    for name in names:
        lines = compare(recorded[name], answers[name]) if name in recorded else ["Triton was not asked; record"]
        kind = "equal" if not lines else "FAULT"
        if lines and name in recorded and is_meant(rows, name, (recorded[name]["status"], answers[name]["status"]), lines):
            kind = "meant"
        counts[kind] += 1
        if table or kind == "FAULT":
            print(f"{kind:6} {name}" + "".join(f"\n         {line}" for line in lines[:6]))
    stale = [r["line"] for r in rows if not r["used"]]
    for line in stale:
        print(f"FAULT  the page tells of a difference that there is not: {line}")
    print(f"{len(names)} requests: {counts['equal']} equal, {counts['meant']} different and meant, {counts['FAULT']} faults")
    return counts["FAULT"] + len(stale)


def recorded_answers():
    with open(ANSWERS, encoding="utf-8") as f:
        return json.load(f)


def keep(answers):
    lines = [f"{json.dumps(name)}: {json.dumps(answers[name])}" for name in case_names() if name in answers]
    with open(ANSWERS, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moire", default="build/moire")
    parser.add_argument("--record", metavar="RUN_TRITON")
    parser.add_argument("--match", metavar="PATTERN", default="", help="record these cases only")
    parser.add_argument("--table", action="store_true")
    o = parser.parse_args()
    if o.record:
        with asked(Triton, o.record, o.match) as answers:
            keep({**(recorded_answers() if o.match else {}), **answers})
        return 0
    recorded = recorded_answers()
    with asked(Moire, os.path.abspath(o.moire)) as answers:
        return 1 if check(recorded, answers, o.table) else 0


if __name__ == "__main__":
    sys.exit(main())
