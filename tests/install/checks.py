"""What the tests of an installation share: what was found wrong, programs that they run, and their end."""
import shutil
import subprocess
import sys

problems = []


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def expect(condition, message):
    if not condition:
        problems.append(message)


def run(*words, **more):
    """What the program prints. If it fails, the test ends with the ends of its output and its errors."""
    done = subprocess.run([str(word) for word in words], text=True, capture_output=True, check=False, **more)
    if done.returncode:
        sys.exit(f"{' '.join(str(word) for word in words)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def make_empty(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def end(text):
    print("\n".join(problems) or text)
    sys.exit(bool(problems))
