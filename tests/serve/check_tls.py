#!/usr/bin/env python3
"""check_tls.py - `moire serve` by TLS: stock clients, whom it turns away, and clients that do not end their handshake.

Answers are compared with ONNX Runtime's.  Prints a line for each case and one with the sum.

    check_tls.py --moire build/moire
"""
import argparse
import concurrent.futures
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import grpc
import tritonclient.grpc as client_grpc
import tritonclient.http as client_http

from certificates import Authority
from serve_bed import Bed, images, make_repository, near, run

CASES = []


def case(function):
    CASES.append(function)
    return function


class TlsBed(Bed):
    """A server by TLS, and what a client needs to trust it and, with `mutual`, to be let in."""

    def __init__(self, moire, folder, authority, mutual=False, rsa=False):
        self.authority, self.mutual = authority, mutual
        self.certificate, self.key = authority.sign("server", rsa=rsa)
        self.own = authority.sign("client", "clientAuth") if mutual else (None, None)
        flags = ["--tls-cert", self.certificate, "--tls-key", self.key]
        if mutual:
            flags += ["--tls-client-ca", authority.trusted]
        super().__init__(moire, folder, *flags)
        self.http = self.http_client()

    def client(self):
        """(certificate, key) of a client that is let in; Nones where none is asked for."""
        return self.own

    def http_client(self):
        certificate, key = self.client()
        return client_http.InferenceServerClient(
            f"localhost:{self.http_port}", ssl=True, concurrency=4,
            ssl_options={"ca_certs": self.authority.trusted,
                         **({"certfile": certificate, "keyfile": key} if certificate else {})})

    def grpc_client(self):
        certificate, key = self.client()
        return client_grpc.InferenceServerClient(
            f"localhost:{self.grpc_port}", ssl=True, root_certificates=self.authority.trusted,
            certificate_chain=certificate, private_key=key)

    def context(self, certificate=None, key=None, authority=None):
        c = ssl.create_default_context(cafile=(authority or self.authority).trusted)
        if certificate:
            c.load_cert_chain(certificate, key)
        return c

    def connect(self, port, context):
        """A connection with its handshake done, and a byte or more from the server: by TLS 1.3 a client learns
        only then that it was turned away."""
        s = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=20), server_hostname="localhost")
        if port == self.grpc_port:
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
        else:
            s.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if not s.recv(1):
            raise ConnectionError("closed")
        return s

    def ports(self):
        return self.http_port, self.grpc_port


def tensor(kind, x):
    t = kind.InferInput("input", list(x.shape), "FP32")
    t.set_data_from_numpy(x)
    return t


def answers(bed, reference, seed=1):
    x = images(3, seed)
    for kind, c in ((client_http, bed.http_client()), (client_grpc, bed.grpc_client())):
        assert near(c.infer("lenet", [tensor(kind, x)]).as_numpy("output"), reference(x))


def turned_away(call, what=""):
    try:
        call()
    except (OSError, ssl.SSLError):
        return
    raise AssertionError(f"it was let in: {what}")


@case
def stock_clients(bed, reference):
    for seed in range(5):
        answers(bed, reference, seed)


@case
def large_tensors(bed, reference):
    x = images(1500, 3)  # 6 MB there: many records, and windows that open on the way
    for kind, c in ((client_http, bed.http_client()), (client_grpc, bed.grpc_client())):
        assert near(c.infer("lenet", [tensor(kind, x)]).as_numpy("output"), reference(x))


@case
def many_at_once(bed, reference):
    xs = [images(1 + i % 3, 100 + i) for i in range(30)]
    right = [reference(x) for x in xs]

    def walk(k):
        c = bed.grpc_client() if k % 2 else bed.http_client()
        kind = client_grpc if k % 2 else client_http
        for i in range(100):
            at = (i * 7 + k * 13) % len(xs)
            assert near(c.infer("lenet", [tensor(kind, xs[at])]).as_numpy("output"), right[at])

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(walk, range(6)))


@case
def curl_and_openssl(bed, reference):
    certificate, key = bed.client()
    own = ["--cert", certificate, "--key", key] if bed.mutual else []
    url = f"https://localhost:{bed.http_port}/v2/health/ready"
    done = subprocess.run(["curl", "-sS", "--cacert", bed.authority.trusted, *own, "-w", "%{http_code}", url],
                          capture_output=True, text=True, check=True)
    assert done.stdout == "200", done
    own = ["-cert", certificate, "-key", key] if bed.mutual else []
    for version, good in (("-tls1_3", True), ("-tls1_2", True), ("-tls1_1", False)):
        for port in bed.ports():
            done = subprocess.run(["openssl", "s_client", "-connect", f"localhost:{port}", "-CAfile",
                                   bed.authority.trusted, "-verify_return_error", "-alpn", "h2", version,
                                   "-cipher", "ALL:@SECLEVEL=0", *own],
                                  input="", capture_output=True, text=True, errors="replace", timeout=30)
            assert (done.returncode == 0) == good, (version, port, done)
            if good:
                assert ("ALPN protocol: h2" in done.stdout) == (port == bed.grpc_port), done.stdout
    done = subprocess.run(["openssl", "s_client", "-connect", f"localhost:{bed.grpc_port}", "-tls1_2", "-cipher",
                           "AES128-GCM-SHA256:AES256-SHA", *own], input="", capture_output=True, timeout=30)
    assert done.returncode != 0, "a key exchange without forward secrecy"


@case
def a_client_that_trusts_another_authority(bed, reference):
    with tempfile.TemporaryDirectory() as folder:
        other = Authority(folder, "other")
        for port in bed.ports():
            turned_away(lambda port=port: bed.connect(port, bed.context(*bed.client(), authority=other)))
    answers(bed, reference)


