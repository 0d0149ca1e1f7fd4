"""Three people share a notebook for a quarter of an hour, by commands only; then nothing may be missing.

`python -m benchmarks.afternoon [MINUTES] [RUNS]`; 15 and 60 by default. Two of three clones of a bare remote record
trainings, failures and killed recorders, write and rename notes, accept fixes, move and delete runs, and commit code
on several branches. Both sync after each run, one also by `labbook sync --watch`; the third builds the site, searches
and syncs by hand. Git is used for the code only. At the end all sync until their branches agree. Counted are entries,
sentences and kept files that are missing, commands that failed, and changes of code, index and branch.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

LABBOOK = [sys.executable, "-m", "labbook"]
TRAIN = """
import argparse, time, torch
options = argparse.ArgumentParser()
options.add_argument("--lr", type=float, default=0.1)
options.add_argument("--width", type=int, default=8)
options.add_argument("--wait", type=float, default=0.0)
args = options.parse_args()
torch.manual_seed(0)
x = torch.randn(64, args.width)
y = x @ torch.randn(8, 1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for step in range(30):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item(), flush=True)
    time.sleep(args.wait)
torch.save(model.state_dict(), "best.pt")
"""
SETTINGS = 'title = "Digits"\nlanguage = "en"\nartifacts = ["*.pt"]\nsync = "{sync}"\nartifact_store = "{store}"\n'


def call(folder, *command, check=True):
    """Runs a command in a folder and returns what it did."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if check and done.returncode:
        raise SystemExit(f"{command} in {folder}: {done.stdout}{done.stderr}")
    return done


class Afternoon:
    """What happened: the runs and sentences that must be there at the end, and what failed."""

    def __init__(self, top, runs, seconds):
        self.top, self.runs_left = top, runs
        self.until = time.monotonic() + seconds
        self.pause_s = seconds / runs
        self.lock, self.count = threading.Lock(), 0
        self.entries, self.sentences, self.kept = set(), {}, set()
        self.commands, self.failures = Counter(), []
        self.longest_s = Counter()

    def labbook(self, folder, *arguments, accepted=(0,)):
        """Runs labbook as a person would, and notes how long it took and what it said when it failed."""
        began = time.monotonic()
        done = call(folder, *LABBOOK, *arguments, check=False)
        with self.lock:
            self.commands[arguments[0]] += 1
            self.longest_s[arguments[0]] = max(self.longest_s[arguments[0]], time.monotonic() - began)
            if done.returncode not in accepted or "Traceback" in done.stderr:
                self.failures.append((folder.name, arguments, done.returncode, done.stderr.strip()[-600:]))
        return done

    def begins_run(self):
        """Whether another run is to be made; counts it."""
        with self.lock:
            self.runs_left -= 1
            return self.runs_left >= 0

    def sentence(self, chance, entry=""):
        """A new sentence that must be found at the end, unless its entry goes away."""
        with self.lock:
            self.count += 1
            text = f"Sentence {self.count} of {chance.randrange(10**9)}."
            self.sentences[text] = entry
        return text

    def forget(self, entry):
        """Expects no longer the sentences of an entry."""
        with self.lock:
            self.sentences = {text: of for text, of in self.sentences.items() if of != entry}


