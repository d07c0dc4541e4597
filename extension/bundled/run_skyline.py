"""Runs Skyline as it is installed in this environment, or the copy that lies beside this file.

``python run_skyline.py [--bundled] ARGUMENTS`` is ``skyline ARGUMENTS``. Started by its path, and not as a module, so
that no file of the workspace can stand in for one of the standard library. Without ``--bundled`` the environment's own
packages come first, and the copy fills in what is not there. NumPy is the environment's in either case.
"""

import importlib.util
import sys

from interpreter_fit import LIBS, misfit, own_name

CAPTURE_IMPOSSIBLE = 3  # The exit code of Skyline's own command line where the environment lacks something.


def main():
    """Hand over to Skyline's own command line."""
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
                "has no terminal interface, which does not come with the extension: pip install skyline-profiler"
            )
        # All of them together: Skyline is tried with the versions that it brings.
        sys.path.insert(0, LIBS)
    else:
        sys.path.append(LIBS)
    sys.argv[0] = "skyline"
    from skyline.cli.main import main as skyline

    return skyline()


def refuse(reason):
    """Say why it cannot be run by this interpreter."""
    sys.stderr.write("skyline: %s %s\n" % (sys.executable, reason))
    return CAPTURE_IMPOSSIBLE


if __name__ == "__main__":
    sys.exit(main())
