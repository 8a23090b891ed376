"""Tables of all formats: what their sources say, and what was found."""
import csv
import io
import json
import pathlib
import re
import statistics
import sys

from results.common import ROOT, head, mean, options, read_runs, read_text, row, table

# The matrices by what they are: the ones of protean-bench-products (a name without the number at its end is meant for
# all sizes), and the ones of the SuiteSparse collection that were repeated.
CLASSES = {
    "stencils": "pde hpcg poisson-3d 27-point Trefethen_20000 band64",
    "bands": "rcm27 af23560 s1rmt3m1 bcsstk17 bcsstk29 nasa4704 gyro_m band64 hpcg 27-point Trefethen_20000",
    "blocks": "elast elasticity-3d bcsstk17 bcsstk29 s1rmt3m1 nasa4704 gyro_m af23560 band64",
    "similar lengths": "pde hpcg poisson-3d 27-point rcm27 band64 elast elasticity-3d af23560 airfoil_2d bodyy4 "
                       "bratu3d delaunay_n15 wave s1rmt3m1 G2_circuit rail_20209 Trefethen_20000 perm27 rand10",
    "long rows": "elast elasticity-3d band64 s1rmt3m1 bcsstk17 bcsstk29 hpcg 27-point rcm27 Trefethen_20000 "
                 "nasa4704 perm27",
    "short rows": "luxembourg_osm tols4000 p2p-Gnutella31 wikitalk webbase G2_circuit add32 bips98_606 rajat19",
    "varying lengths": "G51 add20 ca-CondMat gyro_m eris1176 zenios bayer03 wave airfoil_2d nasa4704 bcsstk17 bcsstk29 "
                       "gemat11 rail_20209",
    "power law": "webbase wikitalk ca-CondMat p2p-Gnutella31 eris1176 G51",
    "few long rows": "dc1 dcbig adder_dcop_05 rajat01 rajat19 bp_1600 tols4000 bloweybq hangGlider_2",
}
# The class that the source of a format names. Formats without one are for any matrix.
CLASS_OF = {
    "stencils": "dia bdia hdi crsd cds ddd-naive ddd-split hdc ell-dia",
    "bands": "pcsr coadell adell-plus bro-ell bro-csr sparsex sell-packed sss",
    "blocks": "bcsr bsr4 bcsr-cnc bcsr-choi bcsr-xu bcsr-verschoor bcoo bell bsellpack bellpack bin-bcsr bcoo-bcsr "
              "bccoo bccoo-plus tilespmv-csr tilespmv-adpt tilespmv-deferred-coo",
    "similar lengths": "ell ell-psblas ellpack-r ellr-t sell sell-c-sigma sell-p sell-variable warped-ell sic rgcsr "
                       "sliced-ellr-t hll csr-reguly-giles csr-mukunoki",
    "long rows": "cmrs csr-vector icsr ellpack-rp ell-warp",
    "short rows": "csr-wang csr-scalar csr-stream",
    "varying lengths": "jad enhanced-jds pjds biell bijad tjad btjad argcsr bin-csr csr-guo-gropp lightspmv "
                       "csr-ell-maringanti csr-ell-matam shec hec bro-hyb bro-hybr bro-hybr-s",
    "power law": "acsr aligned-coo scoo brc adell tile-composite hyb",
    "few long rows": "csr-adaptive csr5 mgpu-csr merge-csr coo coo-segmented",
}
FAMILIES = {"row": "Compressed rows", "column": "Compressed columns", "coordinate": "Coordinates",
            "ell": "Padded rows and slices",
            "jagged": "Jagged diagonals", "lanes": "Lanes", "diagonal": "Diagonals", "block": "Blocks",
            "compressed": "Indices in few bits", "tiled": "Tiles", "symmetric": "Symmetric halves",
            "hybrid": "Sums of parts",
            "composed": "Sums that users and planners compose"}
PLACES = {"gpu": "GPUs", "cpu": "processors", "fpga": "an FPGA"}
# The products of other libraries, by benchmark: the words of a column, and how their names begin.
LIBRARIES = {"gpu_spmv": {"cuSPARSE": "cusparse"}, "spmv": {"MKL": "mkl", "Eigen": "eigen"}}
EVEN = 0.02
NAIVE = ("csr-scalar", "csr-vector")  # a thread or a warp for each row, as all csr kernels were in 2008