class Person:
    """Records and edits in a clone."""

    def __init__(self, afternoon, name, seed):
        self.afternoon, self.folder = afternoon, afternoon.top / name
        self.name, self.chance = name, random.Random(seed)
        self.mine, self.notes = [], []

    def live(self):
        """Records until the runs are used up, with some other work after each."""
        others = [self.write, self.write, self.note, self.rename, self.fix, self.move, self.delete, self.code]
        while self.afternoon.begins_run():
            began = time.monotonic()
            self.record()
            for work in self.chance.sample(others, 3):
                work()
            if self.chance.random() < 0.3:
                self.afternoon.labbook(self.folder, "sync")
            time.sleep(max(0.0, 2 * self.afternoon.pause_s - (time.monotonic() - began)))

    def record(self):
        """A training, a failure, an interrupted training or a killed recorder."""
        kind = self.chance.choice(["good", "good", "bad", "bad", "killed", "interrupted"])
        options = ["--lr", str(self.chance.choice([0.1, 0.01, 0.001]))]
        options += ["--width", "5"] if kind == "bad" else []
        options += ["--wait", "0.1"] if kind in ("killed", "interrupted") else []
        before = self.journals()
        recorder = subprocess.Popen(
            [*LABBOOK, "record", "--", sys.executable, "train.py", *options],
            cwd=self.folder,
            **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL),
            start_new_session=True,
        )
        if kind in ("killed", "interrupted"):
            time.sleep(self.chance.uniform(2.0, 6.0))
            if kind == "killed":
                os.killpg(recorder.pid, signal.SIGKILL)
            else:
                recorder.send_signal(signal.SIGINT)
        status = recorder.wait()
        with self.afternoon.lock:
            self.afternoon.commands[f"record ({kind})"] += 1
            if kind in ("good", "bad") and status != (kind == "bad"):
                self.afternoon.failures.append((self.name, ("record", kind), status, ""))
        for run_id in self.journals() - before:
            self.mine.append((run_id, kind))
            self.afternoon.entries.add(run_id)
            if kind == "good":
                self.afternoon.kept.add(run_id)

    def journals(self):
        """The ids of the runs that have begun in this clone."""
        return {path.parent.name for path in (self.folder / ".labbook" / "runs").glob("*/run.json")}

    def entry(self, run_id):
        """The path of an entry, if it is on disk."""
        return next((self.folder / "notes").rglob(f"{run_id}.md"), None)

    def write(self):
        """Adds a sentence to an entry of anybody; now and then commits it by hand."""
        entries = sorted((self.folder / "notes" / "runs").rglob("*.md"))
        if not entries:
            return
        entry = self.chance.choice(entries)
        with entry.open("a") as file:
            file.write(f"\n{self.afternoon.sentence(self.chance, entry.stem)}\n")
        if self.chance.random() < 0.3:
            self.afternoon.labbook(self.folder, "commit")

    def note(self):
        """A note of one's own, or another sentence in one."""
        path = self.folder / "notes" / f"{self.name}-{self.chance.randrange(6)}.md"
        with path.open("a") as file:
            file.write(f"# A note\n\n{self.afternoon.sentence(self.chance)}\n")
        self.notes.append(path)

    def rename(self):
        """Renames a note, as a file manager would."""
        paths = sorted((self.folder / "notes").glob(f"{self.name}-*.md"))
        if paths:
            path = self.chance.choice(paths)
            path.rename(path.with_name(f"{self.name}-renamed-{self.chance.randrange(10**6)}.md"))

    def fix(self):
        """Accepts the proposed fix of a failed run, if there is one."""
        failed = [run_id for run_id, kind in self.mine if kind == "bad" and self.entry(run_id)]
        if failed:
            run_id = self.chance.choice(failed)
            text = self.afternoon.sentence(self.chance)
            if self.afternoon.labbook(self.folder, "fix", run_id, "-m", text, accepted=(0, 1, 2)).returncode:
                del self.afternoon.sentences[text]  # nothing got past it yet
            else:
                self.afternoon.forget(f"fix of {run_id}")  # a second description replaces the first one
                self.afternoon.sentences[text] = f"fix of {run_id}"

    def move(self):
        """Moves a run from the personal notebook to the team's."""
        done = call(self.folder.parent / f"{self.name}-private", *LABBOOK, "record", "--", "true", check=False)
        private = self.folder.parent / f"{self.name}-private"
        runs = {path.parent.name for path in (private / ".labbook" / "runs").glob("*/run.json")}
        if done.returncode or self.chance.random() < 0.3:
            return
        for run_id in sorted(runs - self.afternoon.entries)[-1:]:
            if not self.afternoon.labbook(private, "move", run_id, "--to", str(self.folder)).returncode:
                self.afternoon.entries.add(run_id)

    def delete(self):
        """Deletes one of the own runs for everybody; sentences that somebody else adds meanwhile go or stay with it."""
        mine = [run_id for run_id, kind in self.mine if kind == "bad" and self.entry(run_id)]
        if mine and self.chance.random() < 0.4:
            run_id = self.chance.choice(mine)
            entry = self.entry(run_id)
            call(self.folder, "rm", "-r", str(entry), *filter(Path.exists, [entry.with_suffix("")]))
            self.afternoon.labbook(self.folder, "commit", str(entry), str(entry.with_suffix("")))
            self.mine = [each for each in self.mine if each[0] != run_id]
            self.afternoon.entries.discard(run_id)
            self.afternoon.forget(run_id)
            self.afternoon.forget(f"fix of {run_id}")

    def code(self):
        """Works on the code: another branch, a commit, and back now and then."""
        branch = self.chance.choice(["main", f"{self.name}-try"])
        exists = not call(self.folder, "git", "rev-parse", "-q", "--verify", branch, check=False).returncode
        call(self.folder, "git", "switch", "-q", *([] if exists else ["-c"]), branch)
        (self.folder / f"{self.name}.py").write_text(f"NUMBER = {self.chance.random()}\n")
        call(self.folder, "git", "add", f"{self.name}.py")
        call(self.folder, "git", "commit", "-qm", "Change a number")


def build_site(afternoon, folder):
    """The third person: searches, lists, builds the site and syncs by hand."""
    while time.monotonic() < afternoon.until and afternoon.runs_left > -2:
        afternoon.labbook(folder, "sync")
        afternoon.labbook(folder, "site", "build")
        afternoon.labbook(folder, "search", "shapes", "cannot", "be", "multiplied", accepted=(0, 1))
        afternoon.labbook(folder, "list", "status:failed", accepted=(0, 1))
        time.sleep(2)


