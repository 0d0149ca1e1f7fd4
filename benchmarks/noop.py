"""Recording a script that does nothing: start, entry and commit, next to tools that people use for the same.

Peers run when they are found: `datalad`, `guild` and a Python with `wandb`, on the path or in the folder that the
environment variable LABBOOK_BENCH_PEERS names (the `bin` of virtual environments, separated by colons).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._interleaved import interleaved, show

ROUNDS = 9
WANDB = "import wandb; run = wandb.init(mode='offline', project='noop'); run.finish()"


def peer(name):
    folder = os.environ.get("LABBOOK_BENCH_PEERS", "")
    return shutil.which(name, path=os.pathsep.join(filter(None, [folder, os.environ.get("PATH", "")])))


def python_with_wandb():
    folders = [*os.environ.get("LABBOOK_BENCH_PEERS", "").split(os.pathsep), str(Path(sys.executable).parent)]
    for folder in filter(None, folders):
        python = Path(folder) / "python"
        if python.exists() and not subprocess.run([python, "-c", "import wandb"], capture_output=True).returncode:
            return str(python)
    return None


def quiet(command, cwd, **environment):
    subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def repository(folder):
    folder.mkdir()
    (folder / "noop.py").write_text("pass\n")
    quiet(["git", "init", "-q"], folder)
    quiet(["git", "add", "."], folder)
    quiet(["git", "-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "noop"], folder)
    return folder


def cases(top):
    labbook = [sys.executable, "-m", "labbook"]
    ours = repository(top / "ours")
    quiet([*labbook, "init"], ours)
    found = {"labbook record": lambda: quiet([*labbook, "record", "--", sys.executable, "noop.py"], ours)}
    bare = repository(top / "bare")
    found["python noop.py, unrecorded"] = lambda: quiet([sys.executable, "noop.py"], bare)
    if (datalad := peer("datalad")) and shutil.which("git-annex"):
        lad = top / "datalad"
        quiet([datalad, "create", str(lad)], top)
        (lad / "noop.py").write_text("pass\n")
        quiet([datalad, "save", "-m", "noop"], lad)
        count = iter(range(10**6))

        def run_datalad():
            # datalad commits only what changed: the script leaves one small file, as a training leaves a result.
            quiet([datalad, "run", "-m", "noop", f"{sys.executable} noop.py && echo {next(count)} > out.txt"], lad)

        found["datalad run"] = run_datalad
    if guild := peer("guild"):
        home = repository(top / "guild")
        (top / "guild-home").mkdir()
        found["guild run"] = lambda: quiet([guild, "run", "-y", "noop.py"], home, GUILD_HOME=str(top / "guild-home"))
    if python := python_with_wandb():
        place = repository(top / "wandb")
        found["wandb offline init + finish"] = lambda: quiet([python, "-c", WANDB], place, WANDB_SILENT="true")
    return found


def working(found):
    """The cases that run at all; a peer that is installed but broken is named with its last words."""
    return {name: run for name, run in found.items() if works(name, run)}


def works(name, run):
    try:
        run()
    except subprocess.CalledProcessError as error:
        if name == "labbook record":
            raise
        print(f"   {name}: does not run here (exit status {error.returncode})")
        return False
    return True


def main():
    with tempfile.TemporaryDirectory() as top:
        found = working(cases(Path(top)))
        results = interleaved(found, ROUNDS)
        show(results)
        ours = results["labbook record"][0]
        for name, (median, _) in results.items():
            if name not in ("labbook record", "python noop.py, unrecorded"):
                print(f"   labbook / {name}: {ours / median:.2f}")
        for name in ("datalad run", "guild run", "wandb offline init + finish"):
            if name not in results:
                print(f"   {name}: not measured, it is not installed")


if __name__ == "__main__":
    main()