def in_class(matrix, kind):
    words = CLASSES[kind].split()
    return matrix in words or re.sub(r"-?\d+$", "", matrix) in words


class Run:
    """One matrix of one file: microseconds by name (the medians of replays on a GPU, the least on a host, as in their
    own tables), and of our formats bytes and the microseconds of conversion."""

    def __init__(self, matrix, number):
        self.number, self.nonzeros = number, matrix["nonzeros"]
        self.times, self.bytes, self.convert, self.ours = {}, {}, {}, set()
        for p in matrix["products"]:
            name = p["name"]
            time = p.get("microseconds") or 1e6 * p.get("seconds_min", 0)
            if not time or not p.get("right", True) or " (" in name or "@" in name:
                continue
            self.times[name] = time
            if p["ours"]:
                self.bytes[name] = p["bytes"]
                self.convert[name] = p.get("convert_microseconds") or 1e6 * p.get("convert_seconds", 0)
                if ":" not in name:
                    self.ours.add(name)

    def library(self, start):
        return min((time for name, time in self.times.items() if name not in self.bytes and name.startswith(start)),
                   default=None)

    def time(self, name):
        return self.times.get(name) or (self.library(name) if name.split()[0] in ("cusparse", "mkl", "eigen", "petsc")
                                        else None)


class Measured:
    def __init__(self, words):
        runs = [(key, run) for word in words for key, run in read_runs(word).items()]
        names, self.files = [key for key, _ in runs], [run for _, run in runs]
        self.names = names
        kinds = {file["benchmark"] for file in self.files}
        if len(kinds) > 1 or not kinds <= set(LIBRARIES):
            sys.exit(f"the files are of {', '.join(sorted(kinds))}; they must all be of one of {', '.join(LIBRARIES)}")
        self.kind = kinds.pop()
        self.runs = {}  # matrix -> runs, the first named first
        for number, file in enumerate(self.files):
            for matrix in file["matrices"]:
                run = Run(matrix, number)
                if "csr" not in run.times:
                    sys.exit(f"{names[number]}: {matrix['matrix']} has no right product of csr, to which all others "
                             "are compared; run the benchmark with csr among its formats")
                self.runs.setdefault(matrix["matrix"], []).append(run)

    def run(self, name, matrix):
        """The first run of the matrix that has the format, or the library's product."""
        return next((run for run in self.runs[matrix] if run.time(name)), None)

    def matrices(self, name):
        return [matrix for matrix in self.runs if self.run(name, matrix)]

    def fastest(self, matrix):
        """The least time of our formats in units of csr's in the same run."""
        return min(run.times[one] / run.times["csr"] for run in self.runs[matrix] for one in run.ours)

    def to(self, name, other, matrix):
        """Time of `other` over time of the format."""
        run, beside = self.run(name, matrix), self.run(other, matrix)
        if run is None or beside is None:
            return None
        if run.time(other):
            return run.time(other) / run.time(name)
        return run.times["csr"] / run.time(name) * beside.time(other) / beside.times["csr"]


def ratios(measured, name, other, matrices):
    return [ratio for matrix in matrices if (ratio := measured.to(name, other, matrix))]


def cell(values):
    return f"{mean(values):.2f} ({min(values):.2f} to {max(values):.2f})" if values else ""