def set_up(top):
    """A bare remote, three clones, and a personal notebook of each."""
    call(top, "git", "init", "-q", "--bare", "-b", "main", "digits.git")
    call(top, "git", "clone", "-q", "digits.git", "wei")
    first = top / "wei"
    (first / "train.py").write_text(TRAIN)
    call(first, *LABBOOK, "init", "--language", "en")
    (first / "labbook.toml").write_text(SETTINGS.format(sync="after-run", store=top / "store"))
    (first / ".gitignore").open("a").write("site/\n*.pt\n")
    call(first, "git", "add", ".")
    call(first, "git", "commit", "-qm", "Train on digits, with a notebook")
    call(first, "git", "push", "-q", "-u", "origin", "main")
    for name in ("mara", "tom"):
        call(top, "git", "clone", "-q", "digits.git", name)
    call(first, *LABBOOK, "record", "--", "true")
    call(first, *LABBOOK, "sync")
    for name in ("wei", "mara", "tom"):
        (top / f"{name}-private").mkdir()
        call(top / f"{name}-private", *LABBOOK, "init", "--language", "en")
        call(top / name, "git", "config", "user.name", name.title())


def converge(afternoon, clones):
    """Syncs until the branches agree; returns after how many rounds, and the entries and text on each disk."""
    rounds, tips = 0, set()
    while len(tips) != 1 and rounds < 5:
        rounds += 1
        for clone in clones:
            afternoon.labbook(clone, "recover")
            afternoon.labbook(clone, "sync")
        tips = {call(clone, "git", "rev-parse", "labbook").stdout for clone in clones}
    return rounds, [
        {p.relative_to(clone / "notes").as_posix(): p.read_bytes() for p in (clone / "notes").rglob("*") if p.is_file()}
        for clone in clones
    ]


def report(afternoon, clones, rounds, texts, heads):
    """Prints what is missing, and what failed."""
    missing = [run_id for run_id in afternoon.entries if not any(f"{run_id}.md" in name for name in texts[0])]
    everything = "\n".join(text.decode(errors="replace") for name, text in texts[0].items() if name.endswith(".md"))
    lost = [f"{text} ({of or 'note'})" for text, of in afternoon.sentences.items() if text not in everything]
    kept = verified(clones[2])
    differ = {name for text in texts for name in {*text, *texts[0]} if text.get(name) != texts[0].get(name)}
    changed = [call(clone, "git", "status", "--porcelain").stdout for clone in clones]
    broken = [c.name for c in clones if call(c, "git", "fsck", "--strict", check=False).returncode]
    print(f"{dict(afternoon.commands)}")
    print(f"longest, s: { {name: round(took, 1) for name, took in afternoon.longest_s.items()} }")
    print(f"the branches agree after {rounds} rounds; files on disk that differ: {sorted(differ) or 'none'}")
    print(f"{len(afternoon.entries)} entries, missing: {missing or 'none'}")
    print(f"{len(afternoon.sentences)} sentences, missing: {lost or 'none'}")
    print(f"{len(afternoon.kept)} runs with kept files, without: {sorted(afternoon.kept - kept) or 'none'}")
    print(f"changed in the code: {[each for each in changed if each] or 'nothing'}; broken repositories: {broken}")
    print(f"checked-out branches at the end: {heads}")
    print(f"{len(afternoon.failures)} commands failed")
    for failure in afternoon.failures:
        print("  ", *failure)


def verified(clone):
    """The runs of which all kept files are whole, as seen from a clone."""
    done = call(clone, *LABBOOK, "artifact", "verify", "--json", check=False)
    states = [(file["run"], row["state"]) for row in json.loads(done.stdout or "[]") for file in row["files"]]
    return {run_id for run_id, _ in states} - {run_id for run_id, state in states if state != "ok"}


def main():
    """Lives through the afternoon."""
    minutes, runs = (float(sys.argv[1]) if sys.argv[1:] else 15.0), (int(sys.argv[2]) if sys.argv[2:] else 60)
    with tempfile.TemporaryDirectory(dir=os.environ.get("LABBOOK_BENCH_FOLDER")) as folder:
        top = Path(folder)
        set_up(top)
        clones = [top / name for name in ("wei", "mara", "tom")]
        afternoon = Afternoon(top, runs, minutes * 60)
        (top / "watch").mkdir()
        with (top / "watch" / "output").open("w") as output:
            watch = subprocess.Popen(
                [*LABBOOK, "sync", "--watch", "--every", "20"], cwd=clones[1], stdout=output, stderr=output
            )
            people = [threading.Thread(target=Person(afternoon, n, i).live) for i, n in enumerate(("wei", "mara"))]
            people.append(threading.Thread(target=build_site, args=(afternoon, clones[2])))
            for each in people:
                each.start()
            for each in people:
                each.join()
            watch.send_signal(signal.SIGINT)
            status = watch.wait(60)
        heads = [call(clone, "git", "symbolic-ref", "--short", "HEAD").stdout.strip() for clone in clones]
        print(f"--watch ended with {status}: {(top / 'watch' / 'output').read_text()[-1500:]}")
        report(afternoon, clones, *converge(afternoon, clones), heads)


if __name__ == "__main__":
    main()
