"""Sphinx: pages in MyST Markdown, their Python executed while building; no network is used."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "_extensions"), str(ROOT / "src")]

# The kernels that execute the pages are processes of their own: they are told by the environment.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(HERE / "_extensions"), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
)
os.environ["MATPLOTLIBRC"] = str(HERE / "_extensions" / "matplotlibrc")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Debuggers warn when modules are frozen, and a warning on a page is a line nobody asked for.
os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")

from credax import __version__  # noqa: E402

project = "credax"
author = "the credax authors"
copyright = "the credax authors, Apache License 2.0"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "reference",
]
exclude_patterns = ["_build", "_extensions"]
default_role = "py:obj"
suppress_warnings = ["misc.highlighting_failure"]

nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_show_tb = True  # with --fail-on-warning a cell that raises fails the build
nb_execution_timeout = 300
nb_render_markdown_format = "myst"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
python_maximum_signature_line_length = 88
viewcode_line_numbers = True

html_theme = "furo"
html_title = f"credax {release}"
html_static_path = ["_static"]
html_css_files = ["credax.css"]
html_copy_source = False
html_show_sphinx = False

# Formulas as MathML are drawn by the browser itself. MathJax would be fetched from the network by
# whoever reads the page, so it is the second choice, for machines without latex2mathml.
if find_spec("latex2mathml"):
    extensions.append("mathml")
    html_math_renderer = "mathml"
# Progress lines of a training are for logs, not for pages.
nb_output_stderr = "remove"
