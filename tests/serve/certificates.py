"""certificates.py - certificates for the tests of TLS, made by openssl when they run: no key lies in the repository."""
import os
import subprocess


class Authority:
    """Signs certificates into its folder; names of files are folder/NAME.pem and folder/NAME.key."""

    def __init__(self, folder, name="authority"):
        self.folder, self.name = folder, name
        self._run("req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                  "-keyout", self.key(name), "-out", self.pem(name), "-subj", f"/CN={name}", "-days", "2")

    def pem(self, name):
        return os.path.join(self.folder, name + ".pem")

    def key(self, name):
        return os.path.join(self.folder, name + ".key")

    @property
    def trusted(self):
        return self.pem(self.name)

    def _run(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True)

    def sign(self, name, use="serverAuth", days=2, rsa=False):
        """A certificate for localhost; days < 0: it has expired.  Returns (certificate, key)."""
        kind = ("rsa:2048",) if rsa else ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        request, extensions = self.pem(name) + ".csr", self.pem(name) + ".ext"
        self._run("req", "-nodes", "-newkey", *kind, "-keyout", self.key(name), "-out", request, "-subj", f"/CN={name}")
        with open(extensions, "w", encoding="utf-8") as f:
            f.write(f"subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage={use}\n")
        self._run("x509", "-req", "-in", request, "-CA", self.trusted, "-CAkey", self.key(self.name),
                  "-days", str(days), "-extfile", extensions, "-out", self.pem(name))
        return self.pem(name), self.key(name)
