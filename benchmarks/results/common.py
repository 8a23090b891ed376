"""What all tables share: files, words of the command line, cells, and plots in SVG."""
import json
import lzma
import math
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "docs" / "results"
TABLES = {}


def table(function):
    """Registers a function under its name: it takes the words of the command line and prints Markdown."""
    TABLES[function.__name__.rstrip("_").replace("_", "-")] = function
    return function


def read_text(path):
    data = pathlib.Path(path).read_bytes()
    return (lzma.decompress(data) if str(path).endswith(".xz") else data).decode()


def read_runs(name):
    """The runs of a file by name; a file of a benchmark is one run."""
    path, _, wanted = name.partition(":")
    data = json.loads(read_text(path))
    several = isinstance(data, dict) and isinstance(data.get("runs"), dict)
    runs = data["runs"] if several else {pathlib.Path(path).name: data}
    return {wanted: runs[wanted]} if wanted else runs


def read(name):
    runs = list(read_runs(name).values())
    if len(runs) != 1:
        sys.exit(f"{name} holds {len(runs)} runs: name one behind a colon, of {', '.join(read_runs(name))}")
    return runs[0]


def mean(values):
    values = list(values)
    return math.exp(statistics.fmean(map(math.log, values))) if values else float("nan")


def options(words, **defaults):
    """The words without `--name VALUE`, and these values; a flag has the default False."""
    values, rest, words = dict(defaults), [], list(words)
    while words:
        word = words.pop(0)
        name = word[2:].replace("-", "_")
        if not word.startswith("--"):
            rest.append(word)
        elif name not in defaults:
            sys.exit(f"{word} is not an option here, but {', '.join('--' + known for known in defaults) or 'none is'}")
        elif defaults[name] is False:
            values[name] = True
        else:
            values[name] = type(defaults[name])(words.pop(0))
    return rest, values


def labelled(words):
    """LABEL=FILE, or FILE."""
    return [(word.partition("=")[0] if "=" in word else "", word.rpartition("=")[2]) for word in words]


def head(*titles):
    """A title that begins with '>' has its column to the right."""
    print("| " + " | ".join(title.lstrip(">") for title in titles) + " |")
    print("|" + "|".join("--:" if title.startswith(">") else "---" for title in titles) + "|")


def row(*cells):
    print("| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |")


def figure(value, digits):
    """Empty for what was not measured."""
    return f"{value:.{digits}f}" if math.isfinite(value) else ""


def least(values):
    """Infinite if there is no time, such as for a library that a build does not have."""
    return min(values, default=math.inf)


def gpu_of(data):
    """The name of the GPU; empty on a host."""
    return data["machine"].get("gpu") or data.get("gpu") or data.get("gpu_before", "").strip('"').split(",")[0]


def measured_at(data, more=""):
    machine = data["machine"]
    date = machine["date"].replace("T", " ")[:16]
    peers = ", ".join(f"{name} {version}" for name, version in data.get("peers", {}).items() if version != "absent")
    gpu = gpu_of(data)
    cores = "" if gpu else f", {machine['cores']} cores, {machine['threads']} threads"
    print(f"{date} UTC, commit {machine['commit']}, {gpu or machine['processor']}{cores}, {machine['compiler']}"
          f"{'; ' + peers if peers else ''}{more}.\n")


class Plot:
    """A small plot as SVG: a frame of linear axes, points, lines, a legend. x and y are (least, greatest)."""

    def __init__(self, x, y, x_title, y_title, width=900, height=420, title=""):
        self.x, self.y, self.width, self.height = x, y, width, height
        self.left, self.bottom, self.top = 60, 50, 20
        self.items = []
        self._text(width / 2, height - 8, x_title)
        self.items.append(f'<text x="14" y="{height / 2}" transform="rotate(-90 14 {height / 2})" '
                          f'text-anchor="middle">{y_title}</text>')
        if title:
            self._text(width / 2, 14, title)

    def _text(self, x, y, text, anchor="middle"):
        self.items.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>')

    def place(self, x, y):
        """What lies beyond y is drawn at its edge."""
        y = min(max(y, self.y[0]), self.y[1])
        return (self.left + (x - self.x[0]) / (self.x[1] - self.x[0]) * (self.width - self.left - 20),
                self.top + (self.y[1] - y) / (self.y[1] - self.y[0]) * (self.height - self.bottom - self.top))

    def horizontals(self, ys, strong=None):
        for y in ys:
            (ax, ay), (bx, _) = self.place(self.x[0], y), self.place(self.x[1], y)
            colour = "#444" if y == strong else "#ddd"
            self.items.append(f'<line x1="{ax:.1f}" y1="{ay:.1f}" x2="{bx:.1f}" y2="{ay:.1f}" stroke="{colour}"/>')
            self._text(self.left - 8, ay + 4, f"{y:.1f}", "end")

    def x_labels(self, labels):
        for x, text in labels:
            if self.x[0] <= x <= self.x[1]:
                px, py = self.place(x, self.y[0])
                self._text(px, py + 18, text)

    def point(self, x, y, colour, title=""):
        px, py = self.place(x, y)
        self.items.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour}" '
                          f'fill-opacity="0.7"><title>{title}</title></circle>')

    def line(self, points, colour, dashed=False):
        text = " ".join("{:.1f},{:.1f}".format(*self.place(x, y)) for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.items.append(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>')

    def legend(self, entries, x=None, y=34):
        x = self.left + 20 if x is None else x
        for i, (label, colour) in enumerate(entries):
            at = y + 18 * i
            self.items.append(f'<circle cx="{x:.1f}" cy="{at}" r="4" fill="{colour}"/><text x="{x + 10:.1f}" '
                              f'y="{at + 4}">{label}</text>')

    def write(self, path, *others):
        """This plot, and others to its right."""
        plots = [self, *others]
        width, height = sum(p.width for p in plots), max(p.height for p in plots)
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
               'font-size="12">', f'<rect width="{width}" height="{height}" fill="white"/>']
        at = 0
        for plot in plots:
            out += [f'<g transform="translate({at} 0)">', *plot.items, "</g>"]
            at += plot.width
        pathlib.Path(path).write_text("\n".join([*out, "</svg>"]) + "\n")
