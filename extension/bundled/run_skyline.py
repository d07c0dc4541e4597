"""Runs the Skyline installed in this environment, or the bundled copy next to this file.

``python run_skyline.py [--bundled] ARGUMENTS`` is ``skyline ARGUMENTS``. Start it by its path, not as a module, so
that no file of the workspace can shadow a module of the standard library. Without ``--bundled`` the environment's own
packages come first, and the copy provides the missing ones. NumPy always comes from the environment.
"""

import importlib.util
import sys

from interpreter_fit import LIBS, misfit, own_name

CAPTURE_IMPOSSIBLE = 3  # The exit code of Skyline's command line if the environment lacks a requirement.


def main():
    """Run Skyline's command line."""
    bundled_first = sys.argv[1:2] == ["--bundled"]
    if bundled_first:
        del sys.argv[1]
    if sys.version_info < (3, 10):
        return refuse("is %s, and Skyline needs Python 3.10 or newer" % own_name())
    sys.path.pop(0)
    bundled = bundled_first or importlib.util.find_spec("skyline_lsp") is None
    if bundled:
        reason = misfit()
        if reason is not None:
            return refuse(reason)
        if sys.argv[1:2] == ["tui"]:
            return refuse(
                "has no terminal UI, which is not part of the extension: run pip install skyline-profiler"
            )
        # Use all bundled packages: Skyline is tested with these versions together.
        sys.path.insert(0, LIBS)
    else:
        sys.path.append(LIBS)
    sys.argv[0] = "skyline"
    from skyline.cli.main import main as skyline

    return skyline()


def refuse(reason):
    """Print the reason why this interpreter cannot run Skyline."""
    sys.stderr.write("skyline: %s %s\n" % (sys.executable, reason))
    return CAPTURE_IMPOSSIBLE


if __name__ == "__main__":
    sys.exit(main())
