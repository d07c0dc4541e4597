"""``python -m skyline``: the same as the ``skyline`` command."""

from __future__ import annotations

import sys

from skyline.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
