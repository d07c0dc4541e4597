"""``python -P -m skyline_lsp``."""

from __future__ import annotations

import sys

from skyline_lsp.main import main

if __name__ == "__main__":
    sys.exit(main())
