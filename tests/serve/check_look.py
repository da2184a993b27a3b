#!/usr/bin/env python3
"""check_look.py - `moire top` and the live page at a server with TLS and tokens.

The page's cases need Chromium and are left out, which is said, where that is missing.

    check_look.py --moire build/moire
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import browser
from certificates import Authority
from serve_bed import Bed, make_repository, run

READER, SCRAPER = "reader-0123456789", "scraper-0123456789"
CASES = []


def case(function):
    CASES.append(function)
    return function


class Place:
    """A folder with a repository, a file of tokens, files that hold one token each, and certificates."""

    def __init__(self, moire, folder):
        self.moire, self.folder = moire, folder
        self.models = os.path.join(folder, "models")
        os.mkdir(self.models)
        make_repository(moire, self.models)
        self.tokens = self.write("tokens.json", json.dumps({"tokens": [
            {"name": "reader", "token": READER, "models": ["*"]},
            {"name": "scraper", "token": SCRAPER, "metrics": True}]}))
        self.reader, self.scraper = self.write("reader", READER + "\n"), self.write("scraper", SCRAPER)
        self.authority, self.other = Authority(folder), Authority(folder, "other")
        self.server = self.authority.sign("server")
        self.client = self.authority.sign("client", use="clientAuth")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            os.chmod(path, 0o600)
            f.write(text)
        return path

    def serving(self, *flags, tls=True):
        if tls:
            flags += ("--tls-cert", self.server[0], "--tls-key", self.server[1])
        return Bed(self.moire, self.models, *flags)

    def top(self, url, *flags):
        return subprocess.run([self.moire, "top", url, *flags], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)

    def shows(self, url, *flags):
        done = self.top(url, "--json", *flags)
        assert done.returncode == 0 and "models" in json.loads(done.stdout), done

    def refuses(self, says, url, *flags, code=4):
        done = self.top(url, *flags)
        assert done.returncode == code and says in done.stderr and not done.stdout, done


# --- moire top
@case
def top_shows_its_token(place):
    with place.serving("--token-file", place.tokens, tls=False) as bed:
        place.shows(bed.url, "--token", place.scraper)
        place.refuses("it wants a token; give --token FILE", bed.url)
        place.refuses("has no right to metrics", bed.url, "--token", place.reader)
        place.refuses("does not know the token", bed.url, "--token", place.write("wrong", "x" * 20))
        place.refuses("--token", bed.url, "--token", "/nonexistent")
        for text in "", "\n", "a\x01b", "x" * 5000:
            place.refuses("has no token", bed.url, "--token", place.write("none", text), code=3)


@case
def top_speaks_tls(place):
    with place.serving("--token-file", place.tokens) as bed:
        here, trusted = f"127.0.0.1:{bed.http_port}", ("--tls-ca", place.authority.trusted)
        for url in f"https://{here}", here, f"https://localhost:{bed.http_port}/":
            place.shows(url, *trusted, "--token", place.scraper)
        place.refuses("it wants a token", f"https://{here}", *trusted)
        place.refuses("no connection by TLS", f"https://{here}", "--token", place.scraper)  # who signed it?
        place.refuses("no connection by TLS", f"https://{here}", "--tls-ca", place.other.trusted)
        place.refuses("no connection by TLS", f"https://127.1:{bed.http_port}", *trusted)  # not the name it has
        place.refuses("--tls-ca", f"https://{here}", "--tls-ca", place.tokens)
        place.refuses("--tls-ca is for https://", f"http://{here}", *trusted, code=2)
        assert place.top(f"http://{here}").returncode in (3, 4)


@case
def top_shows_its_certificate(place):
    with place.serving("--tls-client-ca", place.authority.trusted) as bed:
        url, trusted = f"https://127.0.0.1:{bed.http_port}", ("--tls-ca", place.authority.trusted)
        place.shows(url, *trusted, "--tls-cert", place.client[0], "--tls-key", place.client[1])
        assert place.top(url, *trusted).returncode in (3, 4)
        place.refuses("--tls-cert", url, *trusted, "--tls-cert", place.client[0], "--tls-key", place.server[1])
        place.refuses("go together", url, *trusted, "--tls-cert", place.client[0], code=2)


@case
def top_finds_a_server_of_plain_http_where_tls_is_asked_for(place):
    with place.serving(tls=False) as bed:
        place.refuses("no connection by TLS", f"https://127.0.0.1:{bed.http_port}")


# --- the page
@case
def the_page_itself_is_open_and_its_data_are_not(place):
    with place.serving("--token-file", place.tokens, tls=False) as bed:
        with urllib.request.urlopen(bed.url + "/") as answer:
            text = answer.read().decode()
        assert 'type="password"' in text and "lenet" not in text
        for headers, status in (({}, 401), ({"Authorization": f"Bearer {READER}"}, 403)):
            for path in "/v2/moire/live", "/metrics":
                try:
                    urllib.request.urlopen(urllib.request.Request(bed.url + path, headers=headers))
                    raise AssertionError(f"{path} is open")
                except urllib.error.HTTPError as e:
                    assert e.code == status, (path, e.code)


TEXT = "document.getElementById('verdict')?.textContent"
SHUT = "document.getElementById('door').hidden"


def enter(page, token):
    page.value(f"document.getElementById('token').value = {json.dumps(token)}")
    page.value("document.querySelector('#door button').click()")


@case
def the_page_asks_for_a_token(place):
    if not browser.find():
        print("note    Chromium is not installed (Debian's package chromium): a case is left out")
        return
    with place.serving("--token-file", place.tokens, tls=False) as bed, browser.Browser() as page:
        page.open(bed.url + "/")
        page.wait(TEXT + " === 'The server wants a token'")
        assert not page.value(SHUT) and page.value("document.activeElement.id") == "token"
        enter(page, "unknown-0123456789")
        page.wait(TEXT + " === 'The server does not know this token'")
        enter(page, READER)
        page.wait(TEXT + " === 'This token has no right to metrics'")
        enter(page, SCRAPER)
        page.wait("document.querySelectorAll('#rows tr').length > 0")
        assert page.value(SHUT) and page.value("document.getElementById('token').value") == ""
        assert SCRAPER not in page.value("document.documentElement.outerHTML + location.href + document.cookie")
        assert page.value("localStorage.length + sessionStorage.length") == 0
        assert page.complaints and all("40" in c and "Failed to load" in c for c in page.complaints), page.complaints


@case
def the_page_asks_for_none_where_none_is_wanted(place):
    if not browser.find():
        return
    with place.serving(tls=False) as bed, browser.Browser() as page:
        page.open(bed.url + "/")
        page.wait("document.querySelectorAll('#rows tr').length > 0")
        assert page.value(SHUT) and not page.complaints, page.complaints


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(p.parse_args().moire)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(moire, folder)
        done = [run(c.__name__.replace("_", " "), lambda c=c: c(place)) for c in CASES]
    print(f"{sum(done)} of {len(done)} cases of who may look")
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
