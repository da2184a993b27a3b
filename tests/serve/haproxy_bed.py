"""haproxy_bed.py - HAProxy in front of several `moire serve`, all as `moire scale haproxy` writes them, and clients that
keep a record of every query.

They are on loopback, each at a port of its own, or each in a namespace of its own (network_bed.py).  Used by
check_haproxy.py and bench/haproxy-restart.
"""
import collections
import csv
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

STEP = 1000  # of a node the agent's port is its port and so much


def haproxy():
    """Where HAProxy is; None: nowhere."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/sbin")


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(n):
    """Ports below those that the system gives out, so that they are free for a restart, too."""
    found, draw = [], random.Random()
    while len(found) < n:
        port = draw.randrange(12000, 30000)
        if port not in found and is_free(port) and is_free(port + STEP):
            found.append(port)
    return found


class Loopback:
    """Where HAProxy (`front`) and the nodes are: addresses with ports."""

    def __init__(self, n_nodes=3):
        self.front, *self.nodes = [("127.0.0.1", port) for port in free_ports(n_nodes + 1)]

    def words(self, name):
        """What a command begins with to run at `name`: nothing, there is but one place."""
        return []


def plan_of(nodes, models):
    """nodes: addresses with ports; models: {name: (file, qos_ms)}; every node has all of them."""
    return {
        "plan": 1, "qps": 100, "routing": "outstanding",
        "models": [{"name": name, "file": file, "qos_ms": qos, "qps": 100, "replicas": len(nodes), "attainment": 1}
                   for name, (file, qos) in models.items()],
        "nodes": [{"name": f"n{i}", "address": host, "port": port, "cores": 1, "memory_mb": 1024,
                   "models": [{"name": name, "qps": 10} for name in models]} for i, (host, port) in enumerate(nodes)]}


class Node:
    """One `moire serve`, which may be ended and started again."""

    def __init__(self, moire, folder, name, words, *flags):
        self.moire, self.name, self.words, self.flags = moire, name, words, flags
        self.config = os.path.join(folder, "nodes", f"{name}.json")
        self.log_path = os.path.join(folder, f"{name}.log")
        with open(self.config, encoding="utf-8") as f:
            document = json.load(f)
        self.at = document["host"], document["http_port"]
        self.process = None

    def start(self):
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*self.words, self.moire, "serve", "--config", self.config, "--threads", "1", "--json", "--json-log",
                 "--log-verbose", "1", "--insecure", *self.flags], stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout.readline(), f"{self.name} did not start: {self.log()[-500:]}"

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(120)
        self.process.stdout.close()
        return code

    def restart(self):
        assert self.stop() == 0, f"{self.name}: {self.log()[-500:]}"
        self.start()

    def answered(self):
        """Ids of the queries that it answered 200."""
        lines = [json.loads(line) for line in self.log().splitlines() if '"request_id"' in line]
        return [line["request_id"] for line in lines if line["status"] == 200]


class Bed:
    """In a `with`: HAProxy, which is asked `at` an address and port, and its nodes behind it."""

    def __init__(self, moire, folder, models, places=None):
        """models: as plan_of has them; places: Loopback or network_bed.Network."""
        self.folder, self.places = folder, places or Loopback()
        self.at = self.places.front
        plan = os.path.join(folder, "plan.json")
        with open(plan, "w", encoding="utf-8") as f:
            json.dump(plan_of(self.places.nodes, models), f)
        subprocess.run([moire, "scale", "haproxy", plan, "-o", folder, "--listen", "{}:{}".format(*self.at),
                        "--agent-step", str(STEP)], check=True, stdout=subprocess.DEVNULL)
        self.config = os.path.join(folder, "haproxy.cfg")
        names = [f"n{i}" for i in range(len(self.places.nodes))]
        self.nodes = [Node(moire, folder, name, self.places.words(name)) for name in names]
        self.process = None

    def checked(self):
        """What `haproxy -c` says; asserts that it is content, without a warning."""
        done = subprocess.run([haproxy(), "-c", "-f", self.config], capture_output=True, text=True)
        said = done.stdout + done.stderr
        assert done.returncode == 0 and "WARNING" not in said, said
        return said

    def __enter__(self):
        for node in self.nodes:
            node.start()
        self.control = os.path.join(self.folder, "control")
        with open(self.config, encoding="utf-8") as f:
            text = f.read()
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(text.replace("global\n", f"global\n    stats socket {self.control} mode 600 level user\n", 1))
        with open(os.path.join(self.folder, "haproxy.log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*self.places.words("lb"), haproxy(), "-db", "-f", self.config], stdout=log, stderr=log)
        return self

    def __exit__(self, *_):
        for process in [self.process] + [n.process for n in self.nodes]:
            if process and process.poll() is None:
                process.kill()
                process.wait()

    def get(self, path, node=None):
        """The status that HAProxy, or a node, answers; 0: none."""
        c = http.client.HTTPConnection(*(node or self).at, timeout=30)
        try:
            c.request("GET", path)
            answer = c.getresponse()
            answer.read()
            return answer.status
        except OSError:
            return 0
        finally:
            c.close()

    def seen(self, model):
        """What HAProxy thinks of the model's nodes: {name: {column of `show stat`: text}}."""
        said = b""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.control)
            s.sendall(b"show stat\n")
            while piece := s.recv(65536):
                said += piece
        rows = csv.DictReader(said.decode().lstrip("# ").splitlines())
        return {r["svname"]: r for r in rows if r["pxname"] == f"model.{model}" and r["svname"] != "BACKEND"}

    def until(self, holds, what, seconds=60):
        end = time.monotonic() + seconds
        while not holds():
            seen = {name: row["status"] for name, row in self.seen("lenet").items()}
            assert time.monotonic() < end, f"not {what} in {seconds} s: {seen}"
            time.sleep(0.02)

    def wait(self, model, seconds=60):
        """Until HAProxy and every node say that the model is ready."""
        end = time.monotonic() + seconds
        for who in [*self.nodes, self]:
            while self.get(f"/v2/models/{model}/ready", who) != 200:
                assert time.monotonic() < end, f"{who.at} is not ready"
                time.sleep(0.02)


