"""The site: Sphinx over the pages of the repository, which stay readable on their own.

The source folder is that of the repository, so that a link between two pages is the same here and in a clone.
`make docs` calls it (docs/site/build.sh). Nothing is fetched when a page is read: scripts and styles are in the build.
"""

import os
import pathlib
import re
import sys
import zipfile

import breathe.directives.file as breathe_file
from breathe.renderer import TaggedNode

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "interfaces/python"))

project = "Protean"
author = "the authors of Protean"
copyright = "the authors of Protean"
version = release = re.search(r"project\(Protean VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text())[1]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "breathe",
]
root_doc = "docs/site/index"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/**",
    "examples/README.md",
    "examples/how-to/*/README.md",
    "problems/README.md",
    "problems/matrices/README.md",
    "interfaces/python/README.md",
]
exclude_patterns = ["docs/site/requirements.txt", "build/**"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

# Notebooks are executed by the tests; the site shows what they hold.
nb_execution_mode = "off"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = [
    "myst.header",  # pages that other pages include may begin with a second heading
    "duplicate_declaration.cpp",  # each header opens the same namespace
    "toc.not_included",  # the pages of results are reached from their own table
    "misc.highlighting_failure",  # fences without a language are output
]

# The extension need not be built for the reference of the modules.
autodoc_mock_imports = ["protean._core"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
add_module_names = False

breathe_projects = {"protean": os.environ.get("PROTEAN_DOXYGEN_XML", "")}
breathe_default_project = "protean"
breathe_default_members = ("members",)
breathe_show_include = False
cpp_id_attributes = ["PROTEAN_EXPORT", "PROTEAN_HIDDEN"]
cpp_maximum_signature_line_length = 100

highlight_language = "text"

html_theme = "furo"
html_title = f"Protean {version}"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["style.css"]

_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def _links(app, document, source):
    """A link to a folder leads to its README, if that is a page.

    Else its text stands alone, as that of a link to a page that is not part of the site.
    """
    here = (root / document).parent
    pages = {str(app.env.doc2path(name, base=False)) for name in app.env.found_docs}

    def is_page(path):
        return os.path.relpath(path, root) in pages

    def change(match):
        text, target = match[1], match[2].split("#")[0]
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        path = (here / target).resolve()
        if path.is_dir():
            return f"[{text}]({target.rstrip('/')}/README.md)" if is_page(path / "README.md") else text
        return text if path.suffix in (".md", ".ipynb") and not is_page(path) else match[0]

    source[0] = _LINK.sub(change, source[0])


def _offer(app, document, source):
    """The page of a how-to ends with a link to its folder."""
    if document.startswith("examples/how-to/"):
        source[0] += f'\n<p><a href="../{pathlib.Path(document).parent.name}.zip">Download this folder</a></p>\n'


def _pack(app, exception):
    """The folders that _offer() has named."""
    for folder in sorted((root / "examples/how-to").iterdir()):
        target = pathlib.Path(app.outdir) / f"examples/how-to/{folder.name}.zip"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.iterdir()):
                # A fixed date, so that the same files make the same archive.
                entry = zipfile.ZipInfo(f"{folder.name}/{path.name}", (2026, 1, 1, 0, 0, 0))
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def _find_file(filename, d_parser, project_info, index, matches):
    """Breathe looks for a header by its name alone; two folders have an options.hpp."""
    for compound in index.file_compounds:
        if os.path.basename(filename) != compound.name:
            continue
        for found in d_parser.parse_compound(compound.refid, project_info).root.compounddef:
            if found.location is not None and breathe_file.path_matches(found.location.file, filename):
                matches.append([TaggedNode(None, found)])


breathe_file.file_finder_filter = _find_file


def setup(app):
    app.connect("source-read", _links)
    app.connect("source-read", _offer)
    app.connect("build-finished", _pack)
    return {"parallel_read_safe": True}