def read_claims():
    with open(ROOT / "benchmarks/claims.tsv", newline="") as file:
        return {row["format"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def verdict(measured, name, claim, there):
    """(one of the words below, the cell of "holds here")"""
    host = measured.kind == "spmv"
    if claim["against"] == "none":
        return "nothing claimed", "not compared: no claim about speed in the texts at hand"
    if claim["on"] not in ("any", "cpu" if host else "gpu"):
        return "elsewhere", f"not compared: its source measured {PLACES[claim['on']]}"
    if not measured.matrices(name):
        return "not measured", "not measured"
    if not there:
        return "refused", "not compared: no figures on its class"
    told, holds, missing = [], [], []
    for word in claim["against"].split(","):
        other = "csr" if word == "-" else word.lstrip("<~=")
        values = [] if word.startswith("=") else ratios(measured, name, other, there)
        if not values:
            missing.append(other)
            continue
        ratio = mean(values)
        told.append(f"{other} {ratio:.2f} ({len(values)})")
        factor = float(claim["factor"] or 1)
        if word.startswith("<"):
            holds.append("even" if abs(ratio - 1) < EVEN else "yes" if ratio < 1 else "no")
        elif word.startswith("~"):
            holds.append("yes" if 0.9 <= ratio <= 1 / 0.9 else "no")
        else:
            holds.append("even" if abs(ratio - 1) < EVEN else "no" if ratio < 1 else "yes" if ratio >= factor
                         else "by less")
    if not told:
        return "no baseline", "baseline not measured: " + ", ".join(missing)
    word = holds[0] if len(set(holds)) == 1 else "in part"
    note = f"; baseline not measured: {', '.join(missing)}" if missing else ""
    return word, f"{'**yes**' if word == 'yes' else word}: {', '.join(told)}{note}"


def summary(measured, formats, verdicts, theirs):
    """The lists before the tables."""
    said = {"yes": "It holds", "by less": "Faster than what the source compared with, but by less than its mean figure",
            "even": "As fast as what the source compared with, within 2 %",
            "in part": "It holds compared with some of the baselines of the source", "no": "It does not hold",
            "no baseline": "What the source compared with was not measured",
            "refused": "Refused on all matrices of its class, or not run on them",
            "elsewhere": "The source measured another kind of machine",
            "nothing claimed": "No claim about speed in the texts at hand",
            "not measured": "Claimed, but not in these files"}
    for word, text in said.items():
        names = [name for name in formats if verdicts[name][0] == word]
        if names:
            print(f"- {text} ({len(names)}): {', '.join(names)}.")
        if word == "yes" and names:
            fast = [name for name in names if mean(ratios(measured, name, "csr", theirs[name])) > 1 + EVEN]
            print(f"  Of these, faster than csr too by more than 2 % ({len(fast)}): {', '.join(fast) or 'none'}.")

    def both(name):
        to_csr = mean(ratios(measured, name, "csr", theirs[name]))
        sizes = [run.bytes["csr"] / run.bytes[name] for matrix in theirs[name]
                 if "csr" in (run := measured.run(name, matrix)).bytes]
        return to_csr, mean(sizes)

    host = measured.kind == "spmv"
    slow = [name for name in formats if theirs.get(name)
            and (host or verdicts[name][0] in ("no", "in part", "by less", "even")) and both(name)[0] < 1]
    print(f"\nThose {'' if host else 'whose claim does not hold, or not in full, and '}that are slower than csr, in "
          "groups by what was measured on the matrices of their class. The two figures are means: speed to csr, and "
          "bytes of csr to theirs, which would be the speed to csr if nothing but these bytes counted.\n")
    if not host:
        beaten = {}
        for name in slow:
            values = [min(pair) for matrix in theirs[name]
                      if all(pair := [measured.to(name, other, matrix) for other in NAIVE])]
            if values and name not in NAIVE and mean(values) > 1:
                beaten[name] = mean(values)
        print(f"- Faster than the better of {' and '.join(NAIVE)}, the kernels of 2008, by these means "
              f"({len(beaten)}): {', '.join(f'{name} {value:.2f}' for name, value in beaten.items())}.")
    rows = [f"{kind} {mean(values):.2f} ({len(values)})" for kind in CLASSES
            if (values := ratios(measured, "csr:balance=rows", "csr",
                                 [matrix for matrix in measured.runs if in_class(matrix, kind)]))]
    if rows:
        print(f"- csr itself without its balance of rows (`csr:balance=rows`), to csr, by class: {', '.join(rows)}.")
    texts = {"- At least a tenth more bytes than csr, so slower for their size alone": lambda size: size < 1 / 1.1,
             "- About as many bytes as csr": lambda size: 1 / 1.1 <= size <= 1.1,
             "- At least a tenth fewer bytes than csr, and slower nevertheless": lambda size: size > 1.1}
    for text, holds in texts.items():
        names = [f"{name} {speed:.2f}, {size:.2f}" for name in slow for speed, size in [both(name)] if holds(size)]
        if names:
            print(f"{text} ({len(names)}): {'; '.join(names)}.")


@table
def families(words):
    """FILE...: what the source of each format says, and what was measured; [--tables] a table for each family.

    FILE: products of a GPU (medians) or of a host (least times), all of the same kind. Each run has csr and the other
    libraries' products. A format that several runs have on a matrix is taken from the first one named that has it, so
    name the newest one first. Formats of different runs are compared by their ratios to the csr of their own runs.

    What the sources say is in claims.tsv in this folder: `against` lists what they compare with, parted by commas:
      NAME     a format, or a product of another library: the source says that the format is faster
      <NAME    the source says that it is slower
      ~NAME    the source says that it is about as fast: within 10 % here
      =TEXT    something that is not built here
      -        the source compares with the kernels of its time, or does not say with what: csr stands for them
      none     the source says nothing about speed
    `on` is the kind of machine of the source: gpu, cpu, fpga or any. `factor` is the mean that it reports, if any.
    Means within 2 % of 1 are called even: so much do two runs of the same format differ.
    """
    words, given = options(words, tables=False)
    measured, claims = Measured(words), read_claims()
    listed = [(family, name.replace("_", "-")) for family, name in
              re.findall(r"^PROTEAN_(?:FORMAT|PRESET)\((\w+), *(\w+)",
                         (ROOT / "formats/catalogue.def").read_text(), re.M)]
    formats = [name for _, name in listed if name != "csr"]
    if missing := [name for name in formats if name not in claims]:
        sys.exit(f"claims.tsv has no line for {', '.join(missing)}; add what their sources say")
    if measured.kind == "spmv":  # the many presets that are their base on a host
        formats = [name for name in formats if measured.matrices(name)]
    kinds = {name: kind for kind, words in CLASS_OF.items() for name in words.split()}
    theirs = {name: [matrix for matrix in measured.matrices(name) if name not in kinds or in_class(matrix, kinds[name])]
              for name in formats}
    verdicts = {name: verdict(measured, name, claims[name], theirs[name]) for name in formats}
    summary(measured, formats, verdicts, theirs)
    print("\nRuns, the first named first, with the number of formats whose figures on some matrix are from there:\n")
    for number, (name, file) in enumerate(zip(measured.names, measured.files)):
        used = {one for one in formats for matrix in measured.matrices(one)
                if measured.run(one, matrix).number == number}
        print(f"- {name}: {file['machine']['date']}, commit {file['machine']['commit']}, "
              f"{len(file['matrices'])} matrices, {len(used)} formats")
    if not given["tables"]:
        return
    libraries = LIBRARIES[measured.kind]
    for family in dict.fromkeys([*FAMILIES, *(family for family, _ in listed)]):
        rows = [name for its, name in listed if its == family and name in formats]
        if not rows:
            continue
        print(f"\n### {FAMILIES.get(family, family)}\n\n| format | its source says | holds here | "
              "class of its source | "
              "to csr there: mean (range) | "
              + "".join(f"to {library} there | " for library in libraries)
              + "to the fastest of ours there | to csr elsewhere | bytes an entry there | conversion, products "
              "of csr |\n"
              + "|---" * (9 + len(libraries)) + "|")
        for name in rows:
            claim, there, kind = claims[name], theirs[name], kinds.get(name)
            elsewhere = [matrix for matrix in measured.matrices(name) if matrix not in there]
            runs = [measured.run(name, matrix) for matrix in there or elsewhere]
            beside = ["" if not (values := [least / run.times[name] for matrix in there
                                            if (run := measured.run(name, matrix))
                                            and (least := run.library(start))]) else f"{mean(values):.2f}"
                      for start in libraries.values()]
            best = [measured.fastest(matrix) * run.times["csr"] / run.times[name] for matrix in there
                    if (run := measured.run(name, matrix))]
            figure = "no figure" if claim["figure"].startswith("no figure") else claim["figure"]
            print(f"| {name} | {claim['claim']} ({figure}) [{claim['source']}] | {verdicts[name][1]} | {kind or 'any'} "
                  f"({len(there)}) | {cell(ratios(measured, name, 'csr', there)) or ('none' if elsewhere else '')} | "
                  f"{' | '.join(beside)} | {f'{mean(best):.2f}' if best else ''} | "
                  f"{(cell(ratios(measured, name, 'csr', elsewhere)) or ('none' if there else '')) if kind else ''} | "
                  + (f"{statistics.median(run.bytes[name] / run.nonzeros for run in runs):.1f} | "
                     f"{statistics.median(run.convert[name] / run.times['csr'] for run in runs):.0f} |" if runs
                     else " | |"))
    print("\nClasses:\n")
    for kind, words in CLASSES.items():
        print(f"- {kind}: {', '.join(words.split())}")


def exhibit_order(exhibit):
    """s0-table-3: by paper, then tables before figures, then numbers."""
    paper, kind, number = exhibit["id"].split("-")
    return paper, kind != "table", int(number)


def judged(found, void, because):
    """The verdict on one statement, and what it rests on, from all exhibits of one machine that judge it."""
    if not found:
        return "not made", ""
    known = [finding for finding in found if finding["holds"] is not None]
    if known and void and re.search(void, known[0]["statement"]):
        return "not judged", because
    parts = dict.fromkeys(part for finding in known or found for part in finding["evidence"].split("; ") if part)
    text = "; ".join(sorted(parts, key=lambda part: part.endswith("stand-ins"))).removesuffix(": not judged")
    if not known:
        return "not judged", text or "what it compares is not in this build"
    return "yes" if all(finding["holds"] for finding in known) else "no", text


@table
def findings_data(words):
    """HOST DEVICE, folders that `protean reproduce -o` wrote: the findings as TSV. [--void REGEX --because TEXT]

    A statement that several exhibits judge counts once, and holds where it holds in each that can judge it. Statements
    that match REGEX are not judged on the device, because TEXT.
    """
    folders, given = options(words, void="", because="")
    statements = {}
    for machine, folder in enumerate(folders):
        exhibits = [json.loads(file.read_text()) for file in pathlib.Path(folder).glob("s*.json")]
        for exhibit in sorted(exhibits, key=exhibit_order):
            for finding in exhibit["findings"]:
                its = statements.setdefault((exhibit["paper"], finding["statement"]), ({}, ([], [])))
                its[0][exhibit["id"]] = exhibit_order(exhibit)
                its[1][machine].append(finding)
    print("paper\texhibits\tfinding\thost\thost_evidence\tgpu\tgpu_evidence")
    for (paper, statement), (ids, found) in sorted(statements.items(), key=lambda item: min(item[1][0].values())):
        exhibits = ", ".join(" ".join(one.split("-")[1:]) for one in sorted(ids, key=ids.get))
        print(paper, exhibits, statement, *judged(found[0], "", ""), *judged(found[1], given["void"], given["because"]),
              sep="\t")


@table
def findings(words):
    """FILE.tsv of the findings of the papers that `protean reproduce` judged."""
    rows = list(csv.DictReader(io.StringIO(read_text(words[0])), delimiter="\t", quoting=csv.QUOTE_NONE))

    def number(**verdicts):
        return sum(all(r[machine] == verdict for machine, verdict in verdicts.items()) for r in rows)

    both = number(host="yes", gpu="yes"), number(host="yes", gpu="no"), number(host="no", gpu="yes")
    print(f"{len(rows)} findings. " + " ".join(
        f"On the {name} {number(**{machine: 'yes'})} hold, {number(**{machine: 'no'})} do not, "
        f"{number(**{machine: 'not judged'})} are not judged, {number(**{machine: 'not made'})} not made."
        for name, machine in (("host", "host"), ("GPU", "gpu"))))
    print(f"Of those that both judge {both[0]} hold on both, {both[1]} on the host alone, {both[2]} on the GPU alone, "
          f"{number(host='no', gpu='no')} on neither.\n")
    head("paper, exhibits", "finding", "host", "GPU")
    for r in rows:
        row(f"{r['paper']} {r['exhibits']}", r["finding"],
            *(": ".join(filter(None, (r[machine], r[f"{machine}_evidence"]))) for machine in ("host", "gpu")))
