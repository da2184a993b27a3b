#!/usr/bin/env python3
"""check_page.py - what `moire serve` shows: metrics, the live page, its data, `moire top`, ids in the log.

Metrics are read by prometheus_client and by promtool (Debian's package prometheus), the page by Chromium; where one of
the latter two is missing its cases are left out, which is said.  Prints a line for each case and one with the sum.

    check_page.py --moire build/moire
"""
import argparse
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import grpc
import tritonclient.grpc as grpc_client
import tritonclient.http as client
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.grpc import service_pb2, service_pb2_grpc

import browser
from serve_bed import Bed, images, make_repository, run

CASES = []
HOPELESS = """name: "hopeless"
parameters { key: "qos_ms" value: { string_value: "0.001" } }
"""


def case(function):
    CASES.append(function)
    return function


def ask(bed, model="lenet", n=1, **options):
    x = images(1, 1)
    t = client.InferInput("input", list(x.shape), "FP32")
    t.set_data_from_numpy(x)
    for _ in range(n):
        bed.http.infer(model, [t], **options)


def fetch(bed, path, headers=None):
    with urllib.request.urlopen(urllib.request.Request(bed.url + path, headers=headers or {})) as answer:
        return answer.read().decode(), answer.headers


def metrics(bed):
    """{name: {labels: value}}, labels as sorted pairs."""
    text, _ = fetch(bed, "/metrics")
    return {family.name: {(s.name, tuple(sorted(s.labels.items()))): s.value for s in family.samples}
            for family in text_string_to_metric_families(text)}


def value(found, family, name=None, **labels):
    return found[family][(name or family, tuple(sorted(labels.items())))]


def live(bed, since=0):
    return json.loads(fetch(bed, f"/v2/moire/live?since={since}")[0])


def model(document, name):
    return next(m for m in document["models"] if m["name"] == name)


# --- metrics
@case
def metrics_count_what_was_asked(bed):
    before = metrics(bed)
    ask(bed, "lenet", 20)
    after = metrics(bed)
    of = {"model": "lenet", "version": "1"}

    def grew(family, name, **labels):
        return value(after, family, name, **of, **labels) - value(before, family, name, **of, **labels)
    assert grew("moire_requests", "moire_requests_total", outcome="ok") == 20
    assert grew("moire_requests_due", "moire_requests_due_total") == 20
    assert grew("moire_requests_in_time", "moire_requests_in_time_total") == 20
    for family in "moire_request_seconds", "moire_queue_seconds", "moire_compute_seconds":
        assert grew(family, family + "_count") == 20
        assert grew(family, family + "_bucket", le="+Inf") == 20
        buckets = [v for (n, _), v in after[family].items() if n.endswith("_bucket")]
        assert buckets and all(v >= 0 for v in buckets)


@case
def a_tenant_below_its_target_is_told(bed):
    ask(bed, "hopeless", 12)
    found = metrics(bed)
    of = {"model": "hopeless", "version": "1"}
    assert value(found, "moire_attainment_ratio", **of) == 0
    assert value(found, "moire_below_target", **of) == 1
    assert value(found, "moire_below_target", model="lenet", version="1") == 0
    m = model(live(bed), "hopeless")
    assert m["below"] and m["minute"]["due"] >= 12 and m["minute"]["in_time"] == 0, m


@case
def what_a_client_does_wrong_is_not_due(bed):
    before = metrics(bed)
    try:
        fetch_bad = urllib.request.Request(bed.url + "/v2/models/lenet/infer",
                                           b'{"inputs":[{"name":"no","shape":[1],"datatype":"FP32","data":[1]}]}')
        urllib.request.urlopen(fetch_bad)
        raise AssertionError("answered")
    except urllib.error.HTTPError as e:
        assert e.code == 400
    after = metrics(bed)
    of = {"model": "lenet", "version": "1"}
    assert value(after, "moire_requests", "moire_requests_total", outcome="einval", **of) >= 1
    assert value(after, "moire_requests_due", "moire_requests_due_total", **of) == value(
        before, "moire_requests_due", "moire_requests_due_total", **of)


@case
def promtool_finds_no_fault(bed):
    if not shutil.which("promtool"):
        print("note    promtool is not installed (Debian's package prometheus): its case is left out")
        return
    text, headers = fetch(bed, "/metrics")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


@case
def tritons_names_are_there_where_asked_for(bed):
    assert not any(name.startswith("nv_") for name in metrics(bed))
    with tempfile.TemporaryDirectory() as folder:
        make_repository(bed.moire, folder)
        with Bed(bed.moire, folder, "--metrics-nv") as other:
            other.wait()
            ask(other, "lenet", 7)
            found = metrics(other)
            of = {"model": "lenet", "version": "1"}
            for name in "nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count":
                assert value(found, name, name + "_total", **of) == 7, name  # the parser calls it so
            for name in "request", "queue", "compute_input", "compute_infer", "compute_output":
                name = f"nv_inference_{name}_duration_us"
                assert value(found, name, name + "_total", **of) >= 0, name
            name = "nv_inference_request_failure"
            assert value(found, name, name + "_total", reason="REJECTED", **of) == 0
            assert "\nnv_inference_request_success{model=" in fetch(other, "/metrics")[0]
            assert value(found, "nv_inference_pending_request_count", **of) == 0
            assert value(found, "nv_cpu_memory_total_bytes") > value(found, "nv_cpu_memory_used_bytes") > 0


