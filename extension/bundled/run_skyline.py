"""Runs Skyline as it is installed in this environment, or the copy that lies beside this file.

``python run_skyline.py [--bundled] ARGUMENTS`` is ``skyline ARGUMENTS``. Started by its path, and not as a module, so
that no file of the workspace can stand in for one of the standard library. Without ``--bundled`` the environment's own
packages come first, and the copy fills in what is not there.
"""

import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def arrange(bundled_first):
    """Put the folders of the bundled packages where they belong on the path."""
    sys.path.pop(0)
    tag = "cp%d%d" % sys.version_info[:2]
    folders = [
        folder for folder in (os.path.join(HERE, "libs"), os.path.join(HERE, tag)) if os.path.isdir(folder)
    ]
    if bundled_first or importlib.util.find_spec("skyline_lsp") is None:
        # All of them together: Skyline is tried with the versions that it brings.
        sys.path[:0] = folders
    else:
        sys.path.extend(folders)


def main():
    """Hand over to Skyline's own command line."""
    bundled_first = sys.argv[1:2] == ["--bundled"]
    if bundled_first:
        del sys.argv[1]
    if sys.version_info < (3, 10):
        sys.stderr.write("Skyline needs Python 3.10 or newer, this is %d.%d\n" % sys.version_info[:2])
        return 3
    arrange(bundled_first)
    sys.argv[0] = "skyline"
    from skyline.cli.main import main as skyline

    return skyline()


if __name__ == "__main__":
    sys.exit(main())
