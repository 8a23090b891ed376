"""A small plot as SVG, without any library: a frame of linear axes, points, lines, a legend."""


class Plot:
    """x and y are (least, greatest); what lies beyond y is drawn at its edge. Several panels: give `at`, the offset."""

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
        y = min(max(y, self.y[0]), self.y[1])
        return (self.left + (x - self.x[0]) / (self.x[1] - self.x[0]) * (self.width - self.left - 20),
                self.top + (self.y[1] - y) / (self.y[1] - self.y[0]) * (self.height - self.bottom - self.top))

    def horizontals(self, ys, strong=None, label="{:.1f}"):
        """Lines at these heights, or at (height, text)."""
        for item in ys:
            y, text = item if isinstance(item, tuple) else (item, label.format(item))
            (ax, ay), (bx, _) = self.place(self.x[0], y), self.place(self.x[1], y)
            colour = "#444" if y == strong else "#ddd"
            self.items.append(f'<line x1="{ax:.1f}" y1="{ay:.1f}" x2="{bx:.1f}" y2="{ay:.1f}" stroke="{colour}"/>')
            self._text(self.left - 8, ay + 4, text, "end")

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

    def write(self, path, *beside):
        """This plot and others beside it."""
        plots = [self, *beside]
        width, height = sum(p.width for p in plots), max(p.height for p in plots)
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
               'font-size="12">',
               f'<rect width="{width}" height="{height}" fill="white"/>']
        at = 0
        for plot in plots:
            out += [f'<g transform="translate({at} 0)">', *plot.items, "</g>"]
            at += plot.width
        with open(path, "w") as file:
            file.write("\n".join([*out, "</svg>"]) + "\n")