# --- data
@case
def the_timeline_has_what_ran(bed):
    first = live(bed)["timeline"]
    time.sleep(0.02)
    ask(bed, "lenet", 50)
    time.sleep(0.02)
    document = live(bed, first["to"])
    t, names = document["timeline"], [m["name"] for m in document["models"]]
    assert t["from"] == first["to"] and t["to"] > t["from"], t
    assert len(t["cores"]) == document["server"]["cores"]
    runs = [r for core in t["cores"] for r in core]
    assert any(names[r[2]] == "lenet" for r in runs), runs
    for core in t["cores"]:
        at = 0
        for start, n, _, eighths in core:
            assert start >= at and n > 0 and start + n <= t["to"] - t["from"] and 1 <= eighths <= 8, core
            at = start + n


@case
def data_are_asked_for_in_order(bed):
    assert "timeline" not in live(bed, "none")
    assert live(bed, 10**15)["timeline"]["cores"][0] == []
    for wrong in "x", "-5", "1x":
        assert bed.status(f"/v2/moire/live?since={wrong}") == 400, wrong
    assert bed.status("/v2/moire/live", b"{}") == 405


# --- the page
@case
def the_page_loads_nothing_from_elsewhere(bed):
    text, headers = fetch(bed, "/")
    nonce = text.split('<script nonce="')[1].split('"')[0]
    policy = headers["Content-Security-Policy"]
    assert len(nonce) == 32 and f"script-src 'nonce-{nonce}'" in policy and "default-src 'none'" in policy, policy
    assert "@" + "nonce@" not in text and nonce not in fetch(bed, "/")[0]
    assert "http://" not in text.replace("http://www.w3.org/", "") and "https://" not in text


def with_browser(check):
    def checked(bed):
        if not browser.find():
            print("note    Chromium is not installed (Debian's package chromium): a case is left out")
            return
        with browser.Browser() as page:
            page.open(bed.url + "/")
            page.wait("document.querySelectorAll('#rows tr').length > 0")
            check(bed, page)
            assert not page.complaints, page.complaints
    checked.__name__ = check.__name__
    return case(checked)


TEXT = "document.getElementById('verdict').textContent"


@with_browser
def the_first_line_names_who_is_below(bed, page):
    ask(bed, "hopeless", 5)
    page.wait(TEXT + ".startsWith('Below its target: hopeless')")
    assert page.value("document.querySelector('#rows tr').className") == "below"
    assert page.value("document.querySelector('#rows tr .t').textContent") == "hopeless"
    assert page.value("document.title").startswith("⚠ moire: Below its target: hopeless")


@with_browser
def numbers_follow(bed, page):
    before = model(live(bed), "lenet")["ended"]["ok"]
    ask(bed, "lenet", 30)
    page.value("[...document.querySelectorAll('#rows button')].find(b => b.dataset.key === 'lenet/1').click()")
    page.wait(f"document.querySelector('tr.more').textContent.includes('{before + 30} answered')")
    assert page.value("[...document.querySelectorAll('#legend li')].some(l => l.textContent.startsWith('lenet'))")
    assert page.value("document.querySelectorAll('svg.hist rect').length") > 0


@with_browser
def keys_and_names_do(bed, page):
    for _ in range(8):  # skip link, pause, then the tenants
        page.press("Tab")
        if page.value("document.activeElement.dataset.key !== undefined"):
            break
    key = page.value("document.activeElement.dataset.key")
    assert key, "no tenant gets the focus"
    page.press("Enter")
    page.wait("document.querySelector('tr.more') !== null")
    assert page.value("document.activeElement.dataset.key") == key
    assert page.value("document.activeElement.getAttribute('aria-expanded')") == "true"
    unnamed = "[...document.querySelectorAll('button,a,canvas,svg[role=img]')].filter(e => " \
              "!(e.textContent.trim() || e.getAttribute('aria-label'))).length"
    assert page.value(unnamed) == 0


@with_browser
def a_narrow_screen_has_all(bed, page):
    page.resize(360, 740)
    page.wait("document.documentElement.clientWidth === 360")
    page.wait("document.documentElement.scrollWidth <= 360")


@with_browser
def a_server_that_is_gone_is_told(bed, page):
    with tempfile.TemporaryDirectory() as folder:
        make_repository(bed.moire, folder)
        other = Bed(bed.moire, folder)
        other.wait()
        page.open(other.url + "/")
        page.wait("document.querySelectorAll('#rows tr').length === 2")
        other.stop()
        page.wait(TEXT + ".startsWith('No answer since')")
        page.complaints.clear()  # of the connection that was refused


