from __future__ import annotations

import sys
from pathlib import Path

# For `plain_windows` and `window_kinds`, which the tests of this directory share.
sys.path.append(str(Path(__file__).parent))
