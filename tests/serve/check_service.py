#!/usr/bin/env python3
"""check_service.py - `moire serve` as a service of systemd: what it tells its supervisor, how closed the unit is, and
that compiled kernels run where no memory may be both written and run.

systemd itself does not run here: the unit is judged by systemd-analyze (left out, which is said, where that is
missing), and MemoryDenyWriteExecute is tried as the kernel's own rule (PR_SET_MDWE, Linux 6.3).

    check_service.py --moire build/moire
"""
import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import tritonclient.http as client

from serve_bed import images, make_repository, near, run

UNIT = os.path.join(os.path.dirname(__file__), "..", "..", "debian", "moire.moire-serve.service")
MOST_EXPOSED = 2.0
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1


def serve(moire, folder, *flags, **options):
    return subprocess.Popen([moire, "serve", "--model-repository", folder, "--http-port", "0", "--grpc-port", "0",
                             "--metrics-port", "-1", "--json", *flags], stdout=subprocess.PIPE, text=True, **options)


def port_of(process):
    return json.loads(process.stdout.readline())["http_port"]


def the_supervisor_is_told(moire, folder, reference):
    """READY once it listens, RELOADING and READY for SIGHUP, STOPPING; over a path and an abstract name."""
    with tempfile.TemporaryDirectory() as place:
        for name in (os.path.join(place, "notify"), f"@moire-test-{os.getpid()}"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
                s.bind(name.replace("@", "\0", 1) if name[0] == "@" else name)
                s.settimeout(60)
                p = serve(moire, folder, env={**os.environ, "NOTIFY_SOCKET": name}, stderr=subprocess.DEVNULL)
                port_of(p)
                assert s.recv(200) == b"READY=1"
                p.send_signal(signal.SIGHUP)
                assert re.fullmatch(rb"RELOADING=1\nMONOTONIC_USEC=\d+", s.recv(200))
                assert s.recv(200) == b"READY=1"
                p.send_signal(signal.SIGTERM)
                assert s.recv(200) == b"STOPPING=1"
                assert p.wait(40) == 0
    for name in ("", "relative", "/nonexistent/socket", "/" + "x" * 300):  # it runs all the same
        p = serve(moire, folder, env={**os.environ, "NOTIFY_SOCKET": name}, stderr=subprocess.DEVNULL)
        port_of(p)
        p.send_signal(signal.SIGTERM)
        assert p.wait(40) == 0, name


def compiled_kernels_run_where_memory_is_written_or_run(moire, folder, reference):
    """From a store that nobody may write to."""
    with tempfile.TemporaryDirectory() as place:
        store = os.path.join(place, "store")
        subprocess.run([moire, "compile", os.path.join(folder, "lenet.onnx"), "--store", store, "--budget", "5"],
                       check=True, capture_output=True, timeout=300)
        for where, folders, _ in os.walk(store):
            os.chmod(where, 0o555)

        def forbid():
            if ctypes.CDLL(None).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0):
                os._exit(77)

        p = serve(moire, folder, "--store", store, preexec_fn=forbid, stderr=subprocess.DEVNULL)
        try:
            line = p.stdout.readline()
            if not line and p.wait(10) == 77:
                print("left out: this kernel has no PR_SET_MDWE")
                return
            c = client.InferenceServerClient(f"127.0.0.1:{json.loads(line)['http_port']}")
            end = time.monotonic() + 60
            while not c.is_server_ready():
                assert time.monotonic() < end
                time.sleep(0.01)
            x = images(1, 4)
            t = client.InferInput("input", list(x.shape), "FP32")
            t.set_data_from_numpy(x)
            assert near(c.infer("lenet", [t]).as_numpy("output"), reference(x))
            with open(f"/proc/{p.pid}/maps", encoding="utf-8") as maps:
                mapped = [m for m in maps if " r-xp " in m and (store in m or "memfd" in m)]
            assert mapped, "no compiled kernel is mapped"
        finally:
            p.send_signal(signal.SIGTERM)
            code = p.wait(40)
            for where, folders, _ in os.walk(store):
                os.chmod(where, 0o755)
        assert code == 0, code


def the_unit_is_closed(moire, folder, reference):
    if not shutil.which("systemd-analyze"):
        print("left out: systemd-analyze is not installed")
        return
    with tempfile.TemporaryDirectory() as place:
        unit = shutil.copy(UNIT, os.path.join(place, "moire-serve.service"))
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
                              capture_output=True, text=True, timeout=60)
    figure = re.search(r"Overall exposure level for moire-serve.service: ([0-9.]+)", done.stdout)
    assert figure and float(figure[1]) <= MOST_EXPOSED, done.stdout[-300:] + done.stderr
    print(f"        exposure {figure[1]} of 10")


def the_unit_gives_flags_that_there_are(moire, folder, reference):
    with open(UNIT, encoding="utf-8") as unit:
        words = re.search(r"^ExecStart=(.*)$", unit.read(), re.M)[1].split()
    known = subprocess.run([moire, "help", "serve"], capture_output=True, text=True, check=True).stdout
    assert words[1] == "serve" and all(w in known for w in words if w.startswith("--")), words


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(parser.parse_args().moire)
    with tempfile.TemporaryDirectory() as folder:
        reference = make_repository(moire, folder)
        good = [run(c.__name__, lambda c=c: c(moire, folder, reference))
                for c in (the_supervisor_is_told, compiled_kernels_run_where_memory_is_written_or_run,
                          the_unit_is_closed, the_unit_gives_flags_that_there_are)]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
