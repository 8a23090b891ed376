"""GPUs older than the kernels allow are refused when configuring, by name."""
import subprocess
import sys

cmake, source = sys.argv[1:]


def check(architectures, native=""):
    return subprocess.run([cmake, f"-DPROTEAN_SOURCE={source}", f"-DARCHITECTURES={architectures}",
                           f"-DNATIVE={native}", "-P", f"{source}/tests/install/cuda_architectures.cmake"],
                          capture_output=True, text=True)


wrong = []
for architectures, native in [("75", ""), ("80-real;90", ""), ("90a-real", ""), ("100", ""), ("103f-virtual", ""),
                              ("native", "90-real"), ("75-virtual", "")]:
    run = check(architectures, native)
    if run.returncode:
        wrong.append(f"{architectures} {native} was refused: {run.stderr}")
for architectures, native, named in [("70", "", "70"), ("80;61-real", "", "61-real"), ("native", "61-real", "61-real"),
                                     ("all", "", "50")]:
    run = check(architectures, native)
    if run.returncode == 0 or f"CUDA architecture {named}:" not in run.stderr:
        wrong.append(f"{architectures} {native} was not refused: {run.stderr}")
print("\n".join(wrong))
sys.exit(bool(wrong))
