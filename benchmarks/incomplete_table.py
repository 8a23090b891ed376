#!/usr/bin/env python3
"""A Markdown table of what incomplete_benchmark wrote: incomplete_table.py AFTER.json [BEFORE.json]

Times in milliseconds. With BEFORE our rows of an older commit stand between."""
import json
import sys


def rows_of(path, name):
    data = json.loads(open(path).read())
    for row in data["factors"]:
        library = row["library"] if row["library"] != "protean" or not name else f"protean {name}"
        yield (row["matrix"], row["factors"]), (library, row)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    table = {}
    for key, (library, row) in rows_of(sys.argv[1], ""):
        table.setdefault(key, []).append((library, row))
    if len(sys.argv) == 3:
        for key, (library, row) in rows_of(sys.argv[2], "before"):
            if library.startswith("protean") and key in table:
                at = sum(1 for name, _ in table[key] if name.startswith("protean"))
                table[key].insert(at, (library, row))
    keys = ("setup", "new_values", "new_values_packed", "apply", "apply_columns")
    print("| matrix | rows | entries | factors | library | threads | setup | new values | from sell-packed | apply | "
          "8 columns |")
    print("|---|--:|--:|---|---|--:|--:|--:|--:|--:|--:|")
    for (matrix, kind), rows in table.items():
        for library, row in rows:
            cells = [f"{1e3 * row[key + '_seconds']:.2f}" if key + "_seconds" in row else "" for key in keys]
            what = f" ({row['what']})" if row["what"] else ""
            print(f"| {matrix} | {row['rows']:,} | {row['entries']:,} | {kind} | {library}{what} | {row['threads']} | "
                  + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