# --- moire top
def top(bed, *words):
    return subprocess.run([bed.moire, "top", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)


@case
def top_prints_once_where_there_is_no_terminal(bed):
    ask(bed, "hopeless", 5)
    done = top(bed, bed.url)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0].startswith("below its target: hopeless (0.0 % in time)"), done
    assert any(line.startswith("lenet ") for line in lines) and "\x1b" not in done.stdout
    assert lines[[line.startswith("tenant") for line in lines].index(True) + 1].startswith("hopeless")
    document = json.loads(top(bed, bed.url, "--json").stdout)
    assert model(document, "hopeless")["below"] and "timeline" not in document


@case
def top_says_what_is_wrong(bed):
    for url, code, says in (("ftp://x", 2, "only http"), ("http://127.0.0.1:1", 4, "no server answers"),
                            ("http://[::1", 2, "no address"), ("unix:/nonexistent", 4, "no server answers"),
                            (f"127.0.0.1:{bed.grpc_port}", 4, "")):
        done = top(bed, url)
        assert done.returncode in (code, 3) and says in done.stderr, (url, done)


@case
def top_refreshes_until_q(bed):
    child, terminal = pty.fork()
    if not child:
        os.execv(bed.moire, [bed.moire, "top", bed.url])
    seen = b""
    try:
        while seen.count(b"\x1b[H") < 3:  # two refreshes
            assert select.select([terminal], [], [], 10)[0], seen[-400:]
            seen += os.read(terminal, 65536)
        os.write(terminal, b"q")
        while select.select([terminal], [], [], 10)[0]:
            try:
                more = os.read(terminal, 65536)
            except OSError:  # it has gone
                break
            if not more:
                break
            seen += more
    finally:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0 and b"\x1b[?1049l" in seen and b"lenet" in seen, (code, seen[-400:])


# --- ids and the log
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@case
def ids_of_clients_come_back(bed):
    given = {"traceparent": PARENT, "X-Request-Id": "r-1"}
    _, headers = fetch(bed, "/v2/health/live", given)
    assert headers["traceparent"] == PARENT and headers["X-Request-Id"] == "r-1"
    _, headers = fetch(bed, "/v2/health/live", {"traceparent": PARENT.upper(), "X-Request-Id": "a b"})
    assert headers["traceparent"] is None and headers["X-Request-Id"] is None
    with grpc.insecure_channel(f"127.0.0.1:{bed.grpc_port}") as channel:
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ServerLive
        _, done = call.with_call(service_pb2.ServerLiveRequest(),
                                 metadata=[("traceparent", PARENT), ("x-request-id", "r-2")])
        back = dict(done.initial_metadata())
        assert back["traceparent"] == PARENT and back["x-request-id"] == "r-2", back


@case
def each_request_has_a_line_with_its_ids(bed):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        make_repository(bed.moire, folder)
        other = Bed(bed.moire, folder, "--json-log", "--log-verbose", "1", log=log)
        other.wait()
        ask(other, "lenet", request_id="mine-7", headers={"traceparent": PARENT})
        other.status("/v2/no?x=%22")
        x = grpc_client.InferInput("input", [1, 1, 32, 32], "FP32")
        x.set_data_from_numpy(images(1, 1))
        with grpc_client.InferenceServerClient(f"127.0.0.1:{other.grpc_port}") as stub:
            stub.infer("lenet", [x], request_id="mine-8", headers={"traceparent": PARENT})
        assert other.stop() == 0
        log.seek(0)
        lines = [json.loads(line) for line in log]
        for ids, status in ("mine-7", 200), ("mine-8", 0):
            line = next(one for one in lines if one.get("request_id") == ids)
            assert line["trace_id"] == TRACE and line["span_id"] == SPAN and line["status"] == status, line
            assert line["model"] == "lenet" and line["bytes_in"] > 4096, line
            assert line["duration_ms"] >= line["compute_ms"] > 0, line
        assert any(one["message"] == "GET /v2/no 404" for one in lines), lines


# --- recordings
@case
def a_recorded_run_is_replayed(bed):
    with tempfile.TemporaryDirectory() as folder:
        make_repository(bed.moire, folder)
        trace = os.path.join(folder, "run.trace")
        other = Bed(bed.moire, folder, "--record", trace)
        other.wait()
        ask(other, "lenet", 40)
        assert other.stop() == 0
        done = subprocess.run([bed.moire, "whatif", trace], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "lenet" in done.stdout and "40" in done.stdout, done.stdout


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(p.parse_args().moire)
    with tempfile.TemporaryDirectory() as folder:
        make_repository(moire, folder)
        os.makedirs(os.path.join(folder, "hopeless", "1"))
        os.symlink(os.path.join(folder, "lenet.onnx"), os.path.join(folder, "hopeless", "1", "model.onnx"))
        with open(os.path.join(folder, "hopeless", "config.pbtxt"), "w", encoding="utf-8") as f:
            f.write(HOPELESS)
        with Bed(moire, folder) as bed:
            bed.moire = moire
            bed.wait()
            done = [run(c.__name__.replace("_", " "), lambda c=c: c(bed)) for c in CASES]
    print(f"{sum(done)} of {len(done)} cases of what is shown")
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