@case
def plain_clients(bed, reference):
    for port, what in ((bed.http_port, b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"),
                       (bed.grpc_port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(what)
            try:
                got = b""
                while piece := s.recv(65536):
                    got += piece
            except ConnectionResetError:
                pass
            assert not got.startswith((b"HTTP", b"\0\0")), got  # an alert of TLS at most
    with grpc.insecure_channel(f"localhost:{bed.grpc_port}") as channel:
        try:
            channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=5)
            raise AssertionError("a plain client was answered")
        except grpc.RpcError as e:
            assert e.code().name in ("UNAVAILABLE", "DEADLINE_EXCEEDED"), e
    answers(bed, reference)


@case
def half_a_handshake(bed, reference):
    """Clients that begin and never end keep nobody from an answer, and are cut off."""
    hello = bytes.fromhex("16030100c8010000c40303")
    for port in bed.ports():
        crowd = []
        for i in range(200):
            s = socket.create_connection(("127.0.0.1", port), timeout=20)
            s.sendall(hello[:i % len(hello)])
            crowd.append(s)
        answers(bed, reference)
        if port == bed.grpc_port:
            for s in crowd[:3]:
                assert s.recv(100) == b"", "it was not cut off"
        for s in crowd:
            s.close()
    answers(bed, reference)


@case
def a_thousand_handshakes(bed, reference):
    for port in bed.ports():
        context = bed.context(*bed.client())

        def one(_, port=port, context=context):
            bed.connect(port, context).close()

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(500)))
    answers(bed, reference)


@case
def certificates_change_under_load(bed, reference):
    """SIGHUP: who is connected stays, who comes meets the new certificate; a broken file changes nothing."""
    stays = bed.grpc_client()
    x = images(1, 8)
    assert near(stays.infer("lenet", [tensor(client_grpc, x)]).as_numpy("output"), reference(x))

    def serial(port):
        with bed.connect(port, bed.context(*bed.client())) as s:
            return s.getpeercert()["serialNumber"]

    before = [serial(p) for p in bed.ports()]
    shutil.copy(bed.certificate, bed.certificate + ".good")
    with open(bed.certificate, "w", encoding="utf-8") as f:
        f.write("no certificate\n")
    bed.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert [serial(p) for p in bed.ports()] == before
    shutil.copy(bed.key, bed.key + ".good")
    bed.authority.sign("server")
    bed.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 20
    while any(serial(p) == b for p, b in zip(bed.ports(), before)):
        assert time.monotonic() < end, "the certificate did not change"
    assert near(stays.infer("lenet", [tensor(client_grpc, x)]).as_numpy("output"), reference(x))
    answers(bed, reference)


MUTUAL = []


def mutual(function):
    MUTUAL.append(function)
    return function


@mutual
def clients_that_are_not_let_in(bed, reference):
    """Without a certificate, with one of another authority, expired, or made for servers."""
    with tempfile.TemporaryDirectory() as folder:
        other = Authority(folder, "other")
        strangers = [(None, None), other.sign("stranger", "clientAuth"),
                     bed.authority.sign("expired", "clientAuth", days=-1), bed.authority.sign("wrong", "serverAuth")]
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for port in bed.ports():
                for certificate, key in strangers:
                    context = bed.context(certificate, key)
                    context.minimum_version = context.maximum_version = version
                    turned_away(lambda: bed.connect(port, context), (version, port == bed.grpc_port, certificate))
                bed.connect(port, bed.context(*bed.client())).close()
    answers(bed, reference)


def bad_files(moire, folder):
    """The server does not start, and says which file is at fault."""
    with tempfile.TemporaryDirectory() as place:
        a = Authority(place)
        certificate, key = a.sign("one")
        _, other_key = a.sign("two")
        empty = os.path.join(place, "empty.pem")
        with open(empty, "w", encoding="utf-8"):
            pass
        for flags, what in ((["--tls-cert", certificate], "--tls-key"),
                            (["--tls-cert", certificate, "--tls-key", "/nonexistent"], "--tls-key"),
                            (["--tls-cert", certificate, "--tls-key", other_key], "two.key"),
                            (["--tls-cert", empty, "--tls-key", key], "empty.pem"),
                            (["--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", empty], "--tls-client-ca"),
                            (["--host", "0.0.0.0"], "--insecure"),
                            (["--host", "0.0.0.0", "--tls-cert", certificate, "--tls-key", key], "--insecure")):
            done = subprocess.run([moire, "serve", "--model-repository", folder, "--http-port", "0", "--grpc-port", "0",
                                   "--metrics-port", "-1", *flags], capture_output=True, text=True, timeout=60)
            assert done.returncode not in (0, -6, -11) and what in done.stderr, (flags, done)


def ends_at_once(bed):
    """Half a handshake does not hold up the end."""
    with socket.create_connection(("127.0.0.1", bed.grpc_port)), socket.create_connection(("127.0.0.1", bed.http_port)):
        began = time.monotonic()
        assert bed.stop() == 0
        assert time.monotonic() - began < 20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(parser.parse_args().moire)
    good = []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as keys:
        reference = make_repository(moire, folder)
        for is_mutual in (False, True):
            bed = TlsBed(moire, folder, Authority(keys), is_mutual, rsa=is_mutual)
            try:
                bed.wait()
                for c in CASES + (MUTUAL if is_mutual else []):
                    good.append(run(c.__name__ + (", clients with certificates" if is_mutual else ""),
                                    lambda c=c: c(bed, reference)))
                good.append(run("ends_at_once", lambda: ends_at_once(bed)))
            finally:
                bed.stop()
        good.append(run("bad_files", lambda: bad_files(moire, folder)))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
