from __future__ import annotations

import sys
from pathlib import Path

# For `recomputed`, which the tests of this directory share.
sys.path.append(str(Path(__file__).parent))