Record = collections.namedtuple("Record", "id model status begun took answer")


class Load:
    """Clients that ask one question after the other, each with an id, until they are told to stop."""

    def __init__(self, at, bodies, clients=4, pause=0.0):
        """at: address and port; bodies: {model: JSON, or what makes it of an id}; pause: seconds between an answer and
        the next question."""
        self.at, self.bodies, self.pause = at, bodies, pause
        self.ends, self.records, self.lock = threading.Event(), [], threading.Lock()
        self.threads = [threading.Thread(target=self.ask, args=(i,)) for i in range(clients)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        for t in self.threads:
            t.join()

    def count(self):
        with self.lock:
            return len(self.records)

    def asked_since(self, moment):
        """The clients that have an answer to what they asked after that moment: nothing older waits at them."""
        with self.lock:
            return {r.id.partition("-")[0] for r in self.records if r.begun > moment}

    def until(self, n, seconds=60):
        """Waits for n further answers."""
        have, end = self.count(), time.monotonic() + seconds
        while self.count() < have + n:
            assert time.monotonic() < end, f"{self.count() - have} of {n} answers in {seconds} s"
            time.sleep(0.01)

    def ask(self, me):
        connection, names, n = None, sorted(self.bodies), 0
        while not self.ends.is_set():
            model, name = names[(n + me) % len(names)], f"q{me}-{n}"
            n += 1
            body = self.bodies[model]
            body = body(name) if callable(body) else body
            begun = time.monotonic()
            try:
                connection = connection or http.client.HTTPConnection(*self.at, timeout=60)
                connection.request("POST", f"/v2/models/{model}/infer", body,
                                   {"X-Request-Id": name, "Content-Type": "application/json"})
                answer = connection.getresponse()
                status, text = answer.status, answer.read()
                if answer.will_close:
                    connection.close()
            except (OSError, http.client.HTTPException) as why:
                status, text = 0, repr(why).encode()
                connection.close()
                connection = None
            record = Record(name, model, status, begun, time.monotonic() - begun, text)
            with self.lock:
                self.records.append(record)
            if self.pause:
                time.sleep(self.pause)


def infer_body(n=1, seed=3):
    """A question to LeNet, whose answer shows by which numbers it was asked."""
    draw = random.Random(seed)
    data = [round(draw.random(), 3) for _ in range(n * 1024)]
    return json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [n, 1, 32, 32], "data": data}]})
