"""Executes the command blocks of the documentation, so that none of them goes stale.

    tests/docs/run [PART OF A FILE'S NAME]

A block is run by `bash -euo pipefail` in a directory of its own, which the blocks of one file share. `cargo run` of this
workspace is replaced by the binary that `cargo test` has built. What cannot run here is listed below, with its reason;
everything else must end with status 0, within a time.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARIES = ROOT / "target" / "debug"

# Where `tests/interop/run` has installed the SDKs of other languages.
SDKS = ROOT / "tests" / "interop"

# Lines that are left out, by what they begin with (variables before it do not count), and why.
EXCEPTIONS = {
    "cargo test": "the step before",
    "cargo bench": "a measurement, not a check",
    "cargo install": "an installation",
    "cargo add": "an installation",
    "pip install": "an installation",
    "npm install": "an installation",
    "docker ": "needs a container engine",
    "sidereal emulator": "a server; one runs already",
    "cargo run --release -- emulator": "a server; one runs already",
    "cargo run --manifest-path peers": "builds a workspace of its own",
    "cargo run --release --manifest-path peers": "builds a workspace of its own",
    ".ci/run": "runs this",
    "tests/": "a step of its own",
    "export COSMOSDB_ENDPOINT": "names an account that is the reader's",
    "export COSMOSDB_KEY": "names an account that is the reader's",
}

# What takes the place of building a second time.
REPLACED = [
    (re.compile(r"cargo run --release -- "), "sidereal "),
    (re.compile(r"cargo run -p sidereal (?:--features otel )?--example (\w+)"), r"example \1"),
]

LANGUAGES = ("sh", "console", "python", "js")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONGEST_SECONDS = 120


def documents(wanted):
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    found += sorted((ROOT / "crates").glob("*/README.md"))
    return [path for path in found if wanted in str(path.relative_to(ROOT))]


def blocks(path):
    """The blocks of a file that are commands: the line that each begins on, its language and its text."""
    text = path.read_text()
    for match in BLOCK.finditer(text):
        if match[1] in LANGUAGES:
            block = match[2]
            if match[1] == "console":
                # What is typed; the rest is what the command says.
                block = "".join(f"{line[2:]}\n" for line in block.splitlines() if line.startswith("$ "))
            yield text.count("\n", 0, match.start()) + 1, match[1], block


def runnable(block):
    """The block without the lines that are excepted; a line that goes on with a backslash is one."""
    kept = []
    for line in re.sub(r"\\\n\s*", "", block).splitlines():
        told = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", line.strip())
        if not any(told.startswith(word) for word in EXCEPTIONS):
            kept.append(line)
    text = "\n".join(kept)
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    return text if any(line.strip() and not line.startswith("#") for line in kept) else None


def command(language, text):
    if language == "python":
        return [SDKS / "python" / ".venv" / "bin" / "python", "-c", text]
    if language == "js":
        return ["node", "--input-type=commonjs", "-e", text]
    examples = BINARIES / "examples"
    return ["bash", "-euo", "pipefail", "-c", f'example() {{ "{examples}/$1"; }}\n{text}']


def start_emulator(state):
    """The account that the README starts, on the port that it names."""
    line = [BINARIES / "sidereal", "emulator", "--json", "--regions", "West US,East US"]
    line += ["--replication-delay", "20ms"]
    environment = {**os.environ, "XDG_STATE_HOME": state}
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment)
    first = process.stdout.readline()
    if not first:
        sys.exit("the emulator does not start: is port 8081 taken?")
    json.loads(first)
    return process


def run_document(path, state):
    """Runs the blocks of a file on an account of its own. Says how many were run, left out, and which failed."""
    ran, left_out, failed = 0, 0, []
    emulator = start_emulator(state)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("COSMOS", "AZURE_COSMOS"))}
    environment |= {"PATH": f"{BINARIES}:{os.environ['PATH']}", "XDG_STATE_HOME": state}
    environment["NODE_PATH"] = str(SDKS / "javascript" / "node_modules")
    try:
        with tempfile.TemporaryDirectory() as directory:
            for line, language, block in blocks(path):
                text = runnable(block)
                if text is None:
                    left_out += 1
                    continue
                where = f"{path.relative_to(ROOT)}:{line}"
                try:
                    done = subprocess.run(
                        command(language, text),
                        cwd=directory,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        capture_output=True,
                        text=True,
                        timeout=LONGEST_SECONDS,
                    )
                    status, said = done.returncode, done.stdout + done.stderr
                except subprocess.TimeoutExpired:
                    status, said = "none", f"not done after {LONGEST_SECONDS} s"
                ran += 1
                if status != 0:
                    failed.append(where)
                    print(f"{where} ended with status {status}:\n{text}\n{said}", file=sys.stderr)
    finally:
        emulator.terminate()
        emulator.wait(timeout=30)
    return ran, left_out, failed


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    ran, left_out, failed = 0, 0, []
    with tempfile.TemporaryDirectory() as state:
        for path in documents(wanted):
            if not any(runnable(block) for _, _, block in blocks(path)):
                left_out += sum(1 for _ in blocks(path))
                continue
            of_path = run_document(path, state)
            ran, left_out, failed = ran + of_path[0], left_out + of_path[1], failed + of_path[2]
            print(f"{path.relative_to(ROOT)}: {of_path[0]} blocks run, {of_path[1]} left out")
    print(f"{ran} blocks run, {left_out} left out (installations, servers, tests), {len(failed)} failed")
    sys.exit(1 if failed or ran == 0 else 0)


main()
