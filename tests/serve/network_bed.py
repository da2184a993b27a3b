"""network_bed.py - a network of several machines inside this process's own namespaces, whose links can be cut.

The process leaves its network and its view of the file system for new ones (`enter`), in which it is root, whoever
started it; so nothing of the machine changes, and the kernel removes all of it with the last process.  There it is a
switch with an address of its own, at which clients are; HAProxy and each node have a namespace with one link to it:

    clients, switch 10.77.0.254 --+-- lb 10.77.0.100
                                  +-- n0 10.77.0.1
                                  +-- n1 10.77.0.2 ...

A link is cut at the switch, so the two ends hear nothing from each other and are not told why.  Needs Debian's
iproute2, and a system that lets namespaces be made.
"""
import ctypes
import os
import subprocess

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
SUBNET, SWITCH = "10.77.0", "switch"


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {(done.stdout + done.stderr).strip()}")


def unshare():
    """New namespaces for this process, which must have one thread."""
    user, group = os.geteuid(), os.getegid()
    flags = CLONE_NEWNS | CLONE_NEWNET | (CLONE_NEWUSER if user else 0)
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(flags):
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as f:
                f.write(text)


def enter():
    """Into namespaces of our own, with a switch; None, or why that cannot be."""
    try:
        unshare()
        run("mount", "--make-rprivate", "/")
        run("mount", "-t", "tmpfs", "none", "/run")  # where `ip netns` keeps names
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", SWITCH, "type", "bridge")
        run("ip", "address", "add", f"{SUBNET}.254/24", "dev", SWITCH)
        run("ip", "link", "set", SWITCH, "up")
    except OSError as why:
        return f"no namespaces here ({why})"
    return None


class Network:
    """Places for haproxy_bed.Bed: `front` of HAProxy and `nodes`, addresses with ports."""

    def __init__(self, n_nodes=3):
        self.front = (f"{SUBNET}.100", 8000)
        self.nodes = [(f"{SUBNET}.{i + 1}", 8001) for i in range(n_nodes)]
        self.made = []
        for name, (address, _) in [("lb", self.front)] + [(f"n{i}", at) for i, at in enumerate(self.nodes)]:
            self.join(name, address)

    def join(self, name, address):
        run("ip", "netns", "add", name)
        self.made.append(name)
        run("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", f"to-{name}", "master", SWITCH, "up")
        run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", name, "link", "set", device, "up")

    def words(self, name):
        """What a command begins with to run at `name`."""
        return ["ip", "netns", "exec", name]

    def cut(self, name):
        run("ip", "link", "set", f"to-{name}", "down")

    def mend(self, name):
        run("ip", "link", "set", f"to-{name}", "up")

    def close(self):
        for name in self.made:
            run("ip", "link", "delete", f"to-{name}")  # the namespace's end would do that, but some time later
            run("ip", "netns", "delete", name)
