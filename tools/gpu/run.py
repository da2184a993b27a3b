"""run - one run of the acceptance: rows of the table, commands with a limit, the time that is left, files.

Every step has a planned share of the budget; what earlier steps left over goes to later ones, and what later steps were
promised is not touched.  A step that fails or is cut short says so in a row and the rest goes on.  Finished steps are kept
in OUT/state.json: the same command takes up where the last run stopped."""
import glob
import json
import os
import shutil
import signal
import subprocess
import time

MOST_BYTES = 16 << 20
LIBRARIES = {"cuDNN": ["libcudnn.so.9"], "cuBLASLt": ["libcublasLt.so.13", "libcublasLt.so.12"],
             "NVRTC": ["libnvrtc.so.13", "libnvrtc.so.12"]}


def load(text):
    """A document of moire; None when there is none."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def wheel_folders(python):
    """Folders where PyTorch's wheels, by that Python, and the toolkit keep CUDA's libraries."""
    try:
        told = subprocess.run([python, "-c", "import sys; print(*sys.path, sep='\\n')"], stdout=subprocess.PIPE, text=True, timeout=30)
        roots = [p for p in told.stdout.split("\n") if p.endswith("-packages")]
    except (OSError, subprocess.TimeoutExpired):
        roots = []
    found = [f for root in roots for f in sorted(glob.glob(os.path.join(root, "nvidia", "*", "lib")))]
    return found + [os.path.join(root, "torch", "lib") for root in roots] + sorted(glob.glob("/usr/local/cuda*/lib64"))


def find_libraries(python, first=()):
    """({name: path}, folders for LD_LIBRARY_PATH): the first folder that has each; those of the environment come first."""
    wheels = wheel_folders(python)
    folders = list(first) + [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f] + wheels
    found, used = {}, []
    for name, files in LIBRARIES.items():
        path = next((os.path.join(d, f) for f in files for d in folders if os.path.exists(os.path.join(d, f))), None)
        if path:
            found[name] = path
            used.append(os.path.dirname(path))
    beside = [f for f in wheels if os.path.isdir(f) and used]  # what those libraries load in turn
    return found, list(dict.fromkeys(list(first) + used + beside))


class Run:
    def __init__(self, args, root):
        self.args, self.root = args, root
        self.begin = time.monotonic()
        self.end = self.begin + args.budget
        self.step_name, self.step_end, self.cut = "", self.end, False
        self.state = {"steps": {}}
        self.log = None
        os.makedirs(args.out, exist_ok=True)
        if not args.fresh and os.path.exists(self.path("state.json")):
            self.state = load(open(self.path("state.json"), encoding="utf-8").read()) or self.state
        self.data = self.state.setdefault("data", {})
        self.libraries, folders = find_libraries(args.python, [args.libraries] if args.libraries else [])
        self.env = dict(os.environ)
        if folders:
            self.env["LD_LIBRARY_PATH"] = ":".join(folders + [os.environ.get("LD_LIBRARY_PATH", "")]).strip(":")

    def path(self, *names):
        return os.path.join(self.args.out, *names)

    def scenario(self, name):
        """Path of a scenario: a file, or the name of one of ours."""
        if os.path.exists(name):
            return name
        for folder in (("bench", "scenarios"), ("share", "moire", "scenarios")):
            path = os.path.join(self.root, *folder, name + ".json")
            if os.path.exists(path):
                return path
        raise FileNotFoundError(f"scenario {name}")

    def beside(self, name):
        """A file of the build, or of a bundle."""
        folder = os.path.dirname(self.args.moire)
        return next((p for p in (os.path.join(folder, name), os.path.join(folder, "..", "lib", name)) if os.path.exists(p)), None)

    def model_file(self, name):
        """Path of the model's file once it is written; else None."""
        path = os.path.join(self.args.zoo, self.data.get("files", {}).get(name, name + ".onnx"))
        return path if os.path.exists(path) and os.path.getsize(path) else None

    def models_flag(self):
        return ["--models", self.args.zoo]

    def on_device(self):
        """The GPU, and the folder where its compiled programs are kept from one command to the next."""
        return ["--device", self.args.device, "--device-cache", self.args.cache]

    def left(self):
        """Seconds that the step still has."""
        return min(self.end, self.step_end) - time.monotonic()

    # --- rows -----------------------------------------------------------------------------------------------
    def row(self, what, value, goal="", met=None):
        row = {"step": self.step_name, "what": what, "result": value, "goal": goal, "met": met}
        self.state["steps"][self.step_name]["rows"].append(row)
        print(f"{time.monotonic() - self.begin:5.0f} s  {self.step_name}: {what}: {value}{' (' + goal + ')' if goal else ''}",
              flush=True)

    def miss(self, what, why):
        """Something was not measured: the step is not finished."""
        self.cut = True
        self.row(what, why, met=False)

    # --- commands -------------------------------------------------------------------------------------------
    def start(self, words, env=None):
        self.log.write("$ " + " ".join(words) + "\n")
        self.log.flush()
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self.log, text=True, env={**self.env, **(env or {})},
                                start_new_session=True)

    def finish(self, process, limit):
        """(stdout, in time): a process that is late is interrupted, for then moire writes what it has."""
        try:
            return process.communicate(timeout=max(0.1, limit))[0], True
        except subprocess.TimeoutExpired:
            pass
        for sign in (signal.SIGINT, signal.SIGKILL):
            try:
                os.killpg(process.pid, sign)
            except ProcessLookupError:
                pass
            try:
                return process.communicate(timeout=5)[0], False
            except subprocess.TimeoutExpired:
                continue
        return "", False

    def command(self, words, limit=None, fine=(0, 3, 5), what=None, env=None):
        """stdout; None with a row when there is no time for it, it cannot start, or fails.  One that is cut short gives what
        it printed, and a row."""
        what = what or " ".join(os.path.basename(w) for w in words[:3])
        limit = self.left() if limit is None else min(limit, self.left())
        if limit < 1:
            return self.miss(what, "left out: the time is over")
        try:
            process = self.start(words, env)
        except OSError as e:
            return self.miss(what, str(e))
        out, in_time = self.finish(process, limit)
        if not in_time:
            self.miss(what, f"cut short after {limit:.0f} s")
            return out
        if process.returncode not in fine:
            return self.miss(what, f"exit code {process.returncode}, see log.txt")
        return out

    def moire(self, *words, **more):
        return self.command([self.args.moire, *words], **more)

    # --- steps ----------------------------------------------------------------------------------------------
    def step(self, name, function, planned, later):
        """Runs a step, or says that it is done already.  `later`: seconds that the steps after it were promised."""
        if self.state["steps"].get(name, {}).get("done"):
            return print(f"{name}: done by an earlier run, taken over")
        self.step_name, self.cut = name, False
        self.state["steps"][name] = {"rows": []}
        now = time.monotonic()
        self.step_end = now + max(min(planned, 5), self.end - now - later)
        with open(self.path("log.txt"), "a", encoding="utf-8") as self.log:
            try:
                function(self)
            except Exception as e:  # a step that fails is a row, and the next one begins
                self.miss(name, f"failed: {type(e).__name__}: {e}")
        step = self.state["steps"][name]
        step.update(done=not self.cut, planned_s=round(planned, 1), took_s=round(time.monotonic() - now, 1))
        self.write()

    def rows(self):
        return [row for step in self.state["steps"].values() for row in step["rows"]]

    def write(self):
        note = "**On a stand-in for the driver: no GPU was there; times mean nothing.**\n\n" if self.args.stand_in else ""
        with open(self.path("acceptance.md"), "w", encoding="utf-8") as f:
            print(f"# moire on a GPU\n\n{note}`{self.state.get('command', '')}`\n\n| step | what | result | goal | met |\n"
                  "|---|---|---|---|---|", file=f)
            for row in self.rows():
                met = {True: "yes", False: "NO", None: ""}[row["met"]] + (" (stand-in)" if self.args.stand_in else "")
                cells = [row["step"], row["what"], row["result"], row["goal"], met]
                print("| " + " | ".join(str(c).replace("|", "/").replace("\n", " ") for c in cells) + " |", file=f)
            print("\n| step | planned s | took s | finished |\n|---|---|---|---|", file=f)
            for name, step in self.state["steps"].items():
                done = "yes" if step.get("done") else "no"
                print(f"| {name} | {step.get('planned_s', '')} | {step.get('took_s', '')} | {done} |", file=f)
        with open(self.path("state.json"), "w", encoding="utf-8") as f:
            json.dump(self.state, f, indent=1)
        trim(self.args.out)


def trim(folder):
    """Drops the largest files, but the table and what a later run needs, until all fit; models and scratch never stay."""
    shutil.rmtree(os.path.join(folder, "scratch"), ignore_errors=True)
    sizes = {p: os.path.getsize(p) for d, _, names in os.walk(folder) for p in (os.path.join(d, n) for n in names)}
    keep = ("acceptance.md", "state.json")
    for path in sorted(sizes, key=sizes.get, reverse=True):
        if sum(sizes.values()) <= MOST_BYTES:
            return
        if os.path.basename(path) not in keep and not path.endswith(".csv"):
            os.unlink(path)
            del sizes[path]
